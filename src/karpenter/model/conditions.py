"""Conditions of our own objects: how they are set, dated and summed up.

All functions are pure; a condition that does not change is returned as it was, so that an
unchanged status needs no write. Conditions are kept in the order of their types.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.api.meta import Condition, ObjectMeta, Time
from karpenter.api.times import in_utc, within_bounds

Conditions: TypeAlias = tuple[Condition, ...]

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"
AWAITING: Final = "AwaitingReconciliation"
READY: Final = "Ready"

GATE_OFF: Final = "FeatureGateDisabled"

# Of NodeClaims, in the order in which they come about
LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSISTENT_STATE_FOUND: Final = "ConsistentStateFound"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
REBOOTING: Final = "Rebooting"
DISRUPTION_REASON: Final = "DisruptionReason"
DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"

# Of NodePools; overlays and node classes are validated too
VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
NODE_CLASS_READY: Final = "NodeClassReady"
NODE_REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"
STATIC_CAPACITY: Final = "StaticCapacity"  # False on a static pool while the feature gate is off

AMIS_READY: Final = "AMIsReady"  # of node classes that select images
POD_SCHEDULED: Final = "PodScheduled"

NODE_CLAIM_DEPENDENTS: Final = (LAUNCHED, REGISTERED, INITIALIZED)
NODE_POOL_DEPENDENTS: Final = (VALIDATION_SUCCEEDED, NODE_CLASS_READY)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of a type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def status_of(conditions: Iterable[Condition], kind: str) -> str:
    """The status of a condition, empty when there is none."""
    found = find(conditions, kind)
    return found.status if found is not None else ""


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether a condition is there and true."""
    return status_of(conditions, kind) == TRUE


def in_words(condition: Condition) -> str:
    """A condition as text: its type and status, its reason, and its message."""
    why = condition.reason if condition.reason != condition.type else ""
    said = ": ".join(filter(None, (why, condition.message)))
    return f"{condition.type} is {condition.status}{f' ({said})' if said else ''}"


def with_condition(
    conditions: Conditions,
    kind: str,
    status: str,
    reason: str = "",
    message: str = "",
    *,
    now: datetime,
    generation: int,
) -> Conditions:
    """Set a condition; its transition time changes only with its status.

    Without a reason, the type is used.
    """
    known = find(conditions, kind)
    since = known.last_transition_time if known and known.status == status else None
    new = Condition(
        type=kind,
        status=status,
        reason=reason or kind,
        message=message,
        last_transition_time=since or now.replace(microsecond=0),
        observed_generation=generation,
    )
    if known == new:
        return conditions
    return _sorted([*(c for c in conditions if c.type != kind), new])


def without(conditions: Conditions, kind: str) -> Conditions:
    """Remove a condition."""
    if find(conditions, kind) is None:
        return conditions
    return tuple(condition for condition in conditions if condition.type != kind)


def summed_up(
    conditions: Conditions, dependents: Sequence[str], metadata: ObjectMeta, *, now: datetime
) -> Conditions:
    """Add the dependent conditions that are missing, and derive Ready from all of them."""
    born = metadata.creation_timestamp or now
    for kind in dependents:
        if find(conditions, kind) is None:
            conditions = with_condition(
                conditions,
                kind,
                UNKNOWN,
                AWAITING,
                "object is awaiting reconciliation",
                now=born,
                generation=metadata.generation,
            )
    status, reason, message = _sum(conditions, dependents, metadata.generation)
    return with_condition(
        conditions, READY, status, reason, message, now=now, generation=metadata.generation
    )


def at_generation(conditions: Conditions, kind: str, generation: int) -> Conditions:
    """Set the observed generation of a condition that still holds."""
    return tuple(
        msgspec.structs.replace(condition, observed_generation=generation)
        if condition.type == kind and condition.observed_generation != generation
        else condition
        for condition in conditions
    )


def to_wire(conditions: Conditions) -> list[Mapping[str, Any]]:
    """The conditions as they are written; a reason and a message are always given."""
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": timestamp(condition.last_transition_time),
            "observedGeneration": condition.observed_generation,
        }
        for condition in conditions
    ]


def moment_of(text: str) -> datetime | None:
    """Parse a time as Kubernetes writes it; None when the text is not a time."""
    try:
        return msgspec.convert(within_bounds(text), Time)
    except msgspec.ValidationError:
        return None


def timestamp(moment: datetime | None) -> str | None:
    """A time as Kubernetes writes it: UTC, whole seconds."""
    if moment is None:
        return None
    return in_utc(moment).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _sum(
    conditions: Conditions, dependents: Sequence[str], generation: int
) -> tuple[str, str, str]:
    current = {
        kind: condition.status
        for kind in dependents
        if (condition := find(conditions, kind)) is not None
        and condition.observed_generation == generation
    }
    for status, reason in ((FALSE, "UnhealthyDependents"), (UNKNOWN, "ReconcilingDependents")):
        matching = [kind for kind in dependents if current.get(kind, UNKNOWN) == status]
        if matching:
            listed = ", ".join(f"{kind}={status}" for kind in matching)
            return status, reason, listed
    return TRUE, READY, ""


def _sorted(conditions: Iterable[Condition]) -> Conditions:
    return tuple(sorted(conditions, key=lambda condition: condition.type))
