"""Whether a node class can be used: its conditions, and what they add up to.

All functions are pure; a condition that does not change is returned as it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from karpenter.api.ec2 import EC2NodeClass
from karpenter.api.meta import Condition

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"

READY: Final = "Ready"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
IMAGES: Final = "AMIsReady"
INSTANCE_PROFILE: Final = "InstanceProfileReady"
RESERVATIONS: Final = "CapacityReservationsReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
VALIDATION: Final = "ValidationSucceeded"

_ALWAYS: Final = (SUBNETS, SECURITY_GROUPS, IMAGES, INSTANCE_PROFILE, PLACEMENT_GROUP, VALIDATION)
_AWAITING: Final = "AwaitingReconciliation"


def dependents(*, uses_reservations: bool) -> tuple[str, ...]:
    """The conditions that Ready depends on."""
    return (*_ALWAYS, RESERVATIONS) if uses_reservations else _ALWAYS


def condition_of(node_class: EC2NodeClass, kind: str) -> Condition | None:
    """A condition of a node class."""
    return next((each for each in node_class.status.conditions if each.type == kind), None)


def status_of(node_class: EC2NodeClass, kind: str) -> str:
    """The status of a condition; one that was never set is unknown."""
    found = condition_of(node_class, kind)
    return UNKNOWN if found is None else found.status


def with_condition(
    node_class: EC2NodeClass,
    kind: str,
    status: str,
    reason: str = "",
    message: str = "",
    *,
    now: datetime,
) -> EC2NodeClass:
    """Set a condition for the present generation; its date moves only with its status."""
    known = condition_of(node_class, kind)
    since = known.last_transition_time if known and known.status == status else None
    new = Condition(
        type=kind,
        status=status,
        reason=reason or kind,
        message=message,
        last_transition_time=since or now.replace(microsecond=0),
        observed_generation=node_class.metadata.generation,
    )
    if known == new:
        return node_class
    others = [each for each in node_class.status.conditions if each.type != kind]
    return with_status(node_class, conditions=_sorted([*others, new]))


def with_status(node_class: EC2NodeClass, **fields: Any) -> EC2NodeClass:
    """The node class with other fields in its status."""
    status = msgspec.structs.replace(node_class.status, **fields)
    return msgspec.structs.replace(node_class, status=status)


def summed_up(node_class: EC2NodeClass, kinds: Sequence[str], *, now: datetime) -> EC2NodeClass:
    """Add the conditions that are missing, and make Ready the sum of them all."""
    for kind in kinds:
        if condition_of(node_class, kind) is None:
            message = "object is awaiting reconciliation"
            node_class = with_condition(node_class, kind, UNKNOWN, _AWAITING, message, now=now)
    status, reason, message = _sum(node_class, kinds)
    return with_condition(node_class, READY, status, reason, message, now=now)


def status_body(before: EC2NodeClass, after: EC2NodeClass) -> dict[str, Any]:
    """The fields of the status that changed, as they are written; an empty one is removed."""
    old = msgspec.to_builtins(before.status)
    new = msgspec.to_builtins(after.status)
    new["conditions"] = [_condition_body(each) for each in after.status.conditions]
    old["conditions"] = [_condition_body(each) for each in before.status.conditions]
    return {
        key: new.get(key) or None
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    }


def _condition_body(condition: Condition) -> Mapping[str, Any]:
    moment = condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None,
        "observedGeneration": condition.observed_generation,
    }


def _sum(node_class: EC2NodeClass, kinds: Sequence[str]) -> tuple[str, str, str]:
    current = {
        each.type: each.status
        for each in node_class.status.conditions
        if each.observed_generation == node_class.metadata.generation
    }
    for status, reason in ((FALSE, "UnhealthyDependents"), (UNKNOWN, "ReconcilingDependents")):
        told = [kind for kind in kinds if current.get(kind, UNKNOWN) == status]
        if told:
            return status, reason, ", ".join(f"{kind}={status}" for kind in told)
    return TRUE, READY, ""


def _sorted(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    return tuple(sorted(conditions, key=lambda each: (each.type == READY, each.type)))
