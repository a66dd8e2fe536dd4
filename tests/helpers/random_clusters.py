"""Random small clusters, with everything in them that a plan has to respect.

A ``Recipe`` says how many pods, pools, types and machines there are and from which seed each is
made, so that leaving one out leaves the others as they were. Its ``question`` is in wire models:
``problem`` is the input of the solver and ``cluster`` that of the independent checker.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from helpers.builders.catalogues import (
    CORES,
    FACTS_F,
    PLACES,
    SIZE,
    instance_type,
    offering,
    reserved,
)
from helpers.builders.machines import launching_node, managed_node, node_pool, unmanaged_node
from helpers.builders.parts import (
    NOW,
    expression,
    min_values,
    pod_term,
    selector,
    spread,
    taint,
    toleration,
)
from helpers.builders.surroundings import pv, pvc, storage_class
from helpers.builders.workloads import PodOptions, daemon_pod, daemon_set, pod
from karpenter.api.karpenter import NodePool, NodeRequirement
from karpenter.api.pods import (
    ContainerPort,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.api.workloads import DaemonSet
from karpenter.checker.inputs import Cluster, Policies
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.topology_groups import NamespaceDirectory
from karpenter.scheduling.inputs.daemons import daemons_of
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.inputs.volumes import node_volumes, resolve_volumes
from karpenter.scheduling.problem import Options, PoolCatalogue, Problem
from karpenter.state.nodes import StateNode

ZONES: Final = ("z1", "z2", "z3")
TEAM: Final = "team"  # a label only pools define
DRIVER: Final = "csi.example.com"
NAMESPACES: Final = {"default": {"env": "prod"}, "other": {"env": "dev"}}
TAINTS: Final = ("dedicated=x:NoSchedule", "evict:NoExecute", "rather-not:PreferNoSchedule")

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """Pods that wait in a cluster, in wire models."""

    pods: tuple[Pod, ...]
    pools: tuple[NodePool, ...]
    types: tuple[InstanceType, ...]
    nodes: tuple[StateNode, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    default_spread: tuple[TopologySpreadConstraint, ...] = ()  # of pods that state none
    options: Options = field(default_factory=Options)

    @property
    def problem(self) -> Problem:
        """The question as a problem of the solver."""
        storage = Storage(
            {f"{c.metadata.namespace}/{c.metadata.name}": c for c in self.claims},
            {v.metadata.name: v for v in self.volumes},
            {c.metadata.name: c for c in self.storage_classes},
        )
        return Problem(
            pods=self.pods,
            nodes=self.nodes,
            pools=self._catalogues,
            facts=FACTS_F,
            options=self.options,
            daemons=tuple(
                daemons_of(self.daemon_sets, self._daemon_pods, ignore_device_claims=True)
            ),
            namespaces=NamespaceDirectory(NAMESPACES),
            volumes=resolve_volumes(self.pods, storage).by_pod,
            node_volumes=node_volumes(self.nodes, self._catalogues, storage),
            default_spread=self._spread_by_uid,
        )

    @property
    def cluster(self) -> Cluster:
        """The question as the input of the checker."""
        return Cluster(
            pods=self.pods,
            machines=self.nodes,
            pools=self._catalogues,
            facts=FACTS_F,
            policies=Policies(
                best_effort_min_values=self.options.best_effort_min_values,
                reserved_capacity=self.options.reserved_capacity,
                most_instance_types=self.options.most_instance_types,
            ),
            daemon_sets=self.daemon_sets,
            daemon_pods=self._daemon_pods,
            namespaces=NAMESPACES,
            claims=self.claims,
            volumes=self.volumes,
            storage_classes=self.storage_classes,
            default_spread=self._spread_by_uid,
        )

    def shuffled(self, random: Random) -> "Question":
        """The same question with everything in another order."""

        def mixed(items: Sequence[T]) -> tuple[T, ...]:
            return tuple(random.sample(items, len(items)))

        return replace(
            self,
            pods=mixed(self.pods),
            pools=mixed(self.pools),
            types=tuple(t.with_offerings(mixed(t.offerings)) for t in mixed(self.types)),
            nodes=tuple(replace(node, pods=mixed(node.pods)) for node in mixed(self.nodes)),
            daemon_sets=mixed(self.daemon_sets),
            claims=mixed(self.claims),
            volumes=mixed(self.volumes),
            storage_classes=mixed(self.storage_classes),
        )

    @property
    def _catalogues(self) -> tuple[PoolCatalogue, ...]:
        return tuple(PoolCatalogue(pool, self.types) for pool in self.pools)

    @property
    def _spread_by_uid(self) -> dict[str, tuple[TopologySpreadConstraint, ...]]:
        return {
            pod.metadata.uid: self.default_spread
            for pod in self.pods
            if self.default_spread and not pod.spec.topology_spread_constraints
        }

    @property
    def _daemon_pods(self) -> tuple[Pod, ...]:
        return tuple(
            pod
            for node in self.nodes
            for pod in node.pods
            if any(o.kind == "DaemonSet" for o in pod.metadata.owner_references)
        )


@dataclass(frozen=True)
class Recipe:
    """How to make a question; what is made of one seed does not depend on the other numbers."""

    seed: int
    kinds: tuple[int, ...]  # how many pods there are of each kind
    pools: int
    types: int
    nodes: int = 0
    daemons: int = 0
    topology: bool = True  # pods have (anti-)affinity, spread constraints and volumes
    limits: bool = True  # some pools have limits
    reservations: bool = True

    @cached_property
    def question(self) -> Question:
        """The question made from this recipe."""
        daemons = tuple(_daemon_set(self._random("daemon", n), n) for n in range(self.daemons))
        return Question(
            pods=tuple(
                pod(f"p{kind}-{n}", **_pod_options(self._random("pods", kind), self.topology))
                for kind, count in enumerate(self.kinds)
                for n in range(count)
            ),
            pools=tuple(
                _pool(self._random("pool", n), "abc"[n], self.limits) for n in range(self.pools)
            ),
            types=tuple(
                _type(self._random("type", n), f"t{n}", self.reservations)
                for n in range(self.types)
            ),
            nodes=tuple(
                _machine(self._random("node", n), f"n{n}", daemons, self.topology)
                for n in range(self.nodes)
            ),
            daemon_sets=daemons,
            claims=tuple(
                pvc(f"c{n}", namespace=namespace, storage_class="zonal", volume="" if n else "v0")
                for n in range(3)
                for namespace in NAMESPACES
            ),
            volumes=(pv("v0", driver=DRIVER, terms=[[expression(keys.ZONE, "In", "z2", "z3")]]),),
            storage_classes=(storage_class("zonal", provisioner=DRIVER, zones=("z1", "z2")),),
            default_spread=_default_spread(self._random("spread", 0)) if self.topology else (),
            options=_options(self._random("options", 0)),
        )

    def _random(self, what: str, number: int) -> Random:
        return Random(f"{self.seed} {what} {number}")


def recipes(
    *,
    topology: bool = True,
    limits: bool = True,
    reservations: bool = True,
    nodes: int = 5,
) -> st.SearchStrategy[Recipe]:
    """Recipes for clusters that have up to so many of everything."""
    return st.builds(
        Recipe,
        seed=st.integers(0, 2**32),
        kinds=st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple),
        pools=st.integers(1, 3),
        types=st.integers(3, 6),
        nodes=st.integers(0, nodes),
        daemons=st.integers(0, 2),
        topology=st.just(topology),
        limits=st.just(limits),
        reservations=st.just(reservations),
    )


def _at_times(random: Random, make: Callable[[], list[T]]) -> list[T]:
    return make() if random.random() < 0.3 else []


def _some(random: Random, values: Sequence[T]) -> list[T]:
    return random.sample(values, random.randint(1, len(values)))


def _options(random: Random) -> Options:
    return Options(
        respect_preferences=random.random() < 0.8,
        best_effort_min_values=random.random() < 0.2,
        reserved_capacity=random.random() < 0.8,
        strict_reservations=random.random() < 0.8,
        most_instance_types=random.choice((600, 600, 600, 3)),
    )


def _type(random: Random, name: str, reservations: bool) -> InstanceType:
    booked = [
        reserved(each, random.randint(0, 2), random.choice(ZONES))
        for each in ("r-1", "r-2")
        if reservations and random.random() < 0.15
    ]
    return instance_type(
        name,
        cpu=random.choice(("1", "2", "4", "4", "8", "16")),
        memory=random.choice(("1Gi", "4Gi", "8Gi", "32Gi")),
        slots=random.choice((2, 5, 30)),
        resources=random.choice(({}, {}, {"acme/gpu": "2"})),
        arch=random.choice(("amd64", "amd64", "arm64")),
        offerings=[_offering(random, *place) for place in _some(random, PLACES)],
        reservations=booked,
        attach_limits=random.choice(({}, {}, {DRIVER: 1})),
    )


def _offering(random: Random, zone: str, capacity_type: str) -> Offering:
    return offering(
        zone,
        capacity_type,
        random.choice((0.1, 0.2, 0.2, 0.5, 1.0, 3.0)),
        available=random.random() < 0.85,
        capacity=random.choice((None, None, None, None, {"cpu": "2"}, {"acme/gpu": "1"})),
    )


def _expression(random: Random) -> NodeSelectorRequirement:
    match random.randrange(9):
        case 0 | 1:
            return expression(keys.ZONE, "In", *_some(random, ZONES))
        case 2:
            return expression(keys.ZONE, "NotIn", *_some(random, ZONES[:2]))
        case 3:
            return expression(keys.CAPACITY_TYPE, "In", random.choice(("spot", "on-demand")))
        case 4:
            return expression(keys.ARCH, "In", random.choice(("amd64", "arm64")))
        case 5:
            return expression(
                SIZE, random.choice(("In", "NotIn")), random.choice(("large", "small"))
            )
        case 6:
            operator = random.choice(("Gt", "Lt", "Gte", "Lte"))
            return expression(CORES, operator, random.choice(("1", "3", "4", "8")))
        case 7:
            return expression(keys.INSTANCE_TYPE, "In", *_some(random, ("t0", "t1", "t2", "t9")))
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    return expression(TEAM, operator, *(random.choice("ab") if "In" in operator else ()))


def random_expressions(random: Random, most: int) -> list[NodeSelectorRequirement]:
    """Up to so many, one per label: ``Exists`` merged with ``NotIn`` would lose the former."""
    found = {e.key: e for e in (_expression(random) for _ in range(random.randint(1, most)))}
    return list(found.values())


def _tolerations(random: Random) -> list[Toleration]:
    return _some(
        random,
        (
            toleration("dedicated", "Equal", "x"),
            toleration("dedicated", "Exists"),
            toleration("evict", effect="NoExecute"),
            toleration("rather-not", effect="PreferNoSchedule"),
            toleration(),
        ),
    )[:2]


def _pool(random: Random, name: str, limited: bool) -> NodePool:
    requirements: list[NodeSelectorRequirement | NodeRequirement] = [
        *_at_times(random, lambda: random_expressions(random, 2))
    ]
    about_team = any(entry.key == TEAM for entry in requirements)
    if random.random() < 0.25:
        key = random.choice((keys.INSTANCE_TYPE, keys.ZONE, keys.CAPACITY_TYPE))
        requirements.append(min_values(random.randint(1, 3), key))
    limits = random.choice(
        ({"cpu": "8"}, {"nodes": "2"}, {"memory": "16Gi", "cpu": "20"}, {"cpu": "0"})
    )
    has_limits = random.random() < 0.25
    return node_pool(
        name,
        requirements=requirements,
        labels=random.choice(({}, {"tier": "web"}, {"tier": "web"} if about_team else {TEAM: "a"})),
        taints=[taint(t) for t in _at_times(random, lambda: _some(random, TAINTS))],
        startup_taints=[taint("starting:NoSchedule")] if random.random() < 0.2 else [],
        weight=random.choice((None, None, 10, 50)),
        limits=limits if has_limits and limited else None,
    )


def _term(random: Random) -> PodAffinityTerm:
    return pod_term(
        random.choice(({"app": "t"}, {"app": "u"}, {})),
        random.choice((keys.HOSTNAME, keys.ZONE, keys.CAPACITY_TYPE)),
        namespaces=_at_times(random, lambda: _some(random, ("default", "other"))),
        namespace_selector=random.choice(
            (None, None, None, None, selector(), selector({"env": "prod"}))
        ),
        match_label_keys=["rev"] if random.random() < 0.1 else [],
        mismatch_label_keys=["app"] if random.random() < 0.1 else [],
    )


def _spread(random: Random) -> TopologySpreadConstraint:
    return spread(
        random.choice((keys.ZONE, keys.ZONE, keys.HOSTNAME, keys.CAPACITY_TYPE, TEAM)),
        random.randint(1, 2),
        soft=random.random() < 0.3,
        selector=random.choice((selector({"app": "t"}), selector({"app": "u"}), selector())),
        min_domains=random.choice((None, None, None, 1, 2, 3)),
        match_label_keys=["rev"] if random.random() < 0.2 else [],
        node_affinity_policy=random.choice(("Honor", "Ignore")),
        node_taints_policy=random.choice(("Honor", "Ignore")),
    )


def _default_spread(random: Random) -> tuple[TopologySpreadConstraint, ...]:
    return (_spread(random),) if random.random() < 0.1 else ()


def _pod_options(random: Random, topology: bool) -> PodOptions:
    """A pod with up to three constraints, so that most pods can still be placed."""
    options = PodOptions(
        namespace="other" if random.random() < 0.1 else "default",
        labels=random.choice(
            ({}, {"app": "t"}, {"app": "t"}, {"app": "u"}, {"app": "t", "rev": "1"})
        ),
        cpu=random.choice(("10m", "100m", "500m", "1", "1", "3", "3", "7")),
        memory=random.choice(("1Mi", "512Mi", "512Mi", "1Gi", "6Gi")),
    )
    possible = (*_CONSTRAINTS, *_CONSTRAINTS_BETWEEN_PODS * 2) if topology else _CONSTRAINTS
    for add in random.sample(possible, random.choice((0, 1, 1, 2, 2, 3))):
        add(random, options)
    return options


def _wants_labels(random: Random, options: PodOptions) -> None:
    taken = {e.key for alternative in options.get("required", ()) for e in alternative}
    options["node_selector"] = {
        e.key: e.values[0]
        for e in random_expressions(random, 2)
        if e.operator == "In" and e.key not in taken
    }


def _wants_alternatives(random: Random, options: PodOptions) -> None:
    taken = options.get("node_selector", {})
    alternatives = [random_expressions(random, 2) for _ in range(random.randint(1, 3))]
    options["required"] = [[e for e in one if e.key not in taken] for one in alternatives]


def _prefers_nodes(random: Random, options: PodOptions) -> None:
    options["preferred"] = [
        (random.randint(1, 3), [_expression(random)]) for _ in range(random.randint(1, 2))
    ]


def _tolerates(random: Random, options: PodOptions) -> None:
    options["tolerations"] = _tolerations(random)


def _wants_ports(random: Random, options: PodOptions) -> None:
    options["host_ports"] = random.choice(
        (
            [80],
            [81],
            [ContainerPort(host_port=80, host_ip="10.0.0.1")],
            [
                ContainerPort(host_port=80, host_ip="10.0.0.2"),
                ContainerPort(host_port=81, protocol="UDP"),
            ],
        )
    )


def _wants_much(random: Random, options: PodOptions) -> None:
    options["requests"] = random.choice(({"acme/gpu": "1"}, {"acme/none": "0"}, {"cpu": "100"}))


def _mounts_volumes(random: Random, options: PodOptions) -> None:
    options["claims"] = _some(random, ("c0", "c1", "c2"))


def _wants_neighbours(random: Random, options: PodOptions) -> None:
    options["affinity"] = [_term(random) for _ in range(random.choice((1, 1, 2)))]


def _wants_no_neighbours(random: Random, options: PodOptions) -> None:
    options["anti_affinity"] = [_term(random) for _ in range(random.choice((1, 1, 2)))]


def _prefers_neighbours(random: Random, options: PodOptions) -> None:
    options["preferred_affinity"] = [(random.randint(1, 3), _term(random))]


def _prefers_no_neighbours(random: Random, options: PodOptions) -> None:
    options["preferred_anti_affinity"] = [(random.randint(1, 3), _term(random)) for _ in range(2)]


def _spreads(random: Random, options: PodOptions) -> None:
    options["spread"] = [_spread(random) for _ in range(random.choice((1, 1, 2)))]


_CONSTRAINTS: Final = (
    _wants_labels,
    _wants_alternatives,
    _prefers_nodes,
    _tolerates,
    _wants_ports,
    _wants_much,
)
_CONSTRAINTS_BETWEEN_PODS: Final = (
    _mounts_volumes,
    _wants_neighbours,
    _wants_no_neighbours,
    _prefers_neighbours,
    _prefers_no_neighbours,
    _spreads,
    _spreads,
)


def _machine(random: Random, name: str, daemons: Iterable[DaemonSet], topology: bool) -> StateNode:
    bound = [
        pod(
            f"bound-{name}-{number}",
            **_pod_options(random, topology)
            | PodOptions(node_name=name)
            | (PodOptions(deleted=NOW) if random.random() < 0.2 else PodOptions()),
        )
        for number in range(random.randint(0, 2))
    ]
    bound += [daemon_pod(each, name, cpu="100m") for each in daemons if random.random() < 0.5]
    options: dict[str, Any] = {
        "pool": random.choice(("a", "b", "np")),
        "zone": random.choice((*ZONES, *ZONES, "z9", "")),
        "instance_type": random.choice(("t0", "t1", "unknown")),
        "capacity_type": random.choice(("spot", "on-demand")),
        "labels": random.choice(({}, {}, {TEAM: "a"}, {TEAM: "b"})),
        "cpu": random.choice(("4", "8", "16")),
        "memory": random.choice(("4Gi", "16Gi")),
        "slots": random.choice((3, 8)),
        "taints": [taint(t) for t in _at_times(random, lambda: _some(random, _NODE_TAINTS))],
        "startup_taints": [taint("starting:NoSchedule")],
    }
    match random.randrange(6):
        case 0:
            return launching_node(name, **options)
        case 1:
            return unmanaged_node(name, pods=bound, **options | {"pool": ""})
        case 2:
            return managed_node(name, pods=bound, initialized=False, **options)
        case 3:
            return managed_node(name, pods=bound, marked=True, **options)
    return managed_node(name, pods=bound, **options)


_NODE_TAINTS: Final = (*TAINTS, "starting:NoSchedule", "node.kubernetes.io/not-ready:NoExecute")


def _daemon_set(random: Random, number: int) -> DaemonSet:
    return daemon_set(
        f"d{number}",
        cpu=random.choice(("100m", "1", "3")),
        memory="1Mi",
        required=[[_expression(random)] for _ in range(random.choice((0, 0, 1, 2)))],
        tolerations=_at_times(random, lambda: _tolerations(random)),
        host_ports=[80] if random.random() < 0.2 else [],
    )
