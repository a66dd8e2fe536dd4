"""A disruption plan as text: what would be removed, in order, and why everything else stays."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from karpenter.console.screen import (
    BAD,
    GOOD,
    MOST_ROWS,
    QUIET,
    TITLE,
    WAITING,
    Parts,
    counted,
    hour_and_month,
    in_order,
    lasting,
    offer,
    per_hour,
    sample,
    sentences,
    table,
    total_cost,
    words,
)
from karpenter.disruption import commands
from karpenter.disruption.budgets import UNLIMITED, Allowance
from karpenter.disruption.candidates import Blocked, Why
from karpenter.disruption.claim_conditions import quiet_since
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.methods.expiration import expires_at
from karpenter.disruption.plan import DisruptionPlan
from karpenter.model.conditions import DRIFTED
from karpenter.state.pods import key_of

_VERBS: Final = {
    Decision.DELETE: "delete",
    Decision.REPLACE: "replace",
    Decision.TERMINATE_FIRST: "delete and then replace",
    Decision.REBOOT: "restart",
}
_NODES_NAMED: Final = 3
_QUIET: Final = frozenset({Why.NOT_MANAGED, Why.NOT_DISRUPTED})  # why they stay is obvious
_WAITING: Final = frozenset({Why.BUDGET, Why.NOMINATED})
_GOING: Final = frozenset({Why.IN_PROGRESS, Why.DELETING})


def disruption_parts(plan: DisruptionPlan, *, now: datetime, reasons: Sequence[str]) -> Parts:
    """Lay out a plan from top to bottom."""
    yield words(headline(plan.commands), TITLE)
    if plan.commands:
        yield words("")
        yield words("What would be done, one after the other", TITLE)
        yield sentences(
            (command_sentence(each, now=now), GOOD) for each in plan.commands[:MOST_ROWS]
        )
        yield from _rest(len(plan.commands), "command")
    yield from _going([each.node for each in plan.blocked if each.why in _GOING])
    yield from _kept([each for each in plan.blocked if each.why not in _GOING])
    yield from _budgets(plan.budgets, reasons)


def headline(done: Sequence[Command]) -> str:
    """Sum up a plan in one line."""
    going = sum(len(command.candidates) for command in done)
    if not going:
        return "No node to remove"
    made = sum(len(command.replacements) for command in done)
    whose = "its" if going == 1 else "their"
    instead = f", {counted(made, 'new node')} in {whose} place" if made else ""
    summary = ", ".join(filter(None, (_total(done), _unknown(done, going))))
    return f"{counted(going, 'node')} to remove{instead}{': ' if summary else ''}{summary}"


def _total(done: Sequence[Command]) -> str:
    """What commands save together, as far as prices are known."""
    known = [command for command in done if command.known_savings is not None]
    saved = sum(command.known_savings or 0.0 for command in known)
    if not saved:
        return ""
    verb = "saves" if saved > 0 else "costs"
    is_estimate = any(command.is_estimate for command in known)
    return f"{verb} {total_cost(abs(saved), is_estimate=is_estimate)}"


def _unknown(done: Sequence[Command], going: int) -> str:
    """For how many nodes the savings of their removal are not known."""
    unknown = sum(len(each.candidates) for each in done if each.known_savings is None)
    if unknown == going:
        return "the saving is unknown"
    return f"the saving of {counted(unknown, 'node')} is unknown" if unknown else ""


def command_sentence(command: Command, *, now: datetime) -> str:
    """Say what a command does and why, in one line."""
    names = sample(in_order(command.names), most=_NODES_NAMED)
    facts = [_WHY[command.method](command, now)]
    if command.replacements:
        facts.append(f"{_replacements(command)} in {_whose(command)} place")
    saved, is_estimate = command.known_savings, command.is_estimate
    if saved is None:
        facts.append("the saving is unknown")
    elif saved > 0:
        facts.append(f"saves {hour_and_month(saved, is_estimate=is_estimate)}")
    elif saved < 0:
        facts.append(f"costs {per_hour(-saved, is_estimate=is_estimate)}/h more")
    if command.score is not None:
        facts.append(f"score {command.score:.2f}")
    return f"{_VERBS[command.decision]} {names}: {', '.join(filter(None, facts))}"


def _whose(command: Command) -> str:
    return "its" if len(command.candidates) == 1 else "their"


def _replacements(command: Command) -> str:
    launches = [claim.launch for claim in command.replacements]
    shown = [offer(launch) if launch is not None else "a new node" for launch in launches]
    return sample(shown, most=2)


def _empty(command: Command, now: datetime) -> str:
    ages = [
        now - since for each in command.candidates if (since := quiet_since(each.claim)) is not None
    ]
    return f"empty {lasting(min(ages))}" if ages else "empty"


def _expired(command: Command, now: datetime) -> str:
    ends = expires_at(command.candidates[0].claim)
    return f"expired {lasting(now - ends)} ago" if ends is not None else "expired"


def _drifted(command: Command, now: datetime) -> str:
    condition = command.candidates[0].condition(DRIFTED)
    why = condition.reason if condition is not None else ""
    return f"drifted ({why})" if why and why != DRIFTED else "drifted"


def _underused(command: Command, now: datetime) -> str:
    moved = {key_of(pod) for candidate in command.candidates for pod in candidate.movable}
    if command.replacements:
        return f"{counted(len(moved), 'pod')} would do with less"
    # Placements also hold pods of machines that earlier commands remove
    taken = [name for name, pods in command.placements.items() if not moved.isdisjoint(pods)]
    where = sample(in_order(taken), most=2)
    fit = "pod fits" if len(moved) == 1 else "pods fit"
    return f"{len(moved):,} {fit} on {where}" if where else f"{len(moved):,} {fit} elsewhere"


def _unhealthy(command: Command, now: datetime) -> str:
    if command.repair is None:
        return "unhealthy"
    found = command.repair.governing
    age = lasting(now - found.since)
    return f"unhealthy ({found.condition.type} {found.condition.status} for {age})"


def _too_many(command: Command, now: datetime) -> str:
    return f"NodePool {command.candidates[0].pool} has more nodes than replicas"


_WHY: Final[Mapping[str, Callable[[Command, datetime], str]]] = {
    commands.EMPTY: _empty,
    commands.EXPIRATION: _expired,
    commands.DRIFT: _drifted,
    commands.STATIC_DRIFT: _drifted,
    commands.MULTI: _underused,
    commands.SINGLE: _underused,
    commands.REBALANCE: _underused,
    commands.REPAIR: _unhealthy,
    commands.STATIC: _too_many,
}


def _going(names: Sequence[str]) -> Parts:
    if not names:
        return
    yield words("")
    yield words("On their way out already", TITLE)
    yield sentences((name, WAITING) for name in in_order(names)[:MOST_ROWS])
    yield from _rest(len(names), "node")
    yield words("  karpenter explain node NAME says what one waits for", QUIET)


def _kept(blocked: Sequence[Blocked]) -> Parts:
    if not blocked:
        return
    alike: dict[tuple[bool, Why, str], list[str]] = {}
    for entry in blocked:
        key = (entry.why in _QUIET, entry.why, entry.detail)
        alike.setdefault(key, []).append(entry.node)
    yield words("")
    yield words("What stays, and why", TITLE)
    rows = sorted(alike.items(), key=lambda item: item[0][0])
    yield sentences(
        (
            f"keep {sample(in_order(nodes), most=_NODES_NAMED)}: {text}",
            QUIET if is_quiet else WAITING if why in _WAITING else BAD,
        )
        for (is_quiet, why, text), nodes in rows[:MOST_ROWS]
    )
    yield from _rest(len(alike), "reason")


def _budgets(held: Mapping[str, Mapping[str, Allowance]], reasons: Sequence[str]) -> Parts:
    shown = {pool: left for pool, left in held.items() if any(a.total for a in left.values())}
    if not shown:
        return
    yield words("")
    yield words("How many more nodes may be disrupted now", TITLE)
    rows = table([("pool", "left"), ("nodes", "right"), *((r.lower(), "right") for r in reasons)])
    for pool, left in list(shown.items())[:MOST_ROWS]:
        total = next(iter(left.values())).total
        cells = [pool, f"{total:,}", *(budget_words(left[reason]) for reason in reasons)]
        rows.add_row("", *map(words, cells))
    yield rows
    yield from _rest(len(shown), "pool")


def budget_words(left: Allowance) -> str:
    """How many nodes a budget still lets go."""
    return "any" if left.allowed >= UNLIMITED else f"{left.remaining:,}"


def _rest(count: int, noun: str) -> Parts:
    if count > MOST_ROWS:
        yield words(f"  … and {counted(count - MOST_ROWS, noun)} more; -o json has them all", QUIET)
