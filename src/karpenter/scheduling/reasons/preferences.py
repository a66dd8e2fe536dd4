"""What a pod would like but can do without, and whether the place it got grants it.

Preferences, spread that is merely wished for, and the order of alternatives are all given up when
nothing else helps. What counts in the end is not when they were given up but what the pod got.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from karpenter.api.pods import Pod
from karpenter.model.requirements import Requirements
from karpenter.model.selectors import format_selector
from karpenter.model.taints import PREFER_NO_SCHEDULE, first_untolerated, format_taint
from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.effort import listed_in, within_bounds
from karpenter.scheduling.groups import Group, GroupKind, affinity_group, spread_group
from karpenter.scheduling.node_demands import selector_demands, with_terms
from karpenter.scheduling.relaxation import SCHEDULE_ANYWAY, Demands, demands_of
from karpenter.scheduling.spots import Spot, States, is_met
from karpenter.scheduling.topology import Membership
from karpenter.scheduling.world import World


@dataclass(frozen=True, slots=True)
class Wish:
    """Something a pod would like, and whether it gets it."""

    text: str
    is_met: bool


def wishes_of(
    world: World, pod: Pod, pod_class: PodClass, states: States, spot: Spot | None
) -> tuple[Wish, ...]:
    """Everything a pod would like; nothing of it is met where it found no place."""
    spread = pod.spec.topology_spread_constraints or world.problem.default_spread.get(
        pod.metadata.uid, ()
    )
    respected = world.problem.options.respect_preferences
    stated = demands_of(pod.spec, spread, respect_preferences=respected)
    demands = within_bounds(stated)
    return (
        *_untried(stated, demands),
        *_alternatives(pod, demands, spot),
        *_node_preferences(demands, spot),
        *_topology(world, pod, pod_class, demands, states, spot),
        *_soft_taints(demands, spot),
    )


def _untried(stated: Demands, tried: Demands) -> Iterator[Wish]:
    """What is too much to be tried, in one."""
    left = listed_in(stated) - listed_in(tried)
    if left:
        yield Wish(f"{left:,} alternatives and preferences that are too many to try", is_met=False)


def _alternatives(pod: Pod, demands: Demands, spot: Spot | None) -> Iterator[Wish]:
    """The alternatives up to the one that is used; a single one is no choice."""
    terms = demands.alternatives
    for number, term in enumerate(terms if len(terms) > 1 else (), start=1):
        wanted = with_terms(selector_demands(pod.spec.node_selector), (term,))
        is_granted = _grants(spot, wanted)
        yield Wish(f"alternative {number} of {len(terms)}: {wanted}", is_granted)
        if is_granted:
            return


def _node_preferences(demands: Demands, spot: Spot | None) -> Iterator[Wish]:
    for term in demands.preferred_nodes:
        wanted = with_terms(Requirements(), (term.preference,))
        yield Wish(f"prefers {wanted} (weight {term.weight})", _grants(spot, wanted))


def _grants(spot: Spot | None, wanted: Requirements) -> bool:
    return spot is not None and spot.requirements.is_compatible(wanted)


def _topology(
    world: World,
    pod: Pod,
    pod_class: PodClass,
    demands: Demands,
    states: States,
    spot: Spot | None,
) -> Iterator[Wish]:
    first = pod_class.stages[0]
    members = {
        _identity(states[m.number].group): m for m in (*first.hosts, *first.domains)
    }  # as far as the pass knows them
    for group, weight in _wished_groups(world, pod, demands):
        member = members.get(_identity(group))
        granted = spot is not None and member is not None and _is_granted(states, member, spot)
        note = f" (weight {weight})" if weight else ""
        yield Wish(f"prefers {described(group)}{note}", granted)


def _is_granted(states: States, member: Membership, spot: Spot) -> bool:
    return is_met(states[member.number], member, spot)


def _wished_groups(world: World, pod: Pod, demands: Demands) -> Iterator[tuple[Group, int]]:
    directory, tolerations = world.problem.namespaces, demands.tolerations
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
    """What tells the rules of one pod apart; which nodes they look at does not."""
    return (group.kind, group.key, group.namespaces, group.selector_text, group.max_skew)


def described(group: Group) -> str:
    """A topology rule in a few words."""
    selected = format_selector(group.selector)
    if group.kind is GroupKind.SPREAD:
        return f"spread of {selected} over {group.key}, maxSkew {group.max_skew}"
    return f"{group.kind.value} with {selected} by {group.key}"


def _soft_taints(demands: Demands, spot: Spot | None) -> Iterator[Wish]:
    if spot is None:
        return
    for taint in spot.taints:
        if taint.effect == PREFER_NO_SCHEDULE and first_untolerated((taint,), demands.tolerations):
            yield Wish(f"stays away from {format_taint(taint)}", is_met=False)
