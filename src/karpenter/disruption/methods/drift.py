"""Drift: machines that differ from what their pool would create are replaced, oldest drift first.

Prices do not matter, and a machine may have several replacements. One command is made per pass;
the next pass follows at once, so several run concurrently as far as budgets allow.
"""

from datetime import UTC, datetime
from typing import Final

from karpenter.disruption import budgets
from karpenter.disruption.candidates import Blocked, Candidate, Kind, Why
from karpenter.disruption.commands import (
    DRIFT,
    NO_RESERVED_CAPACITY,
    Command,
    Decision,
    Finding,
    decision_of,
)
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.consolidation import not_all_placed, without_place
from karpenter.disruption.methods.single_node import over_budget
from karpenter.disruption.methods.terminate_first import credit_for
from karpenter.disruption.simulation import Answer, NoPoolsError, Simulation
from karpenter.disruption.spot_ratio import kept_by_ratio, worsened_ratio
from karpenter.model.conditions import DRIFTED

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def find_drift(view: DisruptionContext) -> Finding:
    """Replace the machine that drifted first, of those whose pods find a place."""
    eligible = drifted(view, is_static=False)
    left = view.remaining(budgets.DRIFTED)
    verdicts: dict[str, Blocked] = {}
    command = None
    within = [candidate for candidate in eligible if left[candidate.pool] > 0]
    for candidate in eligible:
        if left[candidate.pool] <= 0:
            verdicts[candidate.name] = over_budget(candidate)
    has_time = view.timer(DRIFT)
    has_timed_out = False
    for candidate, simulation in view.simulations(within):
        if not has_time():
            has_timed_out = True
            break
        found = _replaced(view, candidate, simulation)
        if isinstance(found, Command):
            command = found
            break
        verdicts[candidate.name] = found
    return Finding(
        DRIFT,
        (command,) if command else (),
        eligible=len(eligible),
        verdicts=verdicts,
        events=tuple(view.closed_budgets(budgets.DRIFTED)) if eligible else (),
        has_timed_out=has_timed_out,
    )


def drifted(view: DisruptionContext, *, is_static: bool) -> list[Candidate]:
    """The machines that have drifted: those without pods to move first, then by time of drift."""
    found = [
        candidate
        for candidate in view.candidates(Kind.EVENTUAL)
        if candidate.is_static == is_static and candidate.machine.has_condition(DRIFTED)
    ]
    return sorted(found, key=lambda each: (bool(each.reschedulable), _since(each), each.name))


def _replaced(
    view: DisruptionContext, candidate: Candidate, simulation: Simulation
) -> Command | Blocked:
    try:
        answer = simulation.replacing([candidate])
    except NoPoolsError as error:
        return Blocked(candidate.name, Why.UNSCHEDULABLE, str(error))
    if not answer.stranded:
        replacements = answer.replacements()
        if replacements is not None:
            command = Command(
                DRIFT,
                budgets.DRIFTED,
                decision_of(replacements),
                (candidate,),
                replacements,
                answer.outcome.existing,
                view.savings([candidate], replacements),
            )
            problem = worsened_ratio(view, command)
            return kept_by_ratio(candidate, problem) if problem else command
    elif view.settings.terminate_first_drift:
        first = _terminated_first(view, candidate, simulation)
        if first is not None:
            return first
    return no_replacement(candidate, answer)


def no_replacement(candidate: Candidate, answer: Answer) -> Blocked:
    """A machine that stays because its pods fit on no replacement."""
    if answer.stranded:
        detail, event_message = without_place(answer), not_all_placed(answer)
    else:
        detail = "its replacement offers too little choice"
        event_message = f"Not all pods would schedule, {detail}"
    return Blocked(candidate.name, Why.UNSCHEDULABLE, detail, event_message=event_message)


def _terminated_first(
    view: DisruptionContext, candidate: Candidate, simulation: Simulation
) -> Command | None:
    credit = credit_for(candidate, view.facts)
    if not credit:
        return None
    answer: Answer = simulation.replacing([candidate], is_strict=True, credit=credit)
    if answer.stranded:
        return None
    return Command(
        DRIFT,
        budgets.DRIFTED,
        Decision.TERMINATE_FIRST,
        (candidate,),
        placements=answer.outcome.existing,
        terminate_first_reason=NO_RESERVED_CAPACITY,
    )


def _since(candidate: Candidate) -> datetime:
    condition = candidate.condition(DRIFTED)
    return (condition.last_transition_time if condition else None) or _LONG_AGO
