"""Validation of a command some time after it was computed, before anything is changed.

A decision from one snapshot may be outdated 15 seconds later. Empty machines that got pods stay and
the others are deleted; a consolidation is valid as a whole or not at all. A rebalance is not
planned anew: its replacements are replayed, and must still be worth what they promised.
"""

from dataclasses import dataclass, replace
from typing import Final

from karpenter.disruption.candidates import Blocked, Candidate, Kind, Why
from karpenter.disruption.commands import EMPTY, REBALANCE, Command, Decision
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.consolidation import Consolidation
from karpenter.disruption.methods.emptiness import empty_candidates, empty_command
from karpenter.disruption.methods.replacements import Refused
from karpenter.disruption.methods.return_to_spot import early_return
from karpenter.disruption.rebalance.refusals import Refusal, RefusedAs, first_refusal
from karpenter.disruption.rebalance.search import Rebalancing
from karpenter.disruption.simulation import Answer
from karpenter.disruption.spot_ratio import RatioGuard, worsened_ratio

CHURN: Final = "churn"
NOMINATED: Final = "nominated"
BUDGET: Final = "budget"
SCHEDULING: Final = "scheduling"
PRICES: Final = "prices"

_LEAST_OF_PROMISE: Final = 0.8  # of the savings of a rebalance, at the prices of the later pass
_OF_BUDGETS: Final = frozenset({RefusedAs.BUDGET, RefusedAs.MOVE_BUDGET, RefusedAs.PDB})


@dataclass(frozen=True)
class Validation:
    """A command that is still valid, or why it is not."""

    command: Command | None
    failure: str = ""  # one of the words above
    detail: str = ""
    lost: tuple[str, ...] = ()  # candidates dropped because of new pods, nominations or budgets


def validated(command: Command, fresh: DisruptionContext) -> Validation:
    """Validate a command in a later pass."""
    if command.method == EMPTY:
        return _empty(command, fresh)
    if command.method == REBALANCE:
        return _rebalance(command, fresh)
    return _consolidation(command, fresh)


def _empty(command: Command, fresh: DisruptionContext) -> Validation:
    still = {candidate.name: candidate for candidate in empty_candidates(fresh)[0]}
    staying = [still[name] for name in command.names if name in still]
    lost = tuple(name for name in command.names if name not in still)
    if not staying:
        return Validation(None, _kind(fresh, lost), "none of its nodes is empty any more", lost)
    within = _within_budgets(staying, fresh, command.reason)
    lost += tuple(c.name for c in staying if c not in within)
    if not within:
        return Validation(None, BUDGET, "budgets allow none of its nodes any more", lost)
    guard = RatioGuard(fresh)
    problems = {candidate.name: guard.take(candidate) for candidate in within}
    within = [candidate for candidate in within if not problems[candidate.name]]
    lost += tuple(name for name, problem in problems.items() if problem)
    if not within:
        return Validation(None, SCHEDULING, next(iter(problems.values())), lost)
    return Validation(empty_command(fresh, within), lost=lost)


def _consolidation(command: Command, fresh: DisruptionContext) -> Validation:
    again = Consolidation(fresh, only=frozenset(command.names))
    candidates = _still_there(command, again)
    if isinstance(candidates, Validation):
        return candidates
    answer = again.simulated(candidates)
    if isinstance(answer, Refused):
        return Validation(None, SCHEDULING, answer.detail)
    problem = (
        _mismatch(command, answer)
        or worsened_ratio(fresh, command)
        or early_return(command, candidates, fresh.now)
    )
    if problem:
        return Validation(None, SCHEDULING, problem)
    placements = answer.outcome.existing
    return Validation(replace(command, candidates=tuple(candidates), placements=placements))


def _rebalance(command: Command, fresh: DisruptionContext) -> Validation:
    """Replay the replacements as they were planned, and judge the move anew at present prices."""
    again = Consolidation(fresh, only=frozenset(command.names))
    candidates = _still_there(command, again)
    if isinstance(candidates, Validation):
        return candidates
    found = Rebalancing(again, candidates).again(command)
    if isinstance(found, Refusal):
        return Validation(None, SCHEDULING, found.detail)
    promised, left = command.savings, found.savings.expected
    if left < _LEAST_OF_PROMISE * promised:
        detail = f"it would save ${left:.4f}/h now, less than {_LEAST_OF_PROMISE:.0%} of"
        return Validation(None, PRICES, f"{detail} ${promised:.4f}/h")
    refusal = first_refusal(found)
    if refusal is not None:
        failure = BUDGET if refusal.test in _OF_BUDGETS else SCHEDULING
        return Validation(None, failure, str(refusal))
    return Validation(found.command)


def _still_there(command: Command, again: Consolidation) -> list[Candidate] | Validation:
    """The candidates as they are now, or why not all of them may go."""
    fresh = again.view
    still = {candidate.name: candidate for candidate in again.candidates}
    lost = tuple(name for name in command.names if name not in still)
    if lost:
        return Validation(None, _kind(fresh, lost), _said_of(fresh, again, lost[0]), lost)
    candidates = [still[name] for name in command.names]
    within = _within_budgets(candidates, fresh, command.reason)
    if len(within) < len(candidates):
        lost = tuple(c.name for c in candidates if c not in within)
        return Validation(None, BUDGET, "budgets allow it no more", lost)
    return candidates


def _mismatch(command: Command, answer: Answer) -> str:
    """Why the same simulation, repeated, does not give the command."""
    if not answer.claims:
        return "" if command.decision is Decision.DELETE else "no replacement is needed any more"
    if len(answer.claims) > 1 or command.decision is Decision.DELETE:
        return f"{len(answer.claims)} new nodes would be needed now"
    (claim,) = answer.claims
    universe = answer.template(claim).universe
    possible = {universe.type_names[index] for index in universe.types_in(claim.bits)}
    (planned,) = command.replacements
    missing = [name for name in planned.instance_types if name not in possible]
    return f"{missing[0]} would not do as a replacement any more" if missing else ""


def _within_budgets(
    candidates: list[Candidate], fresh: DisruptionContext, reason: str
) -> list[Candidate]:
    left = fresh.remaining(reason)
    within = []
    for candidate in candidates:
        if left[candidate.pool] > 0:
            left[candidate.pool] -= 1
            within.append(candidate)
    return within


def _kind(fresh: DisruptionContext, lost: tuple[str, ...]) -> str:
    standing = fresh.standing(Kind.GRACEFUL)
    reasons = [standing.get(name) for name in lost]
    nominated = all(isinstance(r, Blocked) and r.why is Why.NOMINATED for r in reasons)
    return NOMINATED if nominated else CHURN


def _said_of(fresh: DisruptionContext, again: Consolidation, name: str) -> str:
    found = fresh.standing(Kind.GRACEFUL).get(name)
    verdict = found if isinstance(found, Blocked) else again.verdicts.get(name)
    return f"{name}: {verdict.detail}" if verdict else f"{name} is gone"
