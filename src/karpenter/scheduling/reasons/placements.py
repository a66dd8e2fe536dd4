"""Where a pod went, seen from the end of a pass: what the place is, and what it satisfies."""

from dataclasses import dataclass
from typing import TypeAlias

from karpenter.api.nodes import Taint
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.topology_groups import GroupKind
from karpenter.scheduling.packing.packer import Packing
from karpenter.scheduling.packing.topology import GroupState, HostCounts, Membership
from karpenter.scheduling.plan import Launch

States: TypeAlias = "list[GroupState]"


@dataclass(frozen=True, slots=True)
class Placement:
    """A machine, or a claim as it would launch; exactly one of the numbers is set."""

    requirements: Requirements
    taints: tuple[Taint, ...]
    node: int | None = None
    claim: int | None = None

    def count_in(self, state: GroupState) -> list[int]:
        """How many pods of a group are in each domain the place may be in."""
        if state.is_hostname:
            return [self._hosts(state).of(self._host)]
        held = self.requirements.get(state.group.key)
        if held is None or held.complement:
            return []
        return [state.counts.get(domain, 0) for domain in sorted(held.values)]

    def remove_from(self, state: GroupState) -> None:
        """Subtract a pod that was placed here from the counts; ``state`` is changed."""
        if state.is_hostname:
            if self._hosts(state).of(self._host):
                self._hosts(state).remove(self._host)
            return
        held = self.requirements.get(state.group.key)
        domains = () if held is None or held.complement else held.values
        for domain in domains:
            if state.counts.get(domain, 0):
                state.add(domain, -1)

    def _hosts(self, state: GroupState) -> HostCounts:
        return state.nodes if self.node is not None else state.claims

    @property
    def _host(self) -> int:
        host = self.claim if self.node is None else self.node
        assert host is not None
        return host


def placement_of(
    compiled: CompiledProblem, packing: Packing, position: int, launch: Launch | None = None
) -> Placement | None:
    """Where a pod was placed, or None; ``launch`` is the offering of its claim."""
    for number, pods in packing.on_nodes.items():
        if position in pods:
            target = compiled.nodes.targets[number]
            return Placement(target.requirements, target.taints, node=number)
    for claim in packing.claims:
        if position in claim.members:
            template = compiled.templates[claim.template]
            held = claim.shape.requirements
            if launch is not None:
                held &= _launched(launch, template.universe.types)
            return Placement(held, template.taints, claim=claim.index)
    return None


def stage_at(pod_class: PodClass, spot: Placement, states: States) -> Stage:
    """The first stage of a pod's demands that its place satisfies."""
    for stage in pod_class.stages:
        if (
            first_untolerated(spot.taints, stage.tolerations) is None
            and spot.requirements.is_compatible(stage.requirements)
            and all(
                is_met(states[member.number], member, spot)
                for member in (*stage.hosts, *stage.domains)
            )
        ):
            return stage
    return pod_class.stages[-1]


def is_met(state: GroupState, member: Membership, spot: Placement) -> bool:
    """Whether a pod's place obeys a topology rule, the pod itself being counted there."""
    counts = spot.count_in(state)
    own = int(member.counts_itself)
    if state.group.kind is GroupKind.SPREAD:
        return len(counts) == 1 and counts[0] - _least(state, member) <= state.group.max_skew
    if state.group.kind is GroupKind.AFFINITY:
        alone = own and state.total == own
        return bool(counts) and (alone or all(count > own for count in counts))
    return all(count <= own for count in counts)


def without(states: States, member_of: Stage, spot: Placement) -> States:
    """The counts without a pod that was placed."""
    changed = list(states)
    for member in (*member_of.hosts, *member_of.domains):
        if member.counts_itself:
            changed[member.number] = states[member.number].copy()
            spot.remove_from(changed[member.number])
    return changed


def _least(state: GroupState, member: Membership) -> int:
    if state.is_hostname:
        return 0
    known = [count for domain, count in state.counts.items() if member.allowed.has(domain)]
    return 0 if state.group.min_domains > len(known) else min(known, default=0)


def _launched(launch: Launch, types: tuple[InstanceType, ...]) -> list[Requirement]:
    """The labels of a node that is launched as this offering."""
    chosen = {labels.INSTANCE_TYPE: launch.instance_type, labels.ZONE: launch.zone}
    chosen[labels.CAPACITY_TYPE] = launch.capacity_type
    fixed = [Requirement(key, False, frozenset({value})) for key, value in chosen.items() if value]
    made = next((each for each in types if each.name == launch.instance_type), None)
    own = [] if made is None else [r for r in made.requirements if len(r.values) == 1]
    return [*fixed, *(entry for entry in own if not entry.complement and entry.key not in chosen)]
