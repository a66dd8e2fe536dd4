"""What a disruption pass keeps from those before it changes nothing: each decides as if it were the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import FACTS_F, NOW, owner, pod_term, selector, spread
from helpers.disruption import catalogue_of, snapshot
from helpers.disruption_objects import (
    WEB,
    PoolOptions,
    Standing,
    kind,
    machine,
    on_demand,
    pdb_of,
    pod_on,
    pool,
    spot,
)
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.cloud.types import InstanceType
from karpenter.disruption.candidates import Blocked, Candidate, Kind
from karpenter.disruption.commands import Finding
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.known_machines import KnownMachines
from karpenter.disruption.plan import METHODS, Search
from karpenter.disruption.projected_state import ProjectedState
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.problem import CostOptions, Options
from karpenter.scheduling.provisioning import PassSettings
from karpenter.state.nodes import StateNode

ZONES: Final = ("z1", "z2")
NAMESPACES: Final = ("default", "other")
MINUTE: Final = timedelta(minutes=1)
SETTINGS: Final = DisruptionSettings(
    planning=PassSettings(options=Options(cost=CostOptions(min_types=1))), spot_to_spot=True
)


@dataclass
class Changing:
    """A cluster to which one thing happens after the other."""

    random: Random
    types: tuple[InstanceType, ...]
    pools: tuple[NodePool, ...]
    nodes: list[StateNode] = field(default_factory=list)
    pdbs: list[PodDisruptionBudget] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    now: datetime = NOW
    count: int = 0

    def look(
        self, known: KnownMachines | None = None, compiler: Compiler | None = None
    ) -> DisruptionContext:
        """One pass over the cluster as it is now."""
        return DisruptionContext(
            snapshot(*self.nodes, pools=self.pools, pdbs=self.pdbs, pods=self.waiting),
            catalogue_of({"types": self.types}),
            FACTS_F,
            SETTINGS,
            now=self.now,
            known=known,
            compiler=compiler,
        )

    def happen(self) -> None:
        """Let something happen."""
        changes: list[tuple[int, Callable[[], None]]] = [
            (4, self._pods_move),
            (2, self._machine_comes),
            (1, self._machine_goes),
            (2, self._machine_changes),
            (4, self._pdb_changes),
            (2, self._time_passes),
            (1, self._pool_changes),
            (1, self._prices_move),
            (2, self._pod_waits),
        ]
        weights = [weight for weight, _ in changes]
        self.random.choices([change for _, change in changes], weights)[0]()

    def new_machine(self) -> StateNode:
        made = self.random.choice(self.types)
        way = self.random.choice(made.offerings)
        pods = [self._pod() for _ in range(self.random.randrange(4))]
        options = Standing(
            instance_type=made.name,
            zone=way.zone,
            capacity_type=way.capacity_type,
            types=self.types,
            pool=self.random.choice(self.pools).metadata.name,
        )
        if self.random.random() < 0.2:
            options["grace_period"] = "1h"
        if self.random.random() < 0.2:
            options["last_pod_event"] = self.now
        self.count += 1
        return machine(f"n{self.count}", *pods, **options)

    def new_pdb(self) -> PodDisruptionBudget:
        self.count += 1
        return pdb_of(
            self.random.randrange(2),
            name=f"b{self.random.randrange(3)}-{self.count}",
            namespace=self.random.choice(NAMESPACES),
            labels={"app": self.random.choice(("held", "web", "web", "api"))},
            max_unavailable=self.random.choice((0, 1, 1, 1, "0%", "50%")),
            unhealthy_policy=self.random.choice(("", "AlwaysAllow")),
        )

    def _pods_move(self) -> None:
        """Pods end, come or change on some machines."""
        for number, each in enumerate(self.nodes):
            if self.random.random() < 0.3:
                pods = [pod for pod in each.pods if self.random.random() < 0.7]
                pods += [
                    msgspec.structs.replace(
                        pod, spec=msgspec.structs.replace(pod.spec, node_name=each.name)
                    )
                    for pod in (self._pod() for _ in range(self.random.randrange(2)))
                ]
                self.nodes[number] = replace(each, pods=tuple(pods))

    def _machine_comes(self) -> None:
        self.nodes.append(self.new_machine())

    def _machine_goes(self) -> None:
        if self.nodes:
            self.nodes.pop(self.random.randrange(len(self.nodes)))

    def _machine_changes(self) -> None:
        if self.nodes:
            number = self.random.randrange(len(self.nodes))
            each = self.nodes[number]
            until = self.now + self.random.choice((-1, 1, 3)) * MINUTE
            self.nodes[number] = self.random.choice(
                (replace(each, is_marked=not each.is_marked), replace(each, nominated_until=until))
            )

    def _pdb_changes(self) -> None:
        if not self.pdbs or self.random.random() < 0.1:
            self.pdbs.append(self.new_pdb())
            return
        number = self.random.randrange(len(self.pdbs))
        if self.random.random() < 0.2:
            self.pdbs.pop(number)
            return
        old = self.pdbs[number]
        changed = msgspec.structs.replace(
            old.status,
            disruptions_allowed=self.random.choice((0, 0, 1)),
            expected_pods=self.random.randrange(3),
        )
        self.pdbs[number] = msgspec.structs.replace(old, status=changed)

    def _time_passes(self) -> None:
        """Clocks are also set back."""
        self.now += self.random.choice((-3, -1, 1, 1, 2, 5, 10)) * MINUTE

    def _pool_changes(self) -> None:
        number = self.random.randrange(len(self.pools))
        made = _pool(self.random, self.pools[number].metadata.name)
        self.pools = (*self.pools[:number], made, *self.pools[number + 1 :])

    def _prices_move(self) -> None:
        self.types = tuple(_type(self.random, each.name) for each in self.types)

    def _pod_waits(self) -> None:
        if self.waiting and self.random.random() < 0.5:
            self.waiting.pop()
        else:
            self.waiting.append(self._pod(node_name=""))

    def _pod(self, node_name: str = "somewhere") -> Pod:
        random = self.random
        self.count += 1
        protection = random.choice((None,) * 16 + ("true", "2m", "10m", "soon"))
        return pod_on(
            f"p{self.count}",
            node_name=node_name,
            namespace=random.choice(NAMESPACES),
            cpu=random.choice(("100m", "300m", "700m", "1500m")),
            labels={"app": random.choice(("web",) * 5 + ("api", "held"))},
            annotations={} if protection is None else {keys.DO_NOT_DISRUPT: protection},
            owners=[owner("DaemonSet" if random.random() < 0.1 else "ReplicaSet", "r")],
            started=self.now - random.randrange(5) * MINUTE,
            priority=random.choice((0, 0, 10**6)),
            spread=[spread(selector=selector(WEB), soft=True)] if random.random() < 0.1 else [],
            anti_affinity=[pod_term({"app": "api"})] if random.random() < 0.1 else [],
        )


def changing(seed: int, nodes: int) -> Changing:
    """A cluster made from a seed."""
    random = Random(seed)
    types = tuple(_type(random, f"t{n}") for n in range(random.randint(2, 4)))
    found = Changing(random, types, tuple(_pool(random, name) for name in "ab"))
    found.nodes = [found.new_machine() for _ in range(nodes)]
    found.pdbs = [found.new_pdb() for _ in range(random.randrange(3))]
    return found


def _type(random: Random, name: str) -> InstanceType:
    ways = [
        make(random.choice((0.5, 0.8, 1.3, 4.0)), zone)
        for zone in ZONES
        for make in (on_demand, spot)
    ]
    return kind(name, int(name[1:]) * 2 + 2, ways=ways)


def _pool(random: Random, name: str) -> NodePool:
    return pool(
        name,
        **PoolOptions(
            budgets=random.choice((["100%"], ["100%"], ["1"])),
            after=random.choice(("0s", "0s", "5m")),
            policy=random.choice(("WhenEmptyOrUnderutilized",) * 3 + ("Balanced",)),
        ),
    )


def _found(view: DisruptionContext) -> list[Finding]:
    search = Search(view)
    return [find(search) for find in METHODS.values()]


def _standing(view: DisruptionContext) -> list[tuple[str, Candidate | Blocked, str]]:
    return [
        (name, each, each.message if isinstance(each, Blocked) else "")
        for how in Kind
        for name, each in view.standing(how).items()
    ]


def _messages(findings: Sequence[Finding]) -> list[list[str]]:
    return [[each.message for each in found.verdicts.values()] for found in findings]


@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_a_pass_decides_whatever_earlier_ones_have_seen(
    seed: int, nodes: int, changes: int
) -> None:
    cluster, known, compiler = changing(seed, nodes), KnownMachines(), Compiler()
    for _ in range(changes):
        kept, anew = cluster.look(known, compiler), cluster.look()

        assert _standing(kept) == _standing(anew)
        found, expected = _found(kept), _found(anew)
        assert found == expected
        assert _messages(found) == _messages(expected)

        for finding in found:
            if finding.commands and cluster.random.random() < 0.3:
                after = ProjectedState(
                    kept.snapshot, FACTS_F, catalogue_of({"types": cluster.types})
                )
                after.begin(finding.commands[0], until=cluster.now + 2 * MINUTE)
                assert _standing(kept.over(after.snapshot)) == _standing(anew.over(after.snapshot))
                cluster.nodes = list(after.snapshot.nodes)
                break
        cluster.happen()
