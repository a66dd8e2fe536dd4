"""The explanation of one pool as text: what it can launch, what it has left, and when."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from karpenter.cli.plan.disruption_view import budget_words
from karpenter.console.screen import (
    BAD,
    ESTIMATES,
    GOOD,
    MOST_ROWS,
    QUIET,
    TITLE,
    Column,
    Parts,
    counted,
    fitted,
    in_column,
    lasting,
    per_hour,
    per_month,
    sample,
    sentences,
    table,
    total_cost,
    words,
)
from karpenter.model.durations import NEVER
from karpenter.model.resources import CPU, MEMORY, readable_amount
from karpenter.report.nodepool_explanation import BudgetExplanation, NodePoolExplanation, Size

_SHORTEST_TYPE, _SHORTEST_ZONE = 9, 7
_MILLIS: Final = 1000  # of a cpu


def pool_parts(explanation: NodePoolExplanation, *, now: datetime) -> Parts:
    """Lay out the explanation of a pool."""
    name = explanation.pool.metadata.name
    if explanation.objection is not None:
        yield words(f"NodePool {name} makes no nodes: {explanation.objection[1]}", f"{TITLE} {BAD}")
    elif not explanation.types:
        yield words(f"NodePool {name} can make no node: no instance type is left", f"{TITLE} {BAD}")
    else:
        yield words(f"NodePool {name} can make nodes", f"{TITLE} {GOOD}")
    yield words(_what_it_has(explanation))
    yield from _types(explanation)
    yield from _prices(explanation.prices)
    yield from _limits(explanation)
    yield from _budgets(explanation, now)


def _what_it_has(explanation: NodePoolExplanation) -> str:
    replicas = explanation.pool.spec.replicas
    wanted = "" if replicas is None else f" of the {replicas:,} it is to have"
    nodes = f"{counted(explanation.nodes, 'node')}{wanted}"
    if not explanation.nodes:
        return nodes
    if explanation.unpriced and explanation.unpriced == explanation.nodes:
        return f"{nodes}, at an unknown price"
    cost = total_cost(explanation.hourly, is_estimate=explanation.is_estimate)
    unknown = (
        f", {explanation.unpriced:,} of them at an unknown price" if explanation.unpriced else ""
    )
    return f"{nodes}: {cost}{unknown}"


def _types(explanation: NodePoolExplanation) -> Parts:
    yield words("")
    out = sum(len(each.types) for each in explanation.excluded)
    yield words(f"Instance types: {explanation.types:,} in, {out:,} out", TITLE)
    if not explanation.excluded:
        return
    rows = table([("out", "right"), ("", "left"), ("because", "left")])
    for each in explanation.excluded[:MOST_ROWS]:
        cells = (f"{len(each.types):,}", sample(each.types), each.detail)
        rows.add_row("", *map(words, cells))
    yield rows


def _prices(prices: tuple[Size, ...]) -> Parts:
    if not prices:
        return
    yield words("")
    yield words("The cheapest of each size", TITLE)
    shown = prices[:MOST_ROWS]
    launches = [size.launch for size in shown]
    yield fitted(
        [
            Column("cpu", [readable_amount(CPU, size.cpu) for size in shown], is_number=True),
            Column("memory", [readable_amount(MEMORY, s.memory) for s in shown], is_number=True),
            Column("type", [each.instance_type for each in launches], at_worst=_SHORTEST_TYPE),
            Column("zone", [each.zone for each in launches], at_worst=_SHORTEST_ZONE),
            Column("capacity", [each.capacity_type for each in launches]),
            Column("$/hour", [_price(size, per_hour) for size in shown], is_number=True),
            Column("$/month", [_price(size, per_month) for size in shown], is_number=True),
            Column("$/cpu", list(map(_per_cpu, shown)), is_number=True, may_go=2),
            Column("types", [f"{size.types:,}" for size in shown], is_number=True, may_go=1),
        ]
    )
    if any(each.is_estimate for each in launches):
        yield words(f"  {ESTIMATES}", QUIET)


def _price(size: Size, written: Callable[..., str]) -> str:
    return in_column(written(size.launch.price, is_estimate=size.launch.is_estimate))


def _per_cpu(size: Size) -> str:
    if not size.cpu:
        return ""
    price = size.launch.price * _MILLIS / size.cpu
    return in_column(per_hour(price, is_estimate=size.launch.is_estimate))


def _limits(explanation: NodePoolExplanation) -> Parts:
    yield words("")
    if not explanation.limits:
        yield words("Limits: none", TITLE)
        return
    yield words("Limits", TITLE)
    rows = table([("", "left"), ("limit", "right"), ("used", "right"), ("left", "right")])
    for each in explanation.limits:
        amounts = (each.limit, each.used, each.left)
        cells = [each.resource, *(readable_amount(each.resource, amount) for amount in amounts)]
        rows.add_row("", *map(words, cells))
    yield rows


def _budgets(explanation: NodePoolExplanation, now: datetime) -> Parts:
    yield words("")
    yield words("Disruption", TITLE)
    left = ", ".join(f"{budget_words(held)} for {r}" for r, held in explanation.allowances.items())
    said = [
        _policy(explanation),
        f"nodes that may be disrupted now: {left}",
        *(f"budget of {budget_sentence(each, now=now)}" for each in explanation.budgets),
    ]
    yield sentences((text, "") for text in said)


def _policy(explanation: NodePoolExplanation) -> str:
    if explanation.pool.spec.replicas is not None:
        return "nothing is consolidated, as the number of nodes is fixed"
    disruption = explanation.pool.spec.disruption
    if disruption.consolidate_after == NEVER:
        return "nothing is consolidated, as consolidateAfter is Never"
    rule = f"{disruption.consolidate_after} after pods last came or went"
    return f"policy {disruption.consolidation_policy}, {rule}"


def budget_sentence(explanation: BudgetExplanation, *, now: datetime) -> str:
    """Say what a budget allows, and when."""
    budget = explanation.budget
    whom = f" for {', '.join(budget.reasons)}" if budget.reasons is not None else ""
    if explanation.problem:
        return f"{budget.nodes}{whom}: cannot be read, so nothing is allowed: {explanation.problem}"
    if budget.schedule is None:
        return (
            f"{budget.nodes}{whom}: always, {counted(explanation.allowed or 0, 'node')} at a time"
        )
    window = f"{budget.schedule} for {budget.duration}"
    if explanation.is_active:
        end = f" until {_moment(explanation.closes, now)}" if explanation.closes is not None else ""
        allowed = counted(explanation.allowed or 0, "node")
        return f"{budget.nodes}{whom}: in force now{end}, {allowed} at a time ({window})"
    when = (
        f"from {_moment(explanation.opens, now)}"
        if explanation.opens is not None
        else "never again"
    )
    return f"{budget.nodes}{whom}: not in force now, {when} ({window})"


def _moment(at: datetime, now: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC (in {lasting(at - now)})"
