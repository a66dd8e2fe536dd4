"""Whether a node class can be used: the conditions it has, and what of its status is written.

Unlike those of other objects, the conditions of a node class are listed with Ready at the end.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.model import conditions

SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
IMAGES: Final = conditions.AMIS_READY
INSTANCE_PROFILE: Final = "InstanceProfileReady"
RESERVATIONS: Final = "CapacityReservationsReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
VALIDATION: Final = conditions.VALIDATION_SUCCEEDED

_ALWAYS: Final = (SUBNETS, SECURITY_GROUPS, IMAGES, INSTANCE_PROFILE, PLACEMENT_GROUP, VALIDATION)
_CONDITIONS: Final = "conditions"


def dependents(*, uses_reservations: bool) -> tuple[str, ...]:
    """The conditions that Ready depends on."""
    return (*_ALWAYS, RESERVATIONS) if uses_reservations else _ALWAYS


def with_condition(
    node_class: EC2NodeClass,
    kind: str,
    status: str,
    reason: str = "",
    message: str = "",
    *,
    now: datetime,
) -> EC2NodeClass:
    """Set a condition for the present generation of a node class."""
    known = node_class.status.conditions
    generation = node_class.metadata.generation
    changed = conditions.with_condition(
        known, kind, status, reason, message, now=now, generation=generation
    )
    return node_class if changed is known else _having(node_class, changed)


def summed_up(node_class: EC2NodeClass, kinds: Sequence[str], *, now: datetime) -> EC2NodeClass:
    """Add the conditions that are missing, and derive Ready from all of them."""
    known = node_class.status.conditions
    return _having(node_class, conditions.summed_up(known, kinds, node_class.metadata, now=now))


def with_status(node_class: EC2NodeClass, **fields: Any) -> EC2NodeClass:
    """The node class with other fields in its status."""
    status = msgspec.structs.replace(node_class.status, **fields)
    return msgspec.structs.replace(node_class, status=status)


def status_body(before: EC2NodeClass, after: EC2NodeClass) -> dict[str, Any]:
    """The fields of the status that changed, as they are written; an empty one is removed."""
    old, new = _to_wire(before), _to_wire(after)
    return {
        key: new.get(key) or None
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    }


def _having(node_class: EC2NodeClass, found: conditions.Conditions) -> EC2NodeClass:
    ordered = sorted(found, key=lambda each: each.type == conditions.READY)
    return with_status(node_class, conditions=tuple(ordered))


def _to_wire(node_class: EC2NodeClass) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(node_class.status)
    return {**fields, _CONDITIONS: conditions.to_wire(node_class.status.conditions)}
