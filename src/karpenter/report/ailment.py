"""What is wrong with a node that nobody has begun to repair, and when somebody will."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from karpenter.disruption.passes import Pass
from karpenter.disruption.repair import foreseen_repair
from karpenter.model.conditions import timestamp
from karpenter.state.nodes import StateNode


@dataclass(frozen=True, slots=True)
class Ailment:
    """What is wrong with a node, and what is done about it if that lasts."""

    condition: str  # its type, its status and why it is so
    action: str
    due: datetime


def ailment_of(view: Pass, machine: StateNode) -> Ailment | None:
    """What is wrong with a machine, where machines are repaired."""
    foreseen = foreseen_repair(machine, view.policies) if view.policies is not None else None
    if foreseen is None:
        return None
    due, match = foreseen
    found = match.condition
    because = f" ({found.reason})" if found.reason else ""
    return Ailment(f"{found.type} is {found.status}{because}", match.policy.action, due)


def ailment_document(told: Ailment) -> dict[str, Any]:
    """Write what is wrong with a node as plain data."""
    return {"condition": told.condition, "action": told.action, "due": timestamp(told.due)}
