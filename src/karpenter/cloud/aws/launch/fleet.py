"""CreateFleet: from the types left over by the filters to a request, and one call for many claims.

The request is a pure function of the discovered state. Claims with equal requests share a call. A
retry after a lost answer sends the same client token (EC2's idempotency token), so EC2 returns the
instances it has already launched.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.batching import CREATE_FLEET, Batcher, BatchObserver
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.cloud.aws.ec2.tags import tag_list
from karpenter.cloud.aws.launch.errors import TOO_FEW, FleetError
from karpenter.cloud.aws.launch.filters import Wanted
from karpenter.cloud.aws.launch.template_data import (
    CAPACITY_BLOCK,
    INTERRUPTIBLE,
    ReservationChoice,
)
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
_INSTANCE: Final = "instance"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """A launch template and what is launched from it."""

    name: str
    image_id: str
    types: tuple[InstanceType, ...]  # with only the offerings that are meant


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """The parameters of CreateFleet, and the key by which requests share a call."""

    parameters: Mapping[str, Any]
    alike: bytes


@dataclass(frozen=True, slots=True)
class Fulfilled:
    """An instance that a fleet launched."""

    instance_id: str
    instance_type: str
    subnet_id: str = ""
    zone: str = ""
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """The instances a fleet launched, and its errors."""

    instances: tuple[Fulfilled, ...]
    errors: tuple[FleetError, ...]


def capacity_type_of(types: Iterable[InstanceType], wanted: Wanted) -> str:
    """The capacity type to request: the first in order of preference that is available.

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
    requirement = wanted.requirements[ec2_labels.INSTANCE_TENANCY]
    return DEFAULT_TENANCY if requirement.has(DEFAULT_TENANCY) else DEDICATED_TENANCY


def partition_of(wanted: Wanted) -> str:
    """The partition of a placement group to request; empty without a requirement on it."""
    requirement = wanted.requirements.get(ec2_labels.PLACEMENT_GROUP_PARTITION)
    if requirement is None or requirement.complement:
        return ""
    return min(requirement.values, default="")


def reservation_of(offering: Offering) -> ReservationChoice | None:
    """The reservation an offering draws on."""
    if not offering.is_reserved:
        return None
    kind = offering.requirements[ec2_labels.CAPACITY_RESERVATION_TYPE]
    interruptible = offering.requirements[ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE]
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
    """The request to CreateFleet for one instance.

    Args:
        uses: the launch templates.
        subnets: the chosen subnet of each zone.
        capacity_type: reserved, spot or on-demand.
        tags: of instances, volumes and the fleet itself.
        context: passed on to EC2 as it is.
        is_price_overlaid: prices come from NodeOverlays, so EC2 must allocate by our priorities.

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
    """The batching key: requests share a call only if they are equal."""
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
    """The type of reservation of all offerings; the filters leave only one."""
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


@dataclass(frozen=True, slots=True)
class FleetAsk:
    """One claim's part in a fleet."""

    request: FleetRequest
    claim_name: str
    claim_uid: str
    attempt: int = 0  # part of the token: with the same token EC2 would repeat its refusal


@dataclass(frozen=True, slots=True)
class FleetShare:
    """The result for one claim of a fleet."""

    instance: Fulfilled | None
    errors: tuple[FleetError, ...]  # of the whole fleet


class Fleets:
    """Launches instances."""

    def __init__(self, calls: Calls, clock: Clock, observe: BatchObserver | None = None) -> None:
        self._calls = calls
        self._batcher: Batcher[FleetAsk, FleetShare] = Batcher(
            "create_fleet", CREATE_FLEET, clock, self._create, observe
        )
        self._tagging: set[asyncio.Task[None]] = set()

    async def launch(self, ask: FleetAsk) -> FleetShare:
        """Launch one instance, in one fleet with equal requests of the same moment.

        Raises:
            AwsError: the call failed as a whole.
        """
        return await self._batcher.ask(ask, ask.request.alike)

    async def finish(self) -> None:
        """Wait for the calls that are under way."""
        await self._batcher.finish()
        await asyncio.gather(*self._tagging, return_exceptions=True)

    async def _create(self, asks: Sequence[FleetAsk]) -> list[FleetShare | Exception]:
        request = dict(asks[0].request.parameters)
        target = request["TargetCapacitySpecification"]
        request["TargetCapacitySpecification"] = {**target, "TotalTargetCapacity": len(asks)}
        if len(asks) == 1:
            request["TagSpecifications"] = _named(request["TagSpecifications"], asks[0].claim_name)
        answer = fleet_answer(
            await self._calls.call("ec2", "CreateFleet", ClientToken=_token(asks), **request)
        )
        errors = answer.errors
        if not answer.instances and not errors:
            errors = (FleetError(TOO_FEW, "the fleet brought too few instances"),)
        if len(asks) > 1:
            self._name_later(answer.instances, asks)
        found = answer.instances
        return [
            FleetShare(found[place] if place < len(found) else None, errors)
            for place in range(len(asks))
        ]

    def _name_later(self, instances: Sequence[Fulfilled], asks: Sequence[FleetAsk]) -> None:
        """Tag instances with their claims' names: a fleet has one set of tags for all of them."""
        pairs = [
            (instance.instance_id, ask.claim_name)
            for instance, ask in zip(instances, asks, strict=False)
        ]
        task = asyncio.get_running_loop().create_task(self._name(pairs))
        self._tagging.add(task)
        task.add_done_callback(self._tagging.discard)

    async def _name(self, pairs: Sequence[tuple[str, str]]) -> None:
        for instance_id, name in pairs:
            try:
                await self._calls.call(
                    "ec2",
                    "CreateTags",
                    Resources=[instance_id],
                    Tags=tag_list({ec2_labels.NODECLAIM_TAG: name}),
                )
            except AwsError as error:
                # the tagging controller adds missing tags later
                log.debug("instance not tagged", instance=instance_id, error=str(error))


def _named(specifications: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    return [
        {**each, "Tags": [*each["Tags"], {"Key": ec2_labels.NODECLAIM_TAG, "Value": name}]}
        if each["ResourceType"] == _INSTANCE
        else dict(each)
        for each in specifications
    ]


def _token(asks: Sequence[FleetAsk]) -> str:
    parts = sorted(f"{ask.claim_uid}/{ask.attempt}" for ask in asks)
    return hashlib.sha256("\n".join(parts).encode() + asks[0].request.alike).hexdigest()
