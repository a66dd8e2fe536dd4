"""Multi-node consolidation: several machines are removed at once, for one cheaper machine or none.

Machines are ordered by savings per disruption cost. How many of them can be removed together is
found by binary search over that order.
"""

from typing import Final

from karpenter.disruption.budgets import UNDERUTILIZED
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import MULTI, Command, Finding, Score
from karpenter.disruption.methods.consolidation import Consolidation
from karpenter.disruption.methods.replacements import Refused
from karpenter.disruption.methods.single_node import over_budget

MOST_AT_ONCE: Final = 100
LEAST_AT_ONCE: Final = 2


def find_multi(consolidation: Consolidation) -> Finding:
    """Search for the most machines, in order, that can be removed together."""
    view = consolidation.view
    has_time = view.timer(MULTI)
    left = view.remaining(UNDERUTILIZED)
    verdicts = dict(consolidation.verdicts)
    allowed: list[Candidate] = []
    for candidate in consolidation.candidates:
        if left[candidate.pool] > 0:
            left[candidate.pool] -= 1
            allowed.append(candidate)
        else:
            verdicts[candidate.name] = over_budget(candidate)
    is_constrained = len(allowed) < len(consolidation.candidates)
    best: Command | None = None
    scores: list[Score] = []
    has_timed_out = False
    low, high = LEAST_AT_ONCE, min(len(allowed), MOST_AT_ONCE)
    while low <= high:
        if not has_time():
            has_timed_out = True
            break
        count = (low + high) // 2
        found = _judged(consolidation, allowed[:count], scores)
        if isinstance(found, Command):
            best, low = found, count + 1
        else:
            high = count - 1
    return Finding(
        MULTI,
        (best,) if best else (),
        eligible=len(consolidation.candidates),
        verdicts=verdicts,
        scores=tuple(scores),
        events=tuple(view.closed_budgets(UNDERUTILIZED)) if consolidation.candidates else (),
        is_constrained=is_constrained,
        has_timed_out=has_timed_out,
    )


def _judged(
    consolidation: Consolidation, candidates: list[Candidate], scores: list[Score]
) -> Command | Refused:
    command = consolidation.command(MULTI, candidates)
    if isinstance(command, Refused):
        return command
    judged, found = consolidation.judged(command)
    scores += found
    return judged
