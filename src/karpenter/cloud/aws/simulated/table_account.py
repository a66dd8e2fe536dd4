"""A simulated account answered from tables, without moto or boto3.

It has a network and the images that AWS publishes, and nothing else that a class could select.
Plans of manifests use it; ``simulated_account`` gives the same answers but takes seconds to start.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsNotFoundError
from karpenter.cloud.aws.prices.estimates import estimated_price
from karpenter.cloud.aws.simulated.account import check_region, simulated_zones
from karpenter.cloud.aws.simulated.moto_gaps import PUBLISHED, MotoGaps, spot_price
from karpenter.cloud.aws.types.catalogue import Catalogue, catalogue_from
from karpenter.cloud.aws.types.tables import sold_types

_Answer: TypeAlias = dict[str, Any]
_ADDRESSES: Final = 16379  # of a quarter of a /16, as EC2 counts


@dataclass(frozen=True, slots=True)
class _Thing:
    """Something of the account that classes select."""

    id: str
    name: str = ""
    tags: Mapping[str, str] | None = None


class TableAccount:
    """Implements ``Calls`` for the discovery of what node classes select."""

    def __init__(self, clock: Clock, *, cluster: str, region: str) -> None:
        """Know a region.

        Args:
            clock: the source of the images' creation times.
            cluster: what subnets and groups are tagged with.
            region: where the account is.

        Raises:
            SimulationMissingError: the tables know nothing of that region.
        """
        check_region(region)
        zone_ids = sold_types().zones[region]
        self._region = region
        self._clock = clock
        self._images = MotoGaps(clock, region)
        tags = {ec2_labels.DISCOVERY_TAG: cluster}
        self._subnets = {
            zone: _Thing(f"subnet-{zone_ids[zone]}", tags=tags) for zone in simulated_zones(region)
        }
        # every network has a default group, which has no tags
        self._groups = (_Thing("sg-nodes", f"{cluster}-nodes", tags), _Thing("sg-0", "default"))
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], _Answer]] = {
            "DescribeSubnets": self._describe_subnets,
            "DescribeSecurityGroups": self._describe_groups,
            "DescribeSpotPriceHistory": self._spot_prices,
            "GetParameter": self._parameter,
            "DescribeImages": self._describe_images,
            "DescribeCapacityReservations": lambda _: {"CapacityReservations": []},
            "DescribePlacementGroups": lambda _: {"PlacementGroups": []},
        }

    @property
    def region(self) -> str:
        """Where the account is."""
        return self._region

    async def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Answer one call; ``region`` and ``retries`` are ignored."""
        asked = {name: value for name, value in parameters.items() if name[0].isupper()}
        return self._answers[operation](asked)

    async def pages(
        self, service: str, operation: str, items: str, *, region: str = "", **parameters: Any
    ) -> list[Any]:
        """Answer with everything at once."""
        answer = await self.call(service, operation, region=region, **parameters)
        return list(answer[items])

    def _describe_subnets(self, parameters: Mapping[str, Any]) -> _Answer:
        zone_ids = sold_types().zones[self._region]
        return {
            "Subnets": [
                {
                    "SubnetId": subnet.id,
                    "AvailabilityZone": zone,
                    "AvailabilityZoneId": zone_ids[zone],
                    "AvailableIpAddressCount": _ADDRESSES,
                }
                for zone, subnet in self._subnets.items()
                if _passes(subnet, "subnet-id", parameters["Filters"])
            ]
        }

    def _describe_groups(self, parameters: Mapping[str, Any]) -> _Answer:
        return {
            "SecurityGroups": [
                {"GroupId": group.id, "GroupName": group.name}
                for group in self._groups
                if _passes(group, "group-id", parameters["Filters"])
            ]
        }

    def _spot_prices(self, parameters: Mapping[str, Any]) -> _Answer:
        now = self._clock.now()
        sold = sold_types()
        zones = sold.sold_in(self._region)
        prices = {each.name: estimated_price(each) for each in sold.types if each.name in zones}
        return {
            "SpotPriceHistory": [
                {
                    "InstanceType": name,
                    "AvailabilityZone": zone,
                    "SpotPrice": f"{spot_price(name, zone, price):.6f}",
                    "Timestamp": now,
                }
                for name, price in prices.items()
                for zone in zones[name]
            ]
        }

    def _parameter(self, parameters: Mapping[str, Any]) -> _Answer:
        name = parameters["Name"]
        if not name.startswith(PUBLISHED):
            raise AwsNotFoundError(
                "ParameterNotFound", f"there is no parameter {name}", "GetParameter", service="ssm"
            )
        return {"Parameter": {"Name": name, "Value": self._images.publish(name)}}

    def _describe_images(self, parameters: Mapping[str, Any]) -> _Answer:
        asked = {each["Name"]: each["Values"] for each in parameters["Filters"]}
        known = map(self._images.images.get, asked.get("image-id", ()))
        return {"Images": [image for image in known if image is not None]}


async def table_catalogue(calls: Calls) -> Catalogue:
    """What EC2 sells in a region, as the table has it.

    Raises:
        CatalogueError: it sells nothing there.
    """
    sold = sold_types()
    region = calls.region
    return await asyncio.to_thread(catalogue_from, sold.types, sold.sold_in(region), region)


def _passes(thing: _Thing, id_filter: str, filters: Iterable[Mapping[str, Any]]) -> bool:
    """Whether something passes all filters; ``*`` and ``?`` in them stand for any characters."""
    tags = thing.tags or {}
    for each in filters:
        name, values = each["Name"], each["Values"]
        if name == "tag-key":
            held: Sequence[str] = tuple(tags)
        elif name.startswith("tag:"):
            key = name.removeprefix("tag:")
            held = (tags[key],) if key in tags else ()
        else:
            held = (thing.id if name == id_filter else thing.name,)
        if not any(fnmatchcase(text, value) for text in held for value in values):
            return False
    return True
