"""A NodeClaim during one reconcile: changed in memory first, written once at the end.

A step of the lifecycle takes a claim and returns the changed claim. Nothing here calls the API
server; ``differences`` returns the fields a write has to name.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.model import conditions
from karpenter.model.conditions import Conditions

# Status fields of the lifecycle besides the conditions: attribute -> name on the wire
_STATUS_FIELDS: Final = {
    "node_name": "nodeName",
    "provider_id": "providerID",
    "image_id": "imageID",
    "capacity": "capacity",
    "allocatable": "allocatable",
}


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """The outcome of one step.

    ``afterwards`` is called with the claim once it has been written, so that metrics and logs
    report only what has been stored.
    """

    claim: NodeClaim
    again: float | None = None  # seconds until the step is to run again
    error: Exception | None = None
    is_over: bool = False  # the claim has been given up; nothing is written
    afterwards: Callable[[NodeClaim], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """The fields in which two versions of a claim differ, as a patch names them."""

    metadata: Mapping[str, Any]
    status: Mapping[str, Any]


def conditioned(
    claim: NodeClaim, kind: str, status: str, reason: str = "", message: str = "", *, now: datetime
) -> NodeClaim:
    """The claim with a condition set."""
    changed = conditions.with_condition(
        claim.status.conditions,
        kind,
        status,
        reason,
        message,
        now=now,
        generation=claim.metadata.generation,
    )
    return with_conditions(claim, changed)


def with_conditions(claim: NodeClaim, changed: Conditions) -> NodeClaim:
    """The claim with other conditions."""
    if changed == claim.status.conditions:
        return claim
    status = msgspec.structs.replace(claim.status, conditions=changed)
    return msgspec.structs.replace(claim, status=status)


def summed_up(claim: NodeClaim, *, now: datetime) -> NodeClaim:
    """The claim with all conditions present, at its generation, and ``Ready`` derived from them."""
    changed = claim.status.conditions
    for kind in conditions.NODE_CLAIM_DEPENDENTS:
        changed = conditions.at_generation(changed, kind, claim.metadata.generation)
    changed = conditions.summed_up(
        changed, conditions.NODE_CLAIM_DEPENDENTS, claim.metadata, now=now
    )
    return with_conditions(claim, changed)


def with_metadata(
    claim: NodeClaim, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> NodeClaim:
    """The claim with exactly these labels and annotations."""
    metadata = msgspec.structs.replace(claim.metadata, labels=labels, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)


def differences(old: NodeClaim, new: NodeClaim) -> Differences:
    """What must be written to make ``old`` into ``new``."""
    metadata = {
        name: changed
        for name in ("labels", "annotations")
        if (changed := added(getattr(old.metadata, name), getattr(new.metadata, name)))
    }
    status: dict[str, Any] = {
        wire: getattr(new.status, name)
        for name, wire in _STATUS_FIELDS.items()
        if getattr(old.status, name) != getattr(new.status, name)
    }
    if old.status.conditions != new.status.conditions:
        status["conditions"] = conditions.to_wire(new.status.conditions)
    return Differences(metadata, status)


def is_news(old: NodeClaim, new: NodeClaim) -> bool:
    """Whether a change of a claim has to be reconciled.

    Changed reasons and messages do not, nor does a condition that is added as ``Unknown``: this
    controller writes them itself.
    """
    return _settled(old) != _settled(new) or _without_words(old) != _without_words(new)


def _settled(claim: NodeClaim) -> dict[str, str]:
    held = claim.status.conditions
    return {each.type: each.status for each in held if each.status != conditions.UNKNOWN}


def _without_words(claim: NodeClaim) -> NodeClaim:
    """A claim without its conditions and its resourceVersion."""
    metadata = msgspec.structs.replace(claim.metadata, resource_version="")
    status = msgspec.structs.replace(claim.status, conditions=())
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


def added(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """The entries of ``new`` that ``old`` lacks or has with another value."""
    return {key: value for key, value in new.items() if old.get(key) != value}


def is_deleting(claim: NodeClaim) -> bool:
    """Whether the claim is being deleted."""
    return claim.metadata.deletion_timestamp is not None
