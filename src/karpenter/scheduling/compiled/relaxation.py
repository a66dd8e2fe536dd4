"""Relaxation: the order in which a pod gives up preferences, one at a time, until it fits.

A pod's hard requirements never change. Its preferences (alternatives, preferred affinity, spread
with ``ScheduleAnyway``) are treated as requirements first and given up stage by stage. A
``RelaxationOrder`` states which stage gives up what:

    1. another way to satisfy the required node affinity
    2. the heaviest preferred pod affinity
    3. the heaviest preferred pod anti-affinity
    4. the heaviest preferred node affinity
    5. the first spread constraint that is only preferred
    6. avoidance of soft taints; last, and only where some pool has such a taint
"""

from dataclasses import dataclass, replace
from typing import Final, TypeVar

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
    """What a pod requires at one stage of relaxation."""

    alternatives: tuple[NodeSelectorTerm, ...]  # the first one counts
    preferred_nodes: tuple[PreferredSchedulingTerm, ...]  # heaviest first; the first one counts
    affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]  # heaviest first; all count
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    spread: tuple[TopologySpreadConstraint, ...]
    tolerations: tuple[Toleration, ...]


Term = TypeVar("Term", PreferredSchedulingTerm, WeightedPodAffinityTerm)


@dataclass(frozen=True, slots=True)
class RelaxationOrder:
    """How demands weaken: stages are numbered from zero, and each gives up one thing more.

    The fields but the last two name the stage that gives up the first preference of a kind; the
    others of that kind follow, one in each stage. Alternatives are used in turn, the first in
    stage zero.
    """

    affinity: int
    anti_affinity: int
    nodes: int
    spread: int
    tolerating: int | None  # the stage that tolerates soft taints
    length: int  # how many stages there are


def course_of(demands: Demands, *, soft_taints_exist: bool) -> RelaxationOrder:
    """Return the order in which a pod gives up its preferences."""
    affinity = max(1, len(demands.alternatives))
    anti_affinity = affinity + len(demands.preferred_affinity)
    nodes = anti_affinity + len(demands.preferred_anti_affinity)
    spread = nodes + len(demands.preferred_nodes)
    length = spread + sum(map(is_soft_spread, demands.spread))
    may_tolerate = soft_taints_exist and TOLERATE_PREFERENCES not in demands.tolerations
    tolerating = length if may_tolerate else None
    return RelaxationOrder(
        affinity, anti_affinity, nodes, spread, tolerating, length + may_tolerate
    )


def is_soft_spread(constraint: TopologySpreadConstraint) -> bool:
    """Whether spread is merely preferred."""
    return constraint.when_unsatisfiable == SCHEDULE_ANYWAY


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
        spread=tuple(c for c in spread if not is_soft_spread(c)),
    )


def tolerating_soft_taints(demands: Demands) -> Demands:
    """The same demands of a pod that tolerates soft taints."""
    return replace(demands, tolerations=(*demands.tolerations, TOLERATE_PREFERENCES))


def _heaviest_first(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))
