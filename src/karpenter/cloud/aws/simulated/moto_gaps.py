"""Answers the calls that moto does not support, or answers too slowly.

* DescribeInstanceTypes, DescribeInstanceTypeOfferings: moto needs seconds to write its own table.
* DescribeSpotPriceHistory: moto has one price for everything.
* DescribeCapacityReservations, DescribePlacementGroups, GetProducts, GetManagedResource: missing.
* DescribeInstanceStatus: moto reports every instance as healthy.
* DescribeImages, GetParameter: the images of EKS are not published.
* DeleteLaunchTemplate: a template that is gone is reported as a missing parameter.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from karpenter.clock import Clock
from karpenter.cloud.aws.simulated.faults import client_error
from karpenter.cloud.aws.simulated.older_types import older_offerings, older_types
from karpenter.cloud.aws.simulated.session import SimulatedSession

Parameters = Mapping[str, Any]
Answer = Mapping[str, Any]

SPOT_SHARE: Final = 0.35  # of the on-demand price, before zones differ
PUBLISHED: Final = "/aws/service/"
_ARM: Final = "arm64"
_METAL_TENANCY: Final = "Dedicated"
_RESERVATION_FILTERS: Final = {
    "state": "State",
    "owner-id": "OwnerId",
    "instance-match-criteria": "InstanceMatchCriteria",
}


@dataclass(slots=True)
class MotoGaps:
    """The answers and their data, which tests may change at any time."""

    clock: Clock
    region: str
    types: frozenset[str] = frozenset()  # what is sold; everything if empty
    prices: dict[str, float] = field(default_factory=dict)  # on demand
    spot_prices: dict[tuple[str, str], float] = field(default_factory=dict)  # where they differ
    reservations: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    shifts: list[dict[str, Any]] = field(default_factory=list)
    savings_plans: list[dict[str, Any]] = field(default_factory=list)
    plan_rates: dict[str, dict[str, str]] = field(default_factory=dict)  # plan -> type -> rate
    reserved: list[dict[str, Any]] = field(default_factory=list)  # reserved instances
    images: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id
    image_generation: int = 1  # another number, and newer images are published

    def fill(self, session: SimulatedSession) -> None:
        """Answer in moto's place from now on."""
        for operation, handler in (
            ("DescribeInstanceTypes", self.instance_types),
            ("DescribeInstanceTypeOfferings", self.type_offerings),
            ("DescribeSpotPriceHistory", self.spot_price_history),
            ("DescribeCapacityReservations", self.capacity_reservations),
            ("DescribePlacementGroups", self.placement_groups),
            ("DescribeInstanceStatus", self.instance_status),
            ("DescribeImages", self.describe_images),
            ("DeleteLaunchTemplate", self.delete_launch_template),
            ("DescribeReservedInstances", self.reserved_instances),
        ):
            session.handlers["ec2", operation] = handler
        session.handlers["ssm", "GetParameter"] = self.parameter
        session.handlers["pricing", "GetProducts"] = self.products
        session.handlers["savingsplans", "DescribeSavingsPlans"] = self.describe_savings_plans
        session.handlers["savingsplans", "DescribeSavingsPlanRates"] = self.savings_plan_rates
        session.handlers["arc-zonal-shift", "GetManagedResource"] = self.managed_resource

    def instance_types(self, client: Any, parameters: Parameters) -> Answer:
        if parameters.get("DryRun"):
            operation = "DescribeInstanceTypes"
            raise client_error(operation, "DryRunOperation", "it would have worked", 412)
        listed = described_types()
        return {
            "InstanceTypes": [
                entry for name, entry in listed.items() if not self.types or name in self.types
            ]
        }

    def type_offerings(self, client: Any, parameters: Parameters) -> Answer:
        listed = self._offered(parameters["LocationType"])
        return {"InstanceTypeOfferings": listed}

    def spot_price_history(self, client: Any, parameters: Parameters) -> Answer:
        offered = self._offered("availability-zone")
        now = self.clock.now()
        return {
            "SpotPriceHistory": [
                {
                    "InstanceType": name,
                    "AvailabilityZone": zone,
                    "SpotPrice": f"{self._spot(name, zone):.6f}",
                    "Timestamp": now,
                }
                for name, zone in ((each["InstanceType"], each["Location"]) for each in offered)
                if name in self.prices
            ]
        }

    def products(self, client: Any, parameters: Parameters) -> Answer:
        asked = {each["Field"]: each["Value"] for each in parameters["Filters"]}
        is_metal = asked.get("tenancy") == _METAL_TENANCY
        listed = {n: p for n, p in self.prices.items() if (".metal" in n) == is_metal}
        return {"PriceList": [product(name, f"{price:.6f}") for name, price in listed.items()]}

    def capacity_reservations(self, client: Any, parameters: Parameters) -> Answer:
        ids = parameters.get("CapacityReservationIds")
        found = [
            each
            for each in self.reservations
            if (ids is None or each["CapacityReservationId"] in ids)
            and _matches(each, parameters.get("Filters", ()), _RESERVATION_FILTERS)
        ]
        if ids and not found:
            operation = "DescribeCapacityReservations"
            code = "InvalidCapacityReservationId.NotFound"
            raise client_error(operation, code, f"{ids[0]} does not exist")
        return {"CapacityReservations": found}

    def placement_groups(self, client: Any, parameters: Parameters) -> Answer:
        asked = [*parameters.get("GroupIds", ()), *parameters.get("GroupNames", ())]
        found = [each for each in self.groups if {each["GroupId"], each["GroupName"]} & set(asked)]
        if asked and not found:
            operation, code = "DescribePlacementGroups", "InvalidPlacementGroup.Unknown"
            raise client_error(operation, code, f"{asked[0]} does not exist")
        return {"PlacementGroups": found}

    def instance_status(self, client: Any, parameters: Parameters) -> Answer:
        return {"InstanceStatuses": list(self.statuses)}

    def managed_resource(self, client: Any, parameters: Parameters) -> Answer:
        return {
            "name": "cluster",
            "appliedWeights": {},
            "arn": parameters["resourceIdentifier"],
            "zonalShifts": list(self.shifts),
        }

    def describe_savings_plans(self, client: Any, parameters: Parameters) -> Answer:
        states = parameters.get("states")
        return {
            "savingsPlans": [
                each for each in self.savings_plans if not states or each["state"] in states
            ]
        }

    def savings_plan_rates(self, client: Any, parameters: Parameters) -> Answer:
        """The rates of one plan, a page for each half, as filters leave them."""
        asked = {each["name"]: each["values"] for each in parameters.get("filters", ())}
        if self.region not in asked.get("region", [self.region]):
            return {"savingsPlanId": parameters["savingsPlanId"], "searchResults": []}
        rates = sorted(self.plan_rates.get(parameters["savingsPlanId"], {}).items())
        half = -(-len(rates) // 2)
        is_first = not parameters.get("nextToken")
        rows = [
            {
                "rate": rate,
                "currency": "USD",
                "unit": "Hrs",
                "productType": "EC2",
                "properties": [{"name": "instanceType", "value": name}],
            }
            for name, rate in (rates[:half] if is_first else rates[half:])
        ]
        answer: Answer = {"savingsPlanId": parameters["savingsPlanId"], "searchResults": rows}
        return {**answer, "nextToken": "more"} if is_first and len(rates) > half else answer

    def reserved_instances(self, client: Any, parameters: Parameters) -> Answer:
        filters = {each["Name"]: each["Values"] for each in parameters.get("Filters", ())}
        states = filters.get("state")
        found = [each for each in self.reserved if not states or each["State"] in states]
        return {"ReservedInstances": found}

    def parameter(self, client: Any, parameters: Parameters) -> Answer:
        name = parameters["Name"]
        if not name.startswith(PUBLISHED):
            answer: Answer = client.get_parameter(**parameters)
            return answer
        return {"Parameter": {"Name": name, "Value": self.publish(name)}}

    def publish(self, parameter: str) -> str:
        """The id of the image that is published under a parameter, which exists from now on."""
        text = f"{parameter}/{self.image_generation}"
        image_id = f"ami-{hashlib.sha256(text.encode()).hexdigest()[:17]}"
        arch = _ARM if f"/{_ARM}/" in parameter or f"-{_ARM}/" in parameter else "x86_64"
        self.images.setdefault(image_id, _image(image_id, parameter, arch, self.clock.now()))
        return image_id

    def describe_images(self, client: Any, parameters: Parameters) -> Answer:
        for each in parameters.get("Filters", ()):
            if each["Name"] == "image-id" and any(id_ in self.images for id_ in each["Values"]):
                known = (self.images.get(image_id) for image_id in each["Values"])
                return {"Images": [image for image in known if image is not None]}
        answer: Answer = client.describe_images(**parameters)
        return answer

    def delete_launch_template(self, client: Any, parameters: Parameters) -> Answer:
        name = parameters["LaunchTemplateName"]
        # raises the right error for a name that does not exist
        client.describe_launch_templates(LaunchTemplateNames=[name])
        answer: Answer = client.delete_launch_template(**parameters)
        return answer

    def _offered(self, location: str) -> list[Mapping[str, str]]:
        return offered_types(self.region, location)

    def _spot(self, name: str, zone: str) -> float:
        known = self.spot_prices.get((name, zone))
        if known is not None:
            return known
        return spot_price(name, zone, self.prices[name])


def spot_price(name: str, zone: str, on_demand: float) -> float:
    """A price of spot; zones differ a little, always in the same way."""
    wobble = hashlib.sha256(f"{name}/{zone}".encode()).digest()[0] / 255
    return on_demand * SPOT_SHARE * (0.9 + 0.2 * wobble)


def described_types() -> Mapping[str, Mapping[str, Any]]:
    """The account's instance types, by name."""
    return {**type_tables().INSTANCE_TYPES, **older_types()}


def offered_types(region: str, location: str) -> list[Mapping[str, str]]:
    """Where types are sold, as DescribeInstanceTypeOfferings has it."""
    listed = type_tables().INSTANCE_TYPE_OFFERINGS[location][region]
    return [*listed, *older_offerings(listed)]


def zone_ids() -> dict[str, dict[str, str]]:
    """The ids of the zones of every region that moto knows the offerings of."""
    listed = importlib.import_module("moto.ec2.models.availability_zones_and_regions")
    known = listed.RegionsAndZonesBackend.zones
    return {
        region: {zone.name: zone.zone_id for zone in sorted(known[region], key=_zone_name)}
        for region in sorted(type_tables().INSTANCE_TYPE_OFFERINGS["availability-zone"])
    }


def _zone_name(zone: Any) -> str:
    return str(zone.name)


def type_tables() -> Any:
    """What moto knows of instance types and where they are sold."""
    return importlib.import_module("moto.ec2.models.instance_types")


def _image(image_id: str, parameter: str, architecture: str, now: datetime) -> dict[str, Any]:
    return {
        "ImageId": image_id,
        "Name": parameter.removeprefix(PUBLISHED).replace("/", "-"),
        "Architecture": architecture,
        "CreationDate": now.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "State": "available",
    }


def product(name: str, price: str, currency: str = "USD") -> str:
    """An entry of the price list."""
    dimension = {"pricePerUnit": {currency: price}, "unit": "Hrs"}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"A.B": {"priceDimensions": {"A.B.C": dimension}}}},
        }
    )


def _matches(
    entry: Mapping[str, Any], filters: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> bool:
    """Whether an entry passes all filters; ``names`` says which field a filter is about."""
    tags = {tag["Key"]: tag["Value"] for tag in entry.get("Tags", ())}
    for each in filters:
        name, values = each["Name"], each["Values"]
        if name == "tag-key":
            held = set(tags) & set(values)
        elif name.startswith("tag:"):
            held = {tags.get(name.removeprefix("tag:"))} & set(values)
        else:
            held = {entry.get(names[name])} & set(values)
        if not held:
            return False
    return True
