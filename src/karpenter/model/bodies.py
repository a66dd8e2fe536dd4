"""Parts of objects as they are written: empty fields are omitted."""

from typing import Any

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.nodes import Taint


def requirement_body(entry: NodeRequirement) -> dict[str, Any]:
    """A requirement of a claim or a pool."""
    written: dict[str, Any] = {"key": entry.key, "operator": str(entry.operator)}
    if entry.values:
        written["values"] = list(entry.values)
    if entry.min_values is not None:
        written["minValues"] = entry.min_values
    return written


def taint_body(taint: Taint) -> dict[str, Any]:
    """A taint of a claim, a pool or a node."""
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}
