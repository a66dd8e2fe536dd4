"""A disruption plan as plain data: the ``disruption`` part of ``karpenter plan -o json``.

The shape is a contract that other tools depend on; ``plan.schema.json`` states it. Every machine is
either a candidate of a command or in the list of those that stay.
"""

from collections.abc import Mapping
from typing import Any, Final

from karpenter.disruption import budgets
from karpenter.disruption.budgets import Allowance
from karpenter.disruption.candidates import Blocked
from karpenter.disruption.commands import Command
from karpenter.disruption.plan import DisruptionPlan
from karpenter.report.provisioning import claim_document, estimate_mark, event_document

_USUAL_REASONS: Final = (budgets.EMPTY, budgets.DRIFTED, budgets.UNDERUTILIZED)


def disruption_document(plan: DisruptionPlan, *, with_repair: bool = False) -> dict[str, Any]:
    """Write a plan as plain data; budgets for repair only where nodes are repaired within them."""
    reasons = reported_reasons(with_repair=with_repair)
    return {
        "commands": [command_document(command) for command in plan.commands],
        "blocked": [_blocked(entry) for entry in plan.blocked],
        "budgets": {pool: _left(held, reasons) for pool, held in plan.budgets.items()},
        "events": [event_document(event) for event in plan.events],
    }


def reported_reasons(*, with_repair: bool) -> tuple[str, ...]:
    """The reasons that budgets are reported for."""
    return (*_USUAL_REASONS, budgets.UNHEALTHY) if with_repair else _USUAL_REASONS


def command_document(command: Command) -> dict[str, Any]:
    """Write a command as plain data."""
    return {
        "decision": command.decision.value,
        "reason": command.reason,
        "method": command.method,
        "candidates": list(command.names),
        "replacements": [claim_document(claim) for claim in command.replacements],
        "savingsHourly": command.known_savings,
        **estimate_mark(command.is_estimate and command.known_savings is not None),
        "score": command.score,
    }


def _blocked(entry: Blocked) -> dict[str, Any]:
    return {"node": entry.node, "reason": entry.why.value, "detail": entry.detail}


def _left(held: Mapping[str, Allowance], reasons: tuple[str, ...]) -> dict[str, int]:
    return {reason: held[reason].remaining for reason in reasons}
