"""What a node that is on its way out still waits for, as a drain would see it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from karpenter.api.pods import Pod
from karpenter.disruption.candidates import Inspection
from karpenter.model import labels
from karpenter.model.conditions import moment_of, timestamp
from karpenter.state.departing import is_evictable, is_protected, protection_in_words
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active, is_terminating, key_of


@dataclass(frozen=True, slots=True)
class Departure:
    """How far the end of a node has come."""

    since: datetime | None  # None when it is only meant to go: its replacement is not there yet
    deadline: datetime | None  # when it goes whatever holds it
    waits_for: tuple[str, ...]  # sentences without a full stop


def departure_of(machine: StateNode, inspection: Inspection) -> Departure | None:
    """Say how far the end of a machine has come, if it has begun."""
    if not machine.is_deleting:
        return None
    held = [each for each in (machine.node_claim, machine.node) if each is not None]
    begun = [each.metadata.deletion_timestamp for each in held]
    since = min(filter(None, begun), default=None)
    if since is None:
        return Departure(None, None, ("whatever takes its place is awaited first",))
    waits = [each for pod in machine.pods if (each := _holds(pod, inspection))]
    waits += _foreign_finalizers(machine)
    return Departure(since, _deadline(machine), tuple(waits))


def _holds(pod: Pod, inspection: Inspection) -> str:
    """Why a pod keeps a drain waiting; nothing when it does not."""
    name, now = f"pod {key_of(pod)}", inspection.now
    if is_terminating(pod):
        return f"{name} has until {timestamp(pod.metadata.deletion_timestamp)} to end"
    if is_active(pod) and is_protected(pod, now=now):
        return protection_in_words(pod)
    if not is_evictable(pod, now=now):
        return ""
    return inspection.held_by(pod) or f"{name} is to be evicted"


def _foreign_finalizers(machine: StateNode) -> Iterator[str]:
    named = (("Node", machine.node), ("NodeClaim", machine.node_claim))
    for kind, obj in named:
        others = (
            [name for name in obj.metadata.finalizers if name != labels.TERMINATION] if obj else []
        )
        if others:
            yield f"its {kind} has finalizers that somebody else removes: {', '.join(others)}"


def _deadline(machine: StateNode) -> datetime | None:
    claim = machine.node_claim
    text = claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP) if claim else None
    return moment_of(text) if text is not None else None


def departure_document(told: Departure) -> dict[str, Any]:
    """Write how far the end of a node has come as plain data."""
    return {
        "since": timestamp(told.since),
        "deadline": timestamp(told.deadline),
        "waitsFor": list(told.waits_for),
    }
