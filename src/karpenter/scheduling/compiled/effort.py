"""Bounds on the work one pod may cause: which preferences are tried, and which pods come last.

Every alternative and every preference of a pod is a stage that is tried by itself, and each stage
checks all topology rules that still hold. A pod may list thousands; no workload needs that, and one
hostile pod is enough to stall a pass. So the work per pod is bounded here, counted in steps and not
in time, so that a plan depends on the cluster alone. All bounds are far above ordinary manifests.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.api.pods import Pod, PodSpec, TopologySpreadConstraint
from karpenter.scheduling.compiled.relaxation import Demands, course_of, demands_of, is_soft_spread
from karpenter.scheduling.compiled.topology_groups import MOST_RULES
from karpenter.scheduling.plan import Reason, Why

# Each is a stage, and a rule that every earlier stage checks: a check takes about a microsecond,
# so that a pod that fits nowhere takes at most a tenth of a second
MOST_PREFERENCES: Final = 256
# Ways to satisfy the required node affinity: each is tried on every claim and pool
MOST_ALTERNATIVES: Final = 1_000
# Preferences are tried again with each alternative
_MOST_PAIRS: Final = MOST_PREFERENCES * MOST_PREFERENCES
# Matching so many tolerations takes as long as one check of a rule
_TOLERATIONS_A_LOOK: Final = 16

# The fixed cost of a stage, in checks: pools and claims are tried
_LOOKS_OF_A_STAGE: Final = 16
# A pod with more work than this comes after all others; 50 preferences do not reach it
_MOST_ORDINARY_WORK: Final = 4096
# The work in one pass for all costly pods, about a second: enough for eight pods with
# MOST_PREFERENCES each; the rest wait for the next pass
_MOST_COSTLY_WORK: Final = 8 * 275 * MOST_PREFERENCES


@dataclass(frozen=True, slots=True)
class Effort:
    """The planning cost of a pod that is costly to plan for."""

    work: int  # checks of rules until everything is tried
    listed: int  # alternatives and preferences that the pod lists
    tried: int  # of them

    @property
    def is_costly(self) -> bool:
        """Whether the pod has to come after others."""
        return self.work > _MOST_ORDINARY_WORK

    def __str__(self) -> str:
        """The effect on the pod in one sentence, for its owner."""
        reason = "the pod is planned for after all others, since"
        if self.tried < self.listed:
            return (
                f"{reason} it lists {self.listed:,} alternatives and preferences; the"
                f" {self.listed - self.tried:,} that would be given up first are not tried"
            )
        return f"{reason} its {self.listed:,} alternatives and preferences take long to try"


def within_bounds(demands: Demands) -> Demands:
    """Demands without the preferences beyond the bound: those that would be given up first."""
    alternatives = demands.alternatives[-MOST_ALTERNATIVES:]
    breadth = max(1, len(alternatives)) + len(demands.tolerations) // _TOLERATIONS_A_LOOK
    surplus = _preferences(demands) - min(MOST_PREFERENCES, _MOST_PAIRS // breadth)
    if surplus <= 0 and len(alternatives) == len(demands.alternatives):
        return demands
    toward, surplus = _less(len(demands.preferred_affinity), surplus)
    apart, surplus = _less(len(demands.preferred_anti_affinity), surplus)
    nodes, surplus = _less(len(demands.preferred_nodes), surplus)
    return replace(
        demands,
        alternatives=alternatives,
        preferred_affinity=demands.preferred_affinity[toward:],
        preferred_anti_affinity=demands.preferred_anti_affinity[apart:],
        preferred_nodes=demands.preferred_nodes[nodes:],
        spread=_with_fewer_preferences(demands.spread, surplus),
    )


def effort_of(
    pod: Pod, spread: Sequence[TopologySpreadConstraint], *, respect_preferences: bool
) -> Effort | None:
    """How costly a pod is to plan for; None for one that is not, as nearly all are."""
    spec = pod.spec
    entries = _entries(spec, spread)
    if entries * (entries + _LOOKS_OF_A_STAGE) <= _MOST_ORDINARY_WORK:
        return None
    stated = demands_of(spec, tuple(spread), respect_preferences=respect_preferences)
    demands = within_bounds(stated)
    stages = course_of(demands, soft_taints_exist=False).length
    rules = len(demands.spread) + len(demands.affinity) + len(demands.anti_affinity)
    rules += len(demands.preferred_affinity) + len(demands.preferred_anti_affinity)
    effort = Effort(
        stages * (rules + _LOOKS_OF_A_STAGE),
        listed_in(stated),
        listed_in(demands),
    )
    return effort if effort.is_costly else None


def listed_in(demands: Demands) -> int:
    """How many alternatives and preferences demands hold."""
    return len(demands.alternatives) + _preferences(demands)


def too_many_rules(pod: Pod) -> Reason | None:
    """Why a pod is not planned for at all: it has more required topology rules than allowed."""
    found = _rules_insisted_on(pod.spec)
    if found <= MOST_RULES:
        return None
    return Reason(
        "",
        Why.TOO_MANY_RULES,
        f"it insists on {found:,} topology spread constraints and pod (anti-)affinity terms;"
        f" a pod with more than {MOST_RULES} is not planned for, so state fewer",
    )


def _rules_insisted_on(spec: PodSpec) -> int:
    stated = spec.topology_spread_constraints
    found = sum(not is_soft_spread(constraint) for constraint in stated) if stated else 0
    if spec.affinity is None:
        return found
    sides = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity)
    return found + sum(len(side.required) for side in sides if side is not None)


def fair_share(efforts: Iterable[tuple[int, Effort]]) -> frozenset[int]:
    """The costly pods, by number, that one pass can afford: as many as fit, from the first.

    The first is always included, so that every costly pod is planned in some pass.
    """
    spent = 0
    afforded: list[int] = []
    for number, effort in efforts:
        spent += effort.work
        if afforded and spent > _MOST_COSTLY_WORK:
            break
        afforded.append(number)
    return frozenset(afforded)


def _entries(spec: PodSpec, spread: Sequence[TopologySpreadConstraint]) -> int:
    """An upper limit of both the stages and the rules of a pod."""
    found = 1 + len(spread)
    affinity = spec.affinity
    if affinity is None:
        return found
    if affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        found += len(required.node_selector_terms) if required is not None else 0
        found += len(affinity.node_affinity.preferred)
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        found += len(side.required) + len(side.preferred) if side is not None else 0
    return found


def _preferences(demands: Demands) -> int:
    return (
        len(demands.preferred_affinity)
        + len(demands.preferred_anti_affinity)
        + len(demands.preferred_nodes)
        + sum(map(is_soft_spread, demands.spread))
    )


def _less(held: int, surplus: int) -> tuple[int, int]:
    """How many of ``held`` to drop, and the surplus that remains."""
    going = max(0, min(held, surplus))
    return going, surplus - going


def _with_fewer_preferences(
    spread: tuple[TopologySpreadConstraint, ...], surplus: int
) -> tuple[TopologySpreadConstraint, ...]:
    if surplus <= 0:
        return spread
    kept = []
    for constraint in spread:
        if surplus > 0 and is_soft_spread(constraint):
            surplus -= 1
        else:
            kept.append(constraint)
    return tuple(kept)
