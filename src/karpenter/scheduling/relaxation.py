"""Which wishes a pod gives up, one at a time and in which order, until it fits somewhere.

A pod's hard demands never change. Its wishes (alternatives, preferences, spread that is merely
preferred) are treated as demands first and given up step by step, in the order of ``STEPS``. The
outcome is a list of ``Demands``, from everything the pod asks for to what it cannot do without.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from karpenter.api.pods import (
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.model.taints import PREFER_NO_SCHEDULE

SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
TOLERATE_PREFERENCES: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class Demands:
    """What a pod asks for at one stage of giving up."""

    alternatives: tuple[NodeSelectorTerm, ...]  # the first one counts
    preferred_nodes: tuple[PreferredSchedulingTerm, ...]  # heaviest first; the first one counts
    affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]  # heaviest first; all count
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    spread: tuple[TopologySpreadConstraint, ...]
    tolerations: tuple[Toleration, ...]


Term = TypeVar("Term", PreferredSchedulingTerm, WeightedPodAffinityTerm)
Step: TypeAlias = Callable[[Demands], Demands | None]


def demands_of(
    spec: PodSpec,
    spread: tuple[TopologySpreadConstraint, ...],
    *,
    respect_preferences: bool,
) -> Demands:
    """Collect what a pod asks for; ``spread`` are its own constraints or the cluster's defaults."""
    affinity = spec.affinity
    node = affinity.node_affinity if affinity else None
    toward = affinity.pod_affinity if affinity else None
    apart = affinity.pod_anti_affinity if affinity else None
    demands = Demands(
        alternatives=node.required.node_selector_terms if node and node.required else (),
        preferred_nodes=_heaviest_first(node.preferred) if node else (),
        affinity=toward.required if toward else (),
        preferred_affinity=_heaviest_first(toward.preferred) if toward else (),
        anti_affinity=apart.required if apart else (),
        preferred_anti_affinity=_heaviest_first(apart.preferred) if apart else (),
        spread=spread,
        tolerations=spec.tolerations,
    )
    if respect_preferences:
        return demands
    return replace(
        demands,
        preferred_nodes=(),
        preferred_affinity=(),
        preferred_anti_affinity=(),
        spread=tuple(c for c in spread if c.when_unsatisfiable != SCHEDULE_ANYWAY),
    )


def stages(demands: Demands, *, soft_taints_exist: bool) -> Iterator[Demands]:
    """Yield the demands and then each weaker form of them, in the order wishes are given up."""
    steps = STEPS if soft_taints_exist else STEPS[:-1]
    stage: Demands | None = demands
    while stage is not None:
        yield stage
        stage = next((weaker for step in steps if (weaker := step(stage)) is not None), None)


def _drop_alternative(demands: Demands) -> Demands | None:
    if len(demands.alternatives) < 2:
        return None
    return replace(demands, alternatives=demands.alternatives[1:])


def _drop_affinity(demands: Demands) -> Demands | None:
    if not demands.preferred_affinity:
        return None
    return replace(demands, preferred_affinity=demands.preferred_affinity[1:])


def _drop_anti_affinity(demands: Demands) -> Demands | None:
    if not demands.preferred_anti_affinity:
        return None
    return replace(demands, preferred_anti_affinity=demands.preferred_anti_affinity[1:])


def _drop_node_preference(demands: Demands) -> Demands | None:
    if not demands.preferred_nodes:
        return None
    return replace(demands, preferred_nodes=demands.preferred_nodes[1:])


def _drop_soft_spread(demands: Demands) -> Demands | None:
    for position, constraint in enumerate(demands.spread):
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            rest = demands.spread[:position] + demands.spread[position + 1 :]
            return replace(demands, spread=rest)
    return None


def _tolerate_soft_taints(demands: Demands) -> Demands | None:
    if TOLERATE_PREFERENCES in demands.tolerations:
        return None
    return replace(demands, tolerations=(*demands.tolerations, TOLERATE_PREFERENCES))


STEPS: Final[tuple[Step, ...]] = (
    _drop_alternative,  # another way to satisfy the required node affinity
    _drop_affinity,  # the heaviest preferred pod affinity
    _drop_anti_affinity,  # the heaviest preferred pod anti-affinity
    _drop_node_preference,  # the heaviest preferred node affinity
    _drop_soft_spread,  # the first spread constraint that is a mere wish
    _tolerate_soft_taints,  # last, and only where some pool has such a taint
)


def _heaviest_first(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))
