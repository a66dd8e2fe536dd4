"""The story of one pool for people: what it can buy, what it has left, and when."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from karpenter.cli.plan_disruption_view import budget_words
from karpenter.cli.screen import (
    BAD,
    ESTIMATES,
    GOOD,
    MOST_ROWS,
    QUIET,
    TITLE,
    counted,
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
from karpenter.model.resources import CPU, MEMORY, readable_amount
from karpenter.report.pool_story import BudgetStory, PoolStory, Size

if TYPE_CHECKING:
    from rich.console import RenderableType

_Parts: TypeAlias = "Iterator[RenderableType]"


def pool_parts(told: PoolStory, *, now: datetime) -> _Parts:
    """Lay out the story of a pool."""
    name = told.pool.metadata.name
    if told.objection is not None:
        yield words(f"NodePool {name} makes no nodes: {told.objection[1]}", f"{TITLE} {BAD}")
    elif not told.types:
        yield words(f"NodePool {name} can make no node: no instance type is left", f"{TITLE} {BAD}")
    else:
        yield words(f"NodePool {name} can make nodes", f"{TITLE} {GOOD}")
    yield words(_what_it_has(told))
    yield from _types(told)
    yield from _prices(told.prices)
    yield from _limits(told)
    yield from _budgets(told, now)


def _what_it_has(told: PoolStory) -> str:
    cost = total_cost(told.hourly, is_estimate=told.is_estimate)
    unknown = f", {told.unpriced:,} of them at an unknown price" if told.unpriced else ""
    replicas = told.pool.spec.replicas
    wanted = "" if replicas is None else f" of {replicas:,} that it always has"
    return f"{counted(told.nodes, 'node')}{wanted}: {cost}{unknown}"


def _types(told: PoolStory) -> _Parts:
    yield words("")
    out = sum(len(each.types) for each in told.excluded)
    yield words(f"Instance types: {told.types:,} in, {out:,} out", TITLE)
    if not told.excluded:
        return
    rows = table([("out", "right"), ("", "left"), ("because", "left")])
    for each in told.excluded[:MOST_ROWS]:
        cells = (f"{len(each.types):,}", sample(each.types), each.detail)
        rows.add_row("", *map(words, cells))
    yield rows


def _prices(prices: tuple[Size, ...]) -> _Parts:
    if not prices:
        return
    yield words("")
    yield words("The cheapest of each size", TITLE)
    rows = table(
        [
            ("cpu", "right"),
            ("memory", "right"),
            ("type", "left"),
            ("zone", "left"),
            ("capacity", "left"),
            ("$/hour", "right"),
            ("$/month", "right"),
            ("$/cpu", "right"),
            ("types", "right"),
        ]
    )
    for size in prices[:MOST_ROWS]:
        launch, cpus = size.launch, size.cpu / 1000
        price, guessed = launch.price, launch.is_estimate
        per_cpu = per_hour(price / cpus, is_estimate=guessed) if cpus else ""
        rows.add_row(
            "",
            *map(
                words,
                (
                    readable_amount(CPU, size.cpu),
                    readable_amount(MEMORY, size.memory),
                    launch.instance_type,
                    launch.zone,
                    launch.capacity_type,
                    in_column(per_hour(price, is_estimate=guessed)),
                    in_column(per_month(price, is_estimate=guessed)),
                    in_column(per_cpu),
                    f"{size.types:,}",
                ),
            ),
        )
    yield rows
    if any(size.launch.is_estimate for size in prices[:MOST_ROWS]):
        yield words(f"  {ESTIMATES}", QUIET)


def _limits(told: PoolStory) -> _Parts:
    yield words("")
    if not told.limits:
        yield words("Limits: none", TITLE)
        return
    yield words("Limits", TITLE)
    rows = table([("", "left"), ("limit", "right"), ("used", "right"), ("left", "right")])
    for each in told.limits:
        amounts = (each.limit, each.used, each.left)
        cells = [each.resource, *(readable_amount(each.resource, amount) for amount in amounts)]
        rows.add_row("", *map(words, cells))
    yield rows


def _budgets(told: PoolStory, now: datetime) -> _Parts:
    yield words("")
    yield words("Disruption", TITLE)
    left = ", ".join(f"{budget_words(held)} for {r}" for r, held in told.allowances.items())
    said = [
        _policy(told),
        f"nodes that may be disrupted now: {left}",
        *(f"budget of {budget_sentence(each, now=now)}" for each in told.budgets),
    ]
    yield sentences((text, "") for text in said)


def _policy(told: PoolStory) -> str:
    if told.pool.spec.replicas is not None:
        return "nothing is consolidated, as the number of nodes is fixed"
    disruption = told.pool.spec.disruption
    if disruption.consolidate_after == "Never":
        return "nothing is consolidated, as consolidateAfter is Never"
    rule = f"{disruption.consolidate_after} after pods last came or went"
    return f"policy {disruption.consolidation_policy}, {rule}"


def budget_sentence(told: BudgetStory, *, now: datetime) -> str:
    """Say what a budget allows, and when."""
    budget = told.budget
    whom = f" for {', '.join(budget.reasons)}" if budget.reasons is not None else ""
    if told.problem:
        return f"{budget.nodes}{whom}: cannot be read, so nothing is allowed: {told.problem}"
    if budget.schedule is None:
        return f"{budget.nodes}{whom}: always, {counted(told.allowed or 0, 'node')} at a time"
    window = f"{budget.schedule} for {budget.duration}"
    if told.is_active:
        end = f" until {_moment(told.closes, now)}" if told.closes is not None else ""
        allowed = counted(told.allowed or 0, "node")
        return f"{budget.nodes}{whom}: in force now{end}, {allowed} at a time ({window})"
    when = f"from {_moment(told.opens, now)}" if told.opens is not None else "never again"
    return f"{budget.nodes}{whom}: not in force now, {when} ({window})"


def _moment(at: datetime, now: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC (in {lasting(at - now)})"
