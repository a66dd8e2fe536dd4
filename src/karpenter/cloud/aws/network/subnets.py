"""Subnets of node classes, and how many addresses each of them has left.

EC2's count of free addresses lags, so the addresses of launches under way are subtracted here until
the next count. A subnet is chosen per zone: the one with most addresses left.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from karpenter.api.node_classes.ec2 import EC2NodeClass, SubnetStatus
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.tags import queries
from karpenter.cloud.types import InstanceType

_PAGE: Final = 500
_COUNTS_LIVE: Final = timedelta(minutes=5)
_COUNTS_OUTLIVE: Final = timedelta(minutes=4)


@dataclass(frozen=True, slots=True)
class Subnet:
    id: str
    zone: str
    zone_id: str
    free_addresses: int

    @property
    def status(self) -> SubnetStatus:
        """The subnet as a node class lists it."""
        return SubnetStatus(id=self.id, zone=self.zone, zone_id=self.zone_id)


@dataclass(frozen=True, slots=True)
class SubnetChoice:
    """A subnet that a launch may use, and the addresses kept for it meanwhile."""

    subnet_id: str
    zone: str
    predicted: int
    count: int  # number of the count that the prediction was subtracted from


class Subnets:
    """The subnets of a region, as node classes select them."""

    def __init__(
        self, calls: Calls, clock: Clock, refresh: timedelta = timedelta(minutes=1)
    ) -> None:
        self._calls = calls
        self._found: TtlCache[tuple[str, int], tuple[Subnet, ...]] = TtlCache(
            clock, refresh.total_seconds()
        )
        outlived = refresh.total_seconds() + _COUNTS_OUTLIVE.total_seconds()
        lifetime = max(_COUNTS_LIVE.total_seconds(), outlived)
        self._free: TtlCache[str, int] = TtlCache(clock, lifetime)
        self._in_flight: dict[str, int] = {}  # subnet -> addresses left after launches under way
        self._counts: dict[str, int] = {}  # subnet -> how often its addresses were counted

    async def list(self, node_class: EC2NodeClass) -> tuple[Subnet, ...]:
        """The subnets a node class selects, those with most free addresses first."""
        key = (node_class.metadata.uid, node_class.metadata.generation)
        known = self._found.get(key)
        if known is not None:
            return known
        asked = queries("subnet-id", node_class.spec.subnet_selector_terms)
        found: dict[str, Subnet] = {}
        for filters in asked:
            entries = await self._calls.pages(
                "ec2", "DescribeSubnets", "Subnets", Filters=filters, MaxResults=_PAGE
            )
            for entry in entries:
                found[entry["SubnetId"]] = Subnet(
                    entry["SubnetId"],
                    entry["AvailabilityZone"],
                    entry.get("AvailabilityZoneId", ""),
                    entry.get("AvailableIpAddressCount", 0),
                )
        for subnet in found.values():
            self._count(subnet)
        ordered = sorted(found.values(), key=lambda each: (-each.free_addresses, each.id))
        return self._found.put(key, tuple(ordered))

    def choose(
        self,
        subnets: Sequence[SubnetStatus],
        predicted: Mapping[str, int],
    ) -> tuple[SubnetChoice, ...]:
        """Choose a subnet per zone for a launch, and keep addresses for it.

        Args:
            subnets: those there are to choose from.
            predicted: how many addresses the launch will take in a zone.
        """
        best: dict[str, str] = {}
        for subnet in subnets:
            known = best.get(subnet.zone)
            if known is None or self.left(subnet.id) > self.left(known):
                best[subnet.zone] = subnet.id
        choices = []
        for zone, subnet_id in best.items():
            kept = predicted.get(zone, 0)
            self._in_flight[subnet_id] = self.left(subnet_id) - kept
            choices.append(SubnetChoice(subnet_id, zone, kept, self._counts.get(subnet_id, 0)))
        return tuple(choices)

    def release(self, choices: Iterable[SubnetChoice], used: Collection[str] = ()) -> None:
        """Give back the addresses of subnets that a launch did not use.

        A subnet that EC2 has counted since then is not changed: the count replaced the prediction.
        """
        for choice in choices:
            subnet_id = choice.subnet_id
            if subnet_id in used or self._counts.get(subnet_id, 0) != choice.count:
                continue
            if subnet_id in self._in_flight:
                self._in_flight[subnet_id] += choice.predicted

    def exhaust(self, subnet_id: str) -> None:
        """Take note that EC2 found no free address in a subnet."""
        self._free.put(subnet_id, 0)
        self._in_flight.pop(subnet_id, None)
        self._counts[subnet_id] = self._counts.get(subnet_id, 0) + 1

    def left(self, subnet_id: str) -> int:
        """The free addresses of a subnet less those of launches under way; 0 if not counted yet."""
        in_flight = self._in_flight.get(subnet_id)
        return (self._free.get(subnet_id) or 0) if in_flight is None else in_flight

    def _count(self, subnet: Subnet) -> None:
        self._free.put(subnet.id, subnet.free_addresses)
        self._in_flight.pop(subnet.id, None)
        self._counts[subnet.id] = self._counts.get(subnet.id, 0) + 1


def fewest_pods(types: Iterable[InstanceType], capacity_type: str) -> dict[str, int]:
    """Per zone the pods of the smallest type that could be launched there."""
    fewest: dict[str, int] = {}
    for kind in types:
        pods = kind.capacity.pods
        for offering in kind.offerings:
            if offering.is_launchable and offering.capacity_type == capacity_type:
                zone = offering.zone
                fewest[zone] = min(pods, fewest.get(zone, pods))
    return fewest
