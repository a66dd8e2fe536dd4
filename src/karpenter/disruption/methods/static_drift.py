"""Drift in static pools: each node is replaced by one from the template, several at a time."""

from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.disruption import budgets
from karpenter.disruption.candidates import Blocked, Candidate, Why
from karpenter.disruption.commands import (
    NO_RESERVED_CAPACITY,
    STATIC_AT_LIMIT,
    STATIC_DRIFT,
    Command,
    Decision,
    Finding,
)
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.drift import drifted
from karpenter.disruption.methods.single_node import over_budget
from karpenter.disruption.methods.terminate_first import holds_slot, is_full
from karpenter.disruption.static_pools import (
    is_usable,
    static_replacement,
    strength_of,
    what_comes_first,
)

_NO_STAGE: Final = "cannot stage a replacement"
_AT_LIMIT: Final = "its NodePool has as many nodes as limits.nodes allows"
_AT_LIMIT_MESSAGE: Final = f"static NodePool is at its node limit and {_NO_STAGE}"
_RESERVATIONS_FULL: Final = "the reservations of its NodePool are full"
_FULL_MESSAGE: Final = f"static NodePool's capacity reservations are full and {_NO_STAGE}"


def find_static_drift(view: DisruptionContext) -> Finding:
    """Replace drifted nodes of static pools, pool by pool."""
    eligible = drifted(view, is_static=True) if view.settings.planning.static else []
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in eligible:
        by_pool.setdefault(candidate.pool, []).append(candidate)
    commands: list[Command] = []
    verdicts: dict[str, Blocked] = {}
    for _, candidates in sorted(by_pool.items()):
        for outcome in _of_pool(view, candidates):
            if isinstance(outcome, Command):
                commands.append(outcome)
            else:
                verdicts[outcome.node] = outcome
    return Finding(
        STATIC_DRIFT,
        tuple(commands),
        eligible=len(eligible),
        verdicts=verdicts,
        events=tuple(view.closed_budgets(budgets.DRIFTED)) if eligible else (),
    )


def _of_pool(view: DisruptionContext, candidates: list[Candidate]) -> list[Command | Blocked]:
    pool = candidates[0].node_pool
    count = strength_of(view, pool)
    allowed = view.allowance(pool.metadata.name, budgets.DRIFTED).remaining
    detail = what_comes_first(count)
    if detail:
        return [Blocked(each.name, Why.STATIC, detail, has_event=False) for each in candidates]
    late: list[Command | Blocked] = [over_budget(each) for each in candidates[allowed:]]
    may_go_first = view.settings.terminate_first_drift
    types = view.inspection.types[pool.metadata.name]
    if may_go_first and is_full(pool, types):
        ordered = sorted(candidates, key=lambda each: not holds_slot(each, types, view.facts))
        return [
            _going_first(view, pool, each, NO_RESERVED_CAPACITY)
            if holds_slot(each, types, view.facts)
            else reservations_full(each)
            for each in ordered[:allowed]
        ] + [over_budget(each) for each in ordered[allowed:]]
    chosen = candidates[:allowed]
    slots = count.slots(len(chosen))
    if slots:
        rest = [
            Blocked(each.name, Why.UNSCHEDULABLE, _AT_LIMIT, has_event=False)
            for each in chosen[slots:]
        ]
        return [*(_replaced(view, each) for each in chosen[:slots]), *rest, *late]
    if may_go_first:
        return [*(_going_first(view, pool, each, STATIC_AT_LIMIT) for each in chosen), *late]
    return [*map(at_limit, chosen), *late]


def at_limit(candidate: Candidate) -> Blocked:
    """A machine that stays because the pool's limit leaves no room for its replacement."""
    return Blocked(candidate.name, Why.UNSCHEDULABLE, _AT_LIMIT, event_message=_AT_LIMIT_MESSAGE)


def reservations_full(candidate: Candidate) -> Blocked:
    """A machine that stays because the reservations have no free slot for its replacement."""
    return Blocked(
        candidate.name, Why.UNSCHEDULABLE, _RESERVATIONS_FULL, event_message=_FULL_MESSAGE
    )


def _replaced(view: DisruptionContext, candidate: Candidate) -> Command:
    replacements = (static_replacement(view, candidate),)
    return Command(
        STATIC_DRIFT,
        budgets.DRIFTED,
        Decision.REPLACE,
        (candidate,),
        replacements,
        savings=view.savings([candidate], replacements),
    )


def _going_first(
    view: DisruptionContext, pool: NodePool, candidate: Candidate, reason: str
) -> Command | Blocked:
    if not is_usable(view, pool):
        detail = f"NodePool {pool.metadata.name} is not ready to make another node"
        event_message = _AT_LIMIT_MESSAGE if reason == STATIC_AT_LIMIT else _FULL_MESSAGE
        return Blocked(
            candidate.name, Why.UNSCHEDULABLE, detail, event_message=f"{event_message}: {detail}"
        )
    return Command(
        STATIC_DRIFT,
        budgets.DRIFTED,
        Decision.TERMINATE_FIRST,
        (candidate,),
        terminate_first_reason=reason,
    )
