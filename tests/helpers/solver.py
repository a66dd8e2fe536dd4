"""Ask the solver and read its answer; a step of time turns a plan into the machines it makes.

    answer = solved(pods(3, cpu="1"), pools=[node_pool(limits={"cpu": "4"})])
    assert answer.types == ["std"]
    later = solved([pod("late")], nodes=answer.settled())

By default there is one pool, ``np``, over the types of fixture F. Pods of namespace
``default`` go by their bare names. Whatever is asked, every pod must come back exactly once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypedDict, Unpack

import msgspec

from helpers.builders import FACTS_F, RESERVATION_ID, fixture_types, ledger_of, node_pool
from karpenter.api.karpenter import Commitment, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodes import Node, NodeSpec, NodeStatus
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.api.workloads import DaemonSet
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.topology_groups import NamespaceDirectory
from karpenter.scheduling.inputs.daemons import daemons_of
from karpenter.scheduling.plan import Launch, Plan, PlannedClaim, Why
from karpenter.scheduling.problem import (
    BoundVolumes,
    CostOptions,
    Options,
    PackingMode,
    PodVolumes,
    PoolCatalogue,
    Problem,
)
from karpenter.scheduling.solve import solve
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of

FIXTURE_F: Final = fixture_types()
# Packing by price without what the settings add to or demand of a plan by default
CHEAPEST: Final = CostOptions(
    packing=PackingMode.CHEAPEST, node_cost=0.0, min_types=1, min_spot_types=1, price_slack=0.1
)
TYPES_OF_F: Final = {t.name for t in FIXTURE_F}


class Setting(TypedDict, total=False):
    """What a question may say besides its pods."""

    pools: Sequence[NodePool]  # by default one without requirements, "np"
    types: Sequence[InstanceType]  # by default those of fixture F, for every pool
    types_of: Mapping[str, Sequence[InstanceType]]  # by pool, where it has its own
    nodes: Sequence[StateNode]
    daemon_sets: Sequence[DaemonSet]
    daemon_pods: Sequence[Pod]  # running ones, with the resources that admission gave them
    facts: ProviderFacts  # by default those of fixture F
    options: Options
    commitments: Sequence[Commitment]
    namespaces: Mapping[str, Mapping[str, str]]  # name -> labels
    volumes: Mapping[str, PodVolumes]  # name of the pod -> its volumes
    node_volumes: Mapping[str, BoundVolumes]  # name of the machine -> what it attaches
    default_spread: Mapping[str, tuple[TopologySpreadConstraint, ...]]  # name of the pod


@dataclass(frozen=True)
class Answer:
    """A plan with the question it answers, and short ways to read both."""

    problem: Problem
    plan: Plan

    @property
    def claims(self) -> tuple[PlannedClaim, ...]:
        """The claims to create, in the order they were opened."""
        return self.plan.claims

    @property
    def only(self) -> PlannedClaim:
        """The claim, when there must be exactly one."""
        (claim,) = self.plan.claims
        return claim

    @property
    def types(self) -> list[str]:
        """The instance type each claim launches, sorted."""
        return sorted(launch_of(claim).instance_type for claim in self.claims)

    @property
    def zones(self) -> list[str]:
        """The zone each claim launches in, sorted."""
        return sorted(launch_of(claim).zone for claim in self.claims)

    @property
    def capacity_types(self) -> list[str]:
        """How each claim is paid for, sorted."""
        return sorted(launch_of(claim).capacity_type for claim in self.claims)

    @property
    def pools(self) -> list[str]:
        """The pool of each claim, sorted."""
        return sorted(claim.node_pool for claim in self.claims)

    @property
    def loads(self) -> list[int]:
        """How many pods each claim holds, most first."""
        return sorted((len(claim.pods) for claim in self.claims), reverse=True)

    @cached_property
    def unplaced(self) -> dict[str, set[Why]]:
        """The pods no pool takes, each with the kinds of reasons it got."""
        return {
            bare(entry.pod): {reason.why for reason in entry.reasons}
            for entry in self.plan.unplaced
        }

    @cached_property
    def existing(self) -> dict[str, list[str]]:
        """The pods each machine that exists takes."""
        return {name: [bare(p) for p in pods] for name, pods in self.plan.existing.items()}

    @property
    def deferred(self) -> list[str]:
        """The pods that wait for a reservation."""
        return [bare(pod) for pod in self.plan.deferred]

    @property
    def placed(self) -> list[str]:
        """The pods that go somewhere, sorted."""
        new = (bare(pod) for claim in self.claims for pod in claim.pods)
        return sorted([*new, *(pod for pods in self.existing.values() for pod in pods)])

    @property
    def pods_in_zones(self) -> dict[str, int]:
        """How many pods go on new machines in each zone, which every claim must have settled."""
        found: dict[str, int] = {}
        for claim in self.claims:
            (zone,) = claim.requirements[keys.ZONE].values
            found[zone] = found.get(zone, 0) + len(claim.pods)
        return found

    def pods_by(self, key: str) -> dict[str, int]:
        """How many pods go to each value of a label, on machines new and old.

        A claim that leaves several values open counts as one of them all, written "a|b".
        """
        found: dict[str, int] = {}
        by_name = {node.name: node for node in self.problem.nodes}
        places = [
            *((claim_value(claim, key), len(claim.pods)) for claim in self.claims),
            *(
                (by_name[name].labels.get(key, ""), len(pods))
                for name, pods in self.plan.existing.items()
            ),
        ]
        for value, count in places:
            found[value] = found.get(value, 0) + count
        return found

    def types_left(self, types: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
        """A catalogue after the launches of this plan: each has used up one reserved machine."""
        before = tuple(types)
        used = [_reservation_used(claim, before) for claim in self.claims]
        return tuple(
            each.with_offerings(
                tuple(
                    replace(
                        offering,
                        reservation_capacity=offering.reservation_capacity
                        - used.count(offering.reservation_id),
                    )
                    if offering.is_reserved
                    else offering
                    for offering in each.offerings
                )
            )
            for each in before
        )

    def with_pod(self, name: str) -> PlannedClaim:
        """The claim that holds a pod."""
        (claim,) = (c for c in self.claims if name in map(bare, c.pods))
        return claim

    def details(self, name: str) -> list[str]:
        """Why a pod is unplaced, pool by pool."""
        (entry,) = (u for u in self.plan.unplaced if bare(u.pod) == name)
        return [reason.detail for reason in entry.reasons]

    def launching(self) -> list[StateNode]:
        """The machines a moment later: new ones have launched, and no pod is bound yet."""
        return [*self.problem.nodes, *(self._launched(claim) for claim in self.claims)]

    def settled(self) -> list[StateNode]:
        """The machines once new ones are initialized and every placed pod is bound."""
        by_key = {key_of(pod): pod for pod in self.problem.pods}
        after = [
            _holding(node, [by_key[p] for p in self.plan.existing.get(node.name, ())])
            for node in self.problem.nodes
        ]
        after += [
            _holding(_initialized(self._launched(claim)), [by_key[p] for p in claim.pods])
            for claim in self.claims
        ]
        return after

    def _launched(self, claim: PlannedClaim) -> StateNode:
        launch = launch_of(claim)
        (made,) = (
            instance_type
            for pool in self.problem.pools
            if pool.node_pool.metadata.name == claim.node_pool
            for instance_type in pool.instance_types
            if instance_type.name == launch.instance_type
        )
        settled = {r.key: r.any() for r in made.requirements if len(r.values) == 1}
        chosen = {keys.ZONE: launch.zone, keys.CAPACITY_TYPE: launch.capacity_type}
        return StateNode(
            node=None,
            node_claim=NodeClaim(
                metadata=ObjectMeta(
                    name=claim.name,
                    uid=f"uid-{claim.name}",
                    labels={**settled, **claim.labels, **chosen},
                    annotations=dict(claim.annotations),
                ),
                spec=NodeClaimSpec(
                    node_class_ref=claim.node_class_ref,
                    taints=claim.taints,
                    startup_taints=claim.startup_taints,
                ),
                status=NodeClaimStatus(
                    provider_id=f"test://{claim.name}",
                    capacity=made.capacity.to_wire(),
                    allocatable=made.allocatable.to_wire(),
                ),
            ),
        )


def solved(wanted: Iterable[Pod], **setting: Unpack[Setting]) -> Answer:
    """Ask where these pods go."""
    problem = question(wanted, **setting)
    answer = Answer(problem, solve(problem))
    _accounts_for_every_pod(answer)
    return answer


def question(wanted: Iterable[Pod], **setting: Unpack[Setting]) -> Problem:
    """Put a problem together without solving it."""
    pods = tuple(wanted)
    types = tuple(setting.get("types", FIXTURE_F))
    own = setting.get("types_of", {})
    uids = {pod.metadata.name: pod.metadata.uid for pod in pods}
    options = setting.get("options", Options())
    nodes = tuple(setting.get("nodes", ()))
    pools = tuple(
        PoolCatalogue(pool, tuple(own.get(pool.metadata.name, types)))
        for pool in setting.get("pools", (node_pool(),))
    )
    return Problem(
        pods=pods,
        nodes=nodes,
        pools=pools,
        ledger=ledger_of(setting.get("commitments", ()), pools, nodes),
        facts=setting.get("facts", FACTS_F),
        options=options,
        daemons=tuple(
            daemons_of(
                setting.get("daemon_sets", ()),
                setting.get("daemon_pods", ()),
                ignore_device_claims=options.ignore_device_claims,
            )
        ),
        namespaces=NamespaceDirectory(setting.get("namespaces", {})),
        volumes={uids[name]: held for name, held in setting.get("volumes", {}).items()},
        node_volumes=setting.get("node_volumes", {}),
        default_spread={uids[n]: rules for n, rules in setting.get("default_spread", {}).items()},
    )


def launch_of(claim: PlannedClaim) -> Launch:
    """How a claim is launched, which must be possible."""
    assert claim.launch is not None
    return claim.launch


def claim_value(claim: PlannedClaim, key: str) -> str:
    """The values of a label that a claim may still have, written "a|b"; nothing means any."""
    wanted = claim.requirements[key]
    return "" if wanted.complement else "|".join(sorted(wanted.values))


def bare(pod: str) -> str:
    """A pod's name without the namespace, when that is the usual one."""
    return pod.removeprefix("default/")


def _accounts_for_every_pod(answer: Answer) -> None:
    plan = answer.plan
    found = [
        *(pod for claim in plan.claims for pod in claim.pods),
        *(pod for pods in plan.existing.values() for pod in pods),
        *(entry.pod for entry in plan.unplaced),
        *plan.deferred,
        *plan.unevaluated,
    ]
    assert sorted(key_of(pod) for pod in answer.problem.pods) == sorted(found)
    assert all(entry.reasons for entry in plan.unplaced)


def _reservation_used(claim: PlannedClaim, types: Iterable[InstanceType]) -> str:
    launch = launch_of(claim)
    if launch.capacity_type != keys.RESERVED:
        return ""
    return min(
        offering.reservation_id
        for each in types
        if each.name == launch.instance_type
        for offering in each.offerings
        if claim.requirements[RESERVATION_ID].has(offering.reservation_id)
    )


def _initialized(launched: StateNode) -> StateNode:
    claim = launched.node_claim
    assert claim is not None
    started = {
        keys.REGISTERED: "true",
        keys.INITIALIZED: "true",
        keys.HOSTNAME: claim.metadata.name,
    }
    return StateNode(
        node=Node(
            metadata=ObjectMeta(
                name=claim.metadata.name,
                uid=f"uid-node-{claim.metadata.name}",
                labels={**claim.metadata.labels, **started},
                annotations=claim.metadata.annotations,
            ),
            spec=NodeSpec(provider_id=claim.status.provider_id, taints=claim.spec.taints),
            status=NodeStatus(capacity=claim.status.capacity, allocatable=claim.status.allocatable),
        ),
        node_claim=claim,
    )


def _holding(node: StateNode, pods: Iterable[Pod]) -> StateNode:
    bound = [
        msgspec.structs.replace(
            pod,
            spec=msgspec.structs.replace(pod.spec, node_name=node.name),
            status=msgspec.structs.replace(pod.status, phase="Running", conditions=()),
        )
        for pod in pods
    ]
    return StateNode(
        node=node.node,
        node_claim=node.node_claim,
        pods=(*node.pods, *bound),
        is_marked=node.is_marked,
        nominated_until=node.nominated_until,
    )


def time_for(checks: int) -> Callable[[], bool]:
    """The time of a pass that is over after so many checks of it."""
    left = checks

    def has_time() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    return has_time


def written(plan: Plan) -> bytes:
    """A plan as bytes; the order of mappings counts, since reports print them in it."""
    return msgspec.json.encode(
        {
            "claims": [_claim_as_written(claim) for claim in plan.claims],
            "existing": list(plan.existing.items()),
            "unplaced": [
                (entry.pod, [(r.node_pool, r.why, r.detail) for r in entry.reasons])
                for entry in plan.unplaced
            ],
            "deferred": plan.deferred,
            "unevaluated": plan.unevaluated,
            "emptyPools": [(r.node_pool, r.why, r.detail) for r in plan.empty_pools],
            "cost": (plan.hourly_cost, plan.lower_bound),
        }
    )


def _claim_as_written(claim: PlannedClaim) -> object:
    launch = claim.launch
    return (
        (claim.name, claim.node_pool, claim.pods, claim.instance_types),
        claim.requirements.to_wire(),
        (list(claim.labels.items()), list(claim.annotations.items())),
        (claim.taints, claim.startup_taints),
        list(claim.requests.items()),
        (claim.node_class_ref, claim.expire_after, claim.termination_grace_period),
        launch and (launch.instance_type, launch.zone, launch.capacity_type, launch.price),
    )
