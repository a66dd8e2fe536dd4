"""A fleet request: from the types left over by the filters to what CreateFleet is asked.

Everything here is a pure function of what was found out before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.cloud.aws.filters import Wanted
from karpenter.cloud.aws.launch_errors import FleetError
from karpenter.cloud.aws.launch_template_data import (
    CAPACITY_BLOCK,
    INTERRUPTIBLE,
    ReservationChoice,
)
from karpenter.cloud.aws.tags import tag_list
from karpenter.cloud.provider import CreateError, InsufficientCapacityError
from karpenter.cloud.types import InstanceType, Offering, comparable_price
from karpenter.model import labels

FLEXIBLE_ENOUGH: Final = 5  # types; with fewer, on-demand in place of spot is worth a warning
DEFAULT_TENANCY: Final = "default"
DEDICATED_TENANCY: Final = "dedicated"

_PREFERRED: Final = (labels.RESERVED, labels.SPOT, labels.ON_DEMAND)
_RESERVED_CAPACITY: Final = "reserved-capacity"
_TAGGED: Final = ("instance", "volume", "fleet")
_LATEST: Final = "$Latest"


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """A launch template and what is launched from it."""

    name: str
    image_id: str
    types: tuple[InstanceType, ...]  # with only the offerings that are meant


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """What CreateFleet is asked, and what requests that may share a call have in common."""

    parameters: Mapping[str, Any]
    alike: bytes


@dataclass(frozen=True, slots=True)
class Fulfilled:
    """An instance a fleet brought."""

    instance_id: str
    instance_type: str
    subnet_id: str = ""
    zone: str = ""
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """What a fleet brought, and what it could not bring."""

    instances: tuple[Fulfilled, ...]
    errors: tuple[FleetError, ...]


def capacity_type_of(types: Iterable[InstanceType], wanted: Wanted) -> str:
    """The capacity type to ask for: the first in order of preference that can be had.

    Raises:
        InsufficientCapacityError: none can.
    """
    offered = {each.capacity_type for kind in types for each in kind.offerings}
    for capacity_type in _PREFERRED:
        if capacity_type in offered and wanted.allows(capacity_type):
            return capacity_type
    raise InsufficientCapacityError("no capacity type the claim takes can be had")


def of_capacity_type(types: Iterable[InstanceType], capacity_type: str) -> list[InstanceType]:
    """The types with only the offerings of one capacity type."""
    found = []
    for kind in types:
        offerings = tuple(each for each in kind.offerings if each.capacity_type == capacity_type)
        if offerings:
            found.append(kind.with_offerings(offerings))
    return found


def tenancy_of(wanted: Wanted) -> str:
    """Shared hardware if the claim takes it."""
    requirement = wanted.requirements[labels.INSTANCE_TENANCY]
    return DEFAULT_TENANCY if requirement.has(DEFAULT_TENANCY) else DEDICATED_TENANCY


def partition_of(wanted: Wanted) -> str:
    """The partition of a placement group to ask for; nothing when the claim does not say."""
    requirement = wanted.requirements.get(labels.PLACEMENT_GROUP_PARTITION)
    if requirement is None or requirement.complement:
        return ""
    return min(requirement.values, default="")


def reservation_of(offering: Offering) -> ReservationChoice | None:
    """The reservation an offering draws on."""
    if not offering.is_reserved:
        return None
    kind = offering.requirements[labels.CAPACITY_RESERVATION_TYPE]
    interruptible = offering.requirements[labels.CAPACITY_RESERVATION_INTERRUPTIBLE]
    return ReservationChoice(
        offering.reservation_id,
        type="default" if kind.complement else kind.any(),
        is_interruptible=not interruptible.complement and interruptible.any() == "true",
    )


def fleet_request(
    uses: Sequence[TemplateUse],
    subnets: Mapping[str, str],
    *,
    capacity_type: str,
    tags: Mapping[str, str],
    context: str = "",
    is_price_overlaid: bool = False,
) -> dict[str, Any]:
    """What CreateFleet is asked for one instance.

    Args:
        uses: the launch templates.
        subnets: the chosen subnet of each zone.
        capacity_type: reserved, spot or on-demand.
        tags: of instances, volumes and the fleet itself.
        context: passed on to EC2 as it is.
        is_price_overlaid: prices are the user's, so they decide rather than EC2's.

    Raises:
        CreateError: no type can be launched into any of the subnets.
    """
    configs = [_config(use, subnets) for use in uses]
    configs = [config for config in configs if config["Overrides"]]
    if not configs:
        raise CreateError(
            "NoSubnets", "none of the instance types can be had in a zone with a subnet"
        )
    sort = _reservation_sort(uses) if capacity_type == labels.RESERVED else ""
    request: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": configs,
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": _target(capacity_type, sort),
            "TotalTargetCapacity": 1,
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag_list(tags)} for kind in _TAGGED],
    }
    if context:
        request["Context"] = context
    return request | _strategy(capacity_type, sort, is_price_overlaid)


def fleet_answer(answer: Mapping[str, Any]) -> FleetAnswer:
    """Read the answer of CreateFleet."""
    instances = []
    for entry in answer.get("Instances") or ():
        override = (entry.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
        instances += [
            Fulfilled(
                instance_id=each,
                instance_type=entry.get("InstanceType") or override.get("InstanceType") or "",
                subnet_id=override.get("SubnetId") or "",
                zone=override.get("AvailabilityZone") or "",
                image_id=override.get("ImageId") or "",
            )
            for each in entry.get("InstanceIds") or ()
        ]
    errors = tuple(FleetError.of(entry) for entry in answer.get("Errors") or ())
    return FleetAnswer(tuple(instances), errors)


def sameness(request: Mapping[str, Any]) -> bytes:
    """What two requests that may share a call have in common: everything."""
    return msgspec.json.encode(request, order="sorted")


def _config(use: TemplateUse, subnets: Mapping[str, str]) -> dict[str, Any]:
    cheapest: dict[tuple[str, str], float] = {}  # by type and zone; partitions repeat them
    for kind in use.types:
        for offering in kind.offerings:
            if offering.zone not in subnets:
                continue
            place, price = (kind.name, offering.zone), comparable_price(offering.price)
            cheapest[place] = min(price, cheapest.get(place, price))
    return {
        "LaunchTemplateSpecification": {"LaunchTemplateName": use.name, "Version": _LATEST},
        "Overrides": [
            {
                "InstanceType": name,
                "SubnetId": subnets[zone],
                "ImageId": use.image_id,
                "AvailabilityZone": zone,
                "Priority": price,
            }
            for (name, zone), price in cheapest.items()
        ],
    }


def _reservation_sort(uses: Sequence[TemplateUse]) -> str:
    """The sort all offerings share; the filters have seen to that."""
    choice = reservation_of(uses[0].types[0].offerings[0])
    if choice is None or choice.type == CAPACITY_BLOCK:
        return "" if choice is None else CAPACITY_BLOCK
    return INTERRUPTIBLE if choice.is_interruptible else ""


def _target(capacity_type: str, sort: str) -> str:
    if capacity_type == labels.SPOT:
        return labels.SPOT
    return {CAPACITY_BLOCK: CAPACITY_BLOCK, INTERRUPTIBLE: _RESERVED_CAPACITY}.get(
        sort, labels.ON_DEMAND
    )


def _strategy(capacity_type: str, sort: str, is_price_overlaid: bool) -> dict[str, Any]:
    if capacity_type == labels.SPOT:
        name = "capacity-optimized-prioritized" if is_price_overlaid else "price-capacity-optimized"
        return {"SpotOptions": {"AllocationStrategy": name}}
    if sort == CAPACITY_BLOCK:
        return {}
    if sort == INTERRUPTIBLE:
        return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE]}}
    name = "prioritized" if is_price_overlaid else "lowest-price"
    return {"OnDemandOptions": {"AllocationStrategy": name}}
