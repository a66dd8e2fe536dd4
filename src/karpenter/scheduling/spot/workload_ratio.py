"""The spot ratio of a workload, counted in pods of one controller.

Of the pods of a controller, those bound to a node that stays count by the capacity type of that
node; the others are still to be placed. While fewer than the ratio asks for are off spot, the
oldest pods to be placed are planned as if they required a node that is not spot. Pods that run off
spot, and that the ratio needs there, are planned so too where they would have to move.

The objects are not changed, so kube-scheduler does not know of it and may put another pod of the
workload on a node that was made for these.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Affinity, NodeAffinity, Pod
from karpenter.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from karpenter.model import labels
from karpenter.model.requirement import Operator, requirement
from karpenter.model.requirements import Requirements
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.compiled.node_requirements import selector_demands, with_terms
from karpenter.scheduling.compiled.templates import template_requirements
from karpenter.scheduling.spot.annotations import (
    ON_DEMAND_BASE,
    SPOT_PERCENTAGE,
    SpotRatio,
    invalid_ratio,
    workload_ratio,
)
from karpenter.state.nodes import StateNode
from karpenter.state.owners import controller_of
from karpenter.state.pods import is_active, is_daemon, is_mirror, key_of
from karpenter.state.snapshot import Snapshot

_OFF_SPOT: Final = NodeSelectorRequirement(
    key=labels.CAPACITY_TYPE, operator="NotIn", values=(labels.SPOT,)
)
_NOT_SPOT: Final = Requirements(
    (requirement(labels.CAPACITY_TYPE, Operator.NOT_IN, [labels.SPOT]),)
)


@dataclass(frozen=True, slots=True)
class WorkloadOutcome:
    """What the ratio of a workload asks for, and how a pass meets it."""

    owner: str  # "ReplicaSet/namespace/name"
    pods: int
    asked: int  # how many must be off spot
    bound: int  # how many run off spot, on nodes that stay
    pinned: tuple[str, ...]  # pods to be placed that are kept off spot, by name

    @property
    def is_met(self) -> bool:
        """Whether enough pods are, or are planned, off spot."""
        return self.bound + len(self.pinned) >= self.asked


@dataclass(frozen=True, slots=True)
class _Workload:
    """The pods of one controller, oldest first."""

    owner: str
    ratio: SpotRatio
    total: int
    homeless: Sequence[Pod]  # to be placed, those on nodes that are being deleted included
    off_spot: Sequence[Pod]  # bound to nodes that stay


class WorkloadRatios:
    """The workloads of a cluster that have a spot ratio."""

    def __init__(
        self, snapshot: Snapshot, pools: Iterable[NodePool], well_known: frozenset[str]
    ) -> None:
        """Sort the pods of these workloads.

        Args:
            pools: those that may be used for new nodes.
            well_known: labels that a pool need not define for a pod that requires them.
        """
        self.invalid: Final[list[tuple[str, str]]] = []  # (pod, one sentence)
        found = self._found(snapshot)
        self._pools = [(pool, template_requirements(pool)) for pool in pools] if found else []
        self._well_known = well_known
        machines = _by_node_name(snapshot.nodes) if found else {}
        self._workloads = [
            _workload(owner, pods, machines) for owner, pods in sorted(found.items())
        ]
        self._pins: set[str] = set()  # pods that are kept off spot, by name
        self.outcomes: Final = tuple(self._pinned(workload) for workload in self._workloads)

    def applied(self, pods: Sequence[Pod]) -> list[Pod]:
        """These pods as they are to be planned."""
        if not self._pins:
            return list(pods)
        return [_off_spot(pod) if self.keeps(pod) else pod for pod in pods]

    def keeps(self, pod: Pod) -> bool:
        """Whether the ratio of its workload keeps a pod off spot, wherever it has to go."""
        return bool(self._pins) and key_of(pod) in self._pins

    def _found(self, snapshot: Snapshot) -> dict[str, list[Pod]]:
        """The pods of each workload that has a ratio."""
        found: dict[str, list[Pod]] = {}
        for pod in snapshot.pods.values():
            held = pod.metadata.annotations
            if not held or (ON_DEMAND_BASE not in held and SPOT_PERCENTAGE not in held):
                continue
            owner = controller_of(pod)
            if owner is None or not is_active(pod) or is_daemon(pod) or is_mirror(pod):
                continue
            namespace = pod.metadata.namespace or "default"
            name = f"{owner.kind}/{namespace}/{owner.name}"
            found.setdefault(f"{name} {owner.uid}", []).append(pod)
        rated = {}
        for name, pods in found.items():
            pods.sort(key=_age)
            for said in invalid_ratio(pods[-1].metadata.annotations, is_pod=True):
                self.invalid.append((key_of(pods[-1]), said))
            if workload_ratio(pods[-1].metadata.annotations) is not None:
                rated[name] = pods
        self.invalid.sort()
        return rated

    def _pinned(self, workload: _Workload) -> WorkloadOutcome:
        asked = workload.ratio.on_demand_of(workload.total)
        anyway, open_to_both = [], []
        for pod in workload.homeless:
            if not _may_be_spot(pod):
                anyway.append(pod)  # its own requirement is stronger than any ratio
            elif self._may_be_off_spot(pod):
                open_to_both.append(pod)
        short = asked - len(workload.off_spot) - len(anyway)
        pinned = open_to_both[: max(0, short)]
        spare = max(0, -short)  # of those that run off spot, how many could leave
        staying = workload.off_spot[: len(workload.off_spot) - spare]
        self._pins.update(map(key_of, pinned))
        self._pins.update(key_of(pod) for pod in staying if self._may_be_off_spot(pod))
        return WorkloadOutcome(
            owner=workload.owner.split(" ")[0],
            pods=workload.total,
            asked=asked,
            bound=len(workload.off_spot),
            pinned=tuple(key_of(pod) for pod in (*anyway, *pinned)),
        )

    def _may_be_off_spot(self, pod: Pod) -> bool:
        """Whether a pool could make a node for a pod that is not spot, sold out or not."""
        ways = [demands & _NOT_SPOT for demands in _ways(pod) if not _contradicts(demands)]
        for pool, held in self._pools:
            capacity = held[labels.CAPACITY_TYPE]
            if not (capacity.has(labels.ON_DEMAND) or capacity.has(labels.RESERVED)):
                continue
            if first_untolerated(
                pool.spec.template.spec.taints, pod.spec.tolerations, ignore_preferences=True
            ):
                continue
            if any(held.is_compatible(way, self._well_known) for way in ways):
                return True
        return False


def _workload(owner: str, pods: Sequence[Pod], machines: Mapping[str, StateNode]) -> _Workload:
    homeless, off_spot = [], []
    for pod in pods:
        machine = machines.get(pod.spec.node_name) if pod.spec.node_name else None
        if not pod.spec.node_name or (machine is not None and machine.is_deleting):
            homeless.append(pod)
        elif machine is None or machine.labels.get(labels.CAPACITY_TYPE) != labels.SPOT:
            off_spot.append(pod)
    ratio = workload_ratio(pods[-1].metadata.annotations)
    assert ratio is not None
    return _Workload(owner, ratio, len(pods), homeless, off_spot)


def _by_node_name(machines: Iterable[StateNode]) -> dict[str, StateNode]:
    return {machine.node.metadata.name: machine for machine in machines if machine.node is not None}


def _age(pod: Pod) -> tuple[float, str, str]:
    """The oldest pods first; those without a time, of files, last."""
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else math.inf, pod.metadata.uid, pod.metadata.name)


def _terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    return node.required.node_selector_terms if node is not None and node.required else ()


def _ways(pod: Pod) -> list[Requirements]:
    """What a pod requires of its node, by each of its alternatives."""
    selector = selector_demands(pod.spec.node_selector)
    return [with_terms(selector, (term,)) for term in _terms(pod)] or [selector]


def _contradicts(demands: Requirements) -> bool:
    """Whether no node that is not spot could satisfy these demands."""
    held = demands[labels.CAPACITY_TYPE]
    return not any(map(held.has, (labels.ON_DEMAND, labels.RESERVED)))


def _may_be_spot(pod: Pod) -> bool:
    return any(demands[labels.CAPACITY_TYPE].has(labels.SPOT) for demands in _ways(pod))


def _off_spot(pod: Pod) -> Pod:
    """A copy of a pod that requires a node that is not spot."""
    terms = tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, _OFF_SPOT))
        for term in _terms(pod)
    ) or (NodeSelectorTerm(match_expressions=(_OFF_SPOT,)),)
    affinity = pod.spec.affinity or Affinity()
    node = msgspec.structs.replace(
        affinity.node_affinity or NodeAffinity(), required=NodeSelector(node_selector_terms=terms)
    )
    spec = msgspec.structs.replace(
        pod.spec, affinity=msgspec.structs.replace(affinity, node_affinity=node)
    )
    return msgspec.structs.replace(pod, spec=spec)
