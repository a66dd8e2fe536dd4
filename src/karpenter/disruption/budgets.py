"""How many nodes of a pool may be disrupted now, for each reason.

The strictest budget that is active and covers a reason decides. A budget that cannot be parsed
allows no disruption at all, whatever reasons it covers: blocking is safer than guessing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import Budget, NodePool
from karpenter.api.times import earlier
from karpenter.model import durations
from karpenter.model.conditions import INSTANCE_TERMINATING
from karpenter.model.cron import ScheduleError, parse_schedule
from karpenter.state.nodes import StateNode

EMPTY: Final = "Empty"
DRIFTED: Final = "Drifted"
UNDERUTILIZED: Final = "Underutilized"
UNHEALTHY: Final = "Unhealthy"
REASONS: Final = (EMPTY, DRIFTED, UNDERUTILIZED, UNHEALTHY)

UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the budgets of a pool allow for one reason."""

    node_pool: str
    reason: str
    allowed: int
    total: int  # the base of percentages
    disrupting: int  # nodes that are being deleted or not ready
    problem: str = ""  # a budget that cannot be read

    @property
    def remaining(self) -> int:
        """How many more nodes may be disrupted now."""
        return max(0, self.allowed - self.disrupting)


def allowance(
    pool: NodePool, machines: Iterable[StateNode], reason: str, *, now: datetime
) -> Allowance:
    """What a pool's budgets allow for a reason; ``machines`` are those of the pool."""
    counted = [machine for machine in machines if counts_for_budgets(machine)]
    total = len(counted)
    disrupting = sum(is_disrupting(machine, reason) for machine in counted)
    allowed, problem = UNLIMITED, ""
    for number, budget in enumerate(pool.spec.disruption.budgets):
        try:
            value = budget_value(budget, total, now=now)
        except ValueError as error:
            allowed, problem = 0, problem or f"spec.disruption.budgets[{number}]: {error}"
            continue
        if budget.reasons is None or reason in budget.reasons:
            allowed = min(allowed, value)
    return Allowance(pool.metadata.name, reason, allowed, total, disrupting, problem)


def budget_value(budget: Budget, total: int, *, now: datetime) -> int:
    """How many of ``total`` nodes a budget allows to be disrupted at a time.

    Raises:
        ValueError: the budget cannot be read.
    """
    if not is_active(budget, now=now):
        return UNLIMITED
    text = budget.nodes
    if text.endswith("%") and text[:-1].isdecimal():
        return math.ceil(int(text[:-1]) * total / 100)
    if text.isdecimal():
        return int(text)
    raise ValueError(f"{text!r} is neither a number of nodes nor a percentage")


def is_active(budget: Budget, *, now: datetime) -> bool:
    """Whether a budget's window is open; its start belongs to it, its end does not.

    Raises:
        ValueError: the schedule or the duration cannot be read.
    """
    if budget.schedule is None and budget.duration is None:
        return True
    if budget.schedule is None or budget.duration is None:
        raise ValueError("a schedule and a duration come together")
    length = _duration(budget.duration)
    return parse_schedule(budget.schedule).next_after(earlier(now, length)) <= now


def next_opening(budget: Budget, *, now: datetime) -> datetime | None:
    """When a budget's window opens next; none if it is always open or never again."""
    if budget.schedule is None:
        return None
    try:
        return parse_schedule(budget.schedule).next_after(now)
    except ScheduleError:
        return None


def counts_for_budgets(machine: StateNode) -> bool:
    """Whether a machine is part of the base of percentages."""
    if machine.node_claim is None or machine.node is None:
        return False
    is_up = machine.is_initialized or machine.is_rebooting
    return is_up and not machine.has_condition(INSTANCE_TERMINATING)


def is_disrupting(machine: StateNode, reason: str) -> bool:
    """Whether a machine uses up a budget; for repair, one that is only not ready does not."""
    if machine.is_deleting or machine.is_rebooting:
        return True
    return reason != UNHEALTHY and not machine.is_ready


def _duration(text: str) -> timedelta:
    length = durations.period(text)
    if length is None or not durations.is_positive(text):
        raise ValueError(f"{text!r} is not a duration such as 8h or 30m")
    return length
