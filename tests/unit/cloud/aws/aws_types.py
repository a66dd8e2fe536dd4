"""Instance types by hand, for tests of what is done with them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.launch.filters import Wanted
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirement import requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

ZONES = ("us-west-2a", "us-west-2b")


def offering(
    capacity_type: str = "on-demand",
    zone: str = ZONES[0],
    price: float = 1.0,
    *,
    reservation: str = "",
    room: int = 1,
    kind: str = "default",
    interruptible: bool = False,
    available: bool = True,
) -> Offering:
    held = {labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type}
    if reservation:
        held |= {
            ec2_labels.CAPACITY_RESERVATION_ID: reservation,
            ec2_labels.CAPACITY_RESERVATION_TYPE: kind,
            ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE: str(interruptible).lower(),
        }
    return Offering(
        Requirements.from_labels(held),
        price,
        available,
        reservation_id=reservation,
        reservation_capacity=room if reservation else 0,
    )


def kind(
    name: str,
    *offerings: Offering,
    capacity: Mapping[str, int] | None = None,
    held: Mapping[str, str] | None = None,
) -> InstanceType:
    family, _, size = name.partition(".")
    known = {
        labels.INSTANCE_TYPE: name,
        ec2_labels.INSTANCE_FAMILY: family,
        ec2_labels.INSTANCE_SIZE: size,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        **(held or {}),
    }
    amounts = {"cpu": 2000, "memory": 8 * 2**30, "pods": 29, **(capacity or {})}
    return InstanceType(
        name, Requirements.from_labels(known), offerings or (offering(),), Resources.of(amounts)
    )


def wanted(
    *requirements: tuple[str, str, Sequence[str]],
    requests: Mapping[str, Any] | None = None,
    min_values: Mapping[str, int] | None = None,
    best_effort: bool = False,
    ceiling: float = math.inf,
) -> Wanted:
    least = min_values or {}
    listed: Iterable[Any] = (
        requirement(key, operator, values, least.get(key)) for key, operator, values in requirements
    )
    return Wanted(
        Requirements(listed),
        Resources.from_wire(requests or {"cpu": "1"}),
        (labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN),
        is_best_effort=best_effort,
        ceiling=ceiling,
    )


def capacity_types(*values: str) -> tuple[str, str, Sequence[str]]:
    return (labels.CAPACITY_TYPE, "In", values)
