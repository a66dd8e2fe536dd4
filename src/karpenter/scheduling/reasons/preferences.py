"""The preferences of a pod, and whether the place it got satisfies them.

Preferences, spread that is only preferred, and the order of alternatives may all be given up by
relaxation. The report does not state when they were given up, but whether the place satisfies them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from karpenter.api.pods import Pod
from karpenter.model.requirements import Requirements
from karpenter.model.selectors import format_selector
from karpenter.model.taints import PREFER_NO_SCHEDULE, first_untolerated, format_taint
from karpenter.scheduling.compiled.effort import listed_in, within_bounds
from karpenter.scheduling.compiled.node_requirements import selector_demands, with_terms
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.relaxation import SCHEDULE_ANYWAY, Demands, demands_of
from karpenter.scheduling.compiled.topology_groups import (
    Group,
    GroupKind,
    affinity_group,
    spread_group,
)
from karpenter.scheduling.packing.topology import Membership
from karpenter.scheduling.reasons.placements import Placement, States, is_met


@dataclass(frozen=True, slots=True)
class Preference:
    """A preference of a pod, and whether its place satisfies it."""

    text: str
    is_met: bool


def preferences_of(
    compiled: CompiledProblem, pod: Pod, pod_class: PodClass, states: States, spot: Placement | None
) -> tuple[Preference, ...]:
    """All preferences of a pod; none is met where the pod has no place."""
    spread = pod.spec.topology_spread_constraints or compiled.problem.default_spread.get(
        pod.metadata.uid, ()
    )
    respected = compiled.problem.options.respect_preferences
    stated = demands_of(pod.spec, spread, respect_preferences=respected)
    demands = within_bounds(stated)
    return (
        *_untried(stated, demands),
        *_alternatives(pod, demands, spot),
        *_node_preferences(demands, spot),
        *_topology(compiled, pod, pod_class, demands, states, spot),
        *_soft_taints(demands, spot),
    )


def _untried(stated: Demands, tried: Demands) -> Iterator[Preference]:
    """One entry for all preferences beyond the bound, which are not tried."""
    left = listed_in(stated) - listed_in(tried)
    if left:
        yield Preference(
            f"{left:,} alternatives and preferences that are too many to try", is_met=False
        )


def _alternatives(pod: Pod, demands: Demands, spot: Placement | None) -> Iterator[Preference]:
    """The alternatives up to the one that is used; a single one is no choice."""
    terms = demands.alternatives
    for number, term in enumerate(terms if len(terms) > 1 else (), start=1):
        wanted = with_terms(selector_demands(pod.spec.node_selector), (term,))
        is_granted = _grants(spot, wanted)
        yield Preference(f"alternative {number} of {len(terms)}: {wanted}", is_granted)
        if is_granted:
            return


def _node_preferences(demands: Demands, spot: Placement | None) -> Iterator[Preference]:
    for term in demands.preferred_nodes:
        wanted = with_terms(Requirements(), (term.preference,))
        yield Preference(f"prefers {wanted} (weight {term.weight})", _grants(spot, wanted))


def _grants(spot: Placement | None, wanted: Requirements) -> bool:
    return spot is not None and spot.requirements.is_compatible(wanted)


def _topology(
    compiled: CompiledProblem,
    pod: Pod,
    pod_class: PodClass,
    demands: Demands,
    states: States,
    spot: Placement | None,
) -> Iterator[Preference]:
    first = pod_class.stages[0]
    members = {
        _identity(states[m.number].group): m for m in (*first.hosts, *first.domains)
    }  # as far as the pass knows them
    for group, weight in _wished_groups(compiled, pod, demands):
        member = members.get(_identity(group))
        granted = spot is not None and member is not None and _is_granted(states, member, spot)
        note = f" (weight {weight})" if weight else ""
        yield Preference(f"prefers {described(group)}{note}", granted)


def _is_granted(states: States, member: Membership, spot: Placement) -> bool:
    return is_met(states[member.number], member, spot)


def _wished_groups(
    compiled: CompiledProblem, pod: Pod, demands: Demands
) -> Iterator[tuple[Group, int]]:
    directory, tolerations = compiled.problem.namespaces, demands.tolerations
    for constraint in demands.spread:
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            yield spread_group(pod, constraint, (), tolerations), 0
    for kind, terms in (
        (GroupKind.AFFINITY, demands.preferred_affinity),
        (GroupKind.ANTI_AFFINITY, demands.preferred_anti_affinity),
    ):
        for term in terms:
            group = affinity_group(pod, term.pod_affinity_term, kind, directory, tolerations)
            yield group, term.weight


def _identity(group: Group) -> tuple[object, ...]:
    """The identity of a rule within one pod; the node filter is no part of it."""
    return (group.kind, group.key, group.namespaces, group.selector_text, group.max_skew)


def described(group: Group) -> str:
    """A topology rule as a phrase."""
    selected = format_selector(group.selector)
    if group.kind is GroupKind.SPREAD:
        return f"spread of {selected} over {group.key}, maxSkew {group.max_skew}"
    return f"{group.kind.value} with {selected} by {group.key}"


def _soft_taints(demands: Demands, spot: Placement | None) -> Iterator[Preference]:
    if spot is None:
        return
    for taint in spot.taints:
        if taint.effect == PREFER_NO_SCHEDULE and first_untolerated((taint,), demands.tolerations):
            yield Preference(f"stays away from {format_taint(taint)}", is_met=False)
