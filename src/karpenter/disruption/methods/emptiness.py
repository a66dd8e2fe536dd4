"""Emptiness: machines without pods to move are deleted, all at once and without a simulation."""

from karpenter.disruption import budgets
from karpenter.disruption.candidates import Blocked, Candidate, Kind, Why
from karpenter.disruption.commands import EMPTY, Command, Decision, Finding
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.consolidation import in_peace, turned_off, unreadable
from karpenter.disruption.methods.single_node import over_budget
from karpenter.disruption.spot_ratio import RatioGuard, kept_by_ratio
from karpenter.model.durations import NEVER


def find_empty(view: DisruptionContext) -> Finding:
    """Take as many empty machines as budgets allow, in descending order of savings."""
    eligible, verdicts = empty_candidates(view)
    left = view.remaining(budgets.EMPTY)
    chosen: list[Candidate] = []
    guard = RatioGuard(view)
    is_constrained = False
    for candidate in eligible:
        if left[candidate.pool] <= 0:
            verdicts[candidate.name] = over_budget(candidate)
            is_constrained = True
        elif problem := guard.take(candidate):
            verdicts[candidate.name] = kept_by_ratio(candidate, problem)
        else:
            left[candidate.pool] -= 1
            chosen.append(candidate)
    return Finding(
        EMPTY,
        (empty_command(view, chosen),) if chosen else (),
        eligible=len(eligible),
        verdicts=verdicts,
        events=tuple(view.closed_budgets(budgets.EMPTY)) if eligible else (),
        is_constrained=is_constrained,
    )


def empty_candidates(view: DisruptionContext) -> tuple[list[Candidate], dict[str, Blocked]]:
    """The machines without pods to move, and why some of them stay nevertheless."""
    eligible: list[Candidate] = []
    verdicts: dict[str, Blocked] = {}
    for candidate in view.candidates(Kind.GRACEFUL):
        if candidate.is_static or not candidate.is_empty:
            continue
        verdict = _verdict(candidate, view)
        if verdict is None:
            eligible.append(candidate)
        else:
            verdicts[candidate.name] = verdict
    eligible.sort(key=lambda candidate: (-candidate.ratio, candidate.name))
    return eligible, verdicts


def empty_command(view: DisruptionContext, candidates: list[Candidate]) -> Command:
    """Delete machines without pods to move."""
    savings = view.savings(candidates)
    return Command(EMPTY, budgets.EMPTY, Decision.DELETE, tuple(candidates), savings=savings)


def _verdict(candidate: Candidate, view: DisruptionContext) -> Blocked | None:
    problem = unreadable(candidate.node_pool)
    if problem:
        return Blocked(candidate.name, Why.UNCONSOLIDATABLE, problem, has_event=False)
    if candidate.node_pool.spec.disruption.consolidate_after == NEVER:
        return turned_off(candidate)
    if candidate.name in view.buffered:
        detail = "it is kept as the spare capacity of a CapacityBuffer"
        event_message = f'Node "{candidate.name}" has buffer pods'
        return Blocked(candidate.name, Why.UNCONSOLIDATABLE, detail, event_message=event_message)
    return in_peace(candidate, view)
