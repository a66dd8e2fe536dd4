"""The offerings of an instance type: zone by zone, on demand, as spot, or from a reservation.

Every zone of the region has offerings, available or not, so that planners can explain why one is
not used. The requirements of an offering are the same for all types and are shared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import CapacityReservationStatus
from karpenter.cloud.aws.network.placement_groups import PlacementGroup
from karpenter.cloud.aws.types.facts import TypeFacts
from karpenter.cloud.aws.types.labels import only
from karpenter.cloud.aws.types.reservations import EXPIRING
from karpenter.cloud.aws.types.unavailable import Place
from karpenter.cloud.types import Offering
from karpenter.model import labels
from karpenter.model.requirements import Requirements

_PURCHASES: Final = (labels.ON_DEMAND, labels.SPOT)
_RESERVED_DISCOUNT: Final = 10_000_000.0  # what is paid for already is next to free


class Prices(Protocol):
    """What things cost."""

    def on_demand(self, instance_type: str) -> float | None: ...

    def spot(self, instance_type: str, zone: str) -> float | None: ...

    def is_estimate(self, instance_type: str, capacity_type: str) -> bool: ...


class SoldOut(Protocol):
    """What EC2 lately had none of."""

    def is_unavailable(self, place: Place) -> bool: ...


@dataclass(frozen=True)
class Market:
    """What the offerings of all types of a node class depend on."""

    zones: Mapping[str, str]  # every zone of the region, and its id where it is known
    prices: Prices
    sold_out: SoldOut
    closed_zones: frozenset[str] = frozenset()  # shifted away from, or without addresses
    closed_purchases: frozenset[str] = frozenset()  # capacity types nothing can be had of
    marked_types: frozenset[str] = frozenset()  # types to ask ``sold_out`` about
    group: PlacementGroup | None = None
    reservations: Sequence[CapacityReservationStatus] = ()
    free_in: Mapping[str, int] = field(default_factory=dict)  # reservation -> instances left
    supplied: Mapping[str, float] = field(default_factory=dict)  # prices of users, by type

    @cached_property
    def places(self) -> Sequence[tuple[str, str, str, Requirements]]:
        """Zone, capacity type, partition and requirements of all offerings, reserved ones aside."""
        partitions = self.group.partition_numbers if self.group else ()
        return [
            (zone, purchase, partition, self._requirements(zone, purchase, partition))
            for zone in sorted(self.zones)
            for purchase in _PURCHASES
            for partition in partitions or ("",)
        ]

    @cached_property
    def reserved(self) -> Mapping[str, Sequence[CapacityReservationStatus]]:
        """The reservations by the type they are for."""
        found: dict[str, list[CapacityReservationStatus]] = {}
        for each in self.reservations:
            found.setdefault(each.instance_type, []).append(each)
        return found

    def requirements_of(self, reservation: CapacityReservationStatus) -> Requirements:
        """The requirements of what a reservation gives."""
        base = self._requirements(reservation.availability_zone, labels.RESERVED, "")
        return Requirements(
            [
                *(each for each in base if each.key not in _RESERVATION_KEYS),
                only(ec2_labels.CAPACITY_RESERVATION_ID, reservation.id),
                only(ec2_labels.CAPACITY_RESERVATION_TYPE, reservation.reservation_type),
                only(ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE, is_interruptible(reservation)),
            ]
        )

    def _requirements(self, zone: str, purchase: str, partition: str) -> Requirements:
        zone_id = self.zones.get(zone, "")
        return Requirements(
            [
                only(labels.ZONE, zone),
                only(labels.CAPACITY_TYPE, purchase),
                *((only(ec2_labels.ZONE_ID, zone_id),) if zone_id else ()),
                *((only(ec2_labels.PLACEMENT_GROUP_PARTITION, partition),) if partition else ()),
                *(only(key) for key in _RESERVATION_KEYS if self.reservations),
            ]
        )


_RESERVATION_KEYS: Final = (
    ec2_labels.CAPACITY_RESERVATION_ID,
    ec2_labels.CAPACITY_RESERVATION_TYPE,
    ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE,
)


def is_interruptible(reservation: CapacityReservationStatus) -> str:
    """The value of the label that says whether a reservation may be taken back."""
    return "true" if reservation.interruptible else "false"


def offerings_of(
    facts: TypeFacts, zones: frozenset[str], market: Market, *, is_compatible: bool
) -> tuple[Offering, ...]:
    """All offerings of a type.

    Args:
        facts: the type.
        zones: where the type is sold and the node class has subnets.
        market: what all types share.
        is_compatible: whether the node class can use the type at all.
    """
    open_zones = zones - market.closed_zones if is_compatible else frozenset[str]()
    return (
        *_bought(facts, open_zones, market),
        *_reserved(facts, open_zones, market),
    )


def _bought(facts: TypeFacts, zones: frozenset[str], market: Market) -> Iterator[Offering]:
    group = "" if market.group is None else market.group.id
    prices = market.prices
    on_demand, supplied = prices.on_demand(facts.name), market.supplied.get(facts.name)
    is_guessed = {purchase: prices.is_estimate(facts.name, purchase) for purchase in _PURCHASES}
    is_marked = facts.name in market.marked_types
    for zone, purchase, partition, requirements in market.places:
        if purchase not in facts.usage_classes:
            continue
        listed = on_demand if purchase != labels.SPOT else prices.spot(facts.name, zone)
        price = supplied if listed is None else listed
        available = (
            price is not None
            and zone in zones
            and purchase not in market.closed_purchases
            and not (
                is_marked
                and market.sold_out.is_unavailable(
                    Place(facts.name, zone, purchase, group, partition)
                )
            )
        )
        yield Offering(
            requirements,
            0.0 if price is None else price,
            available,
            is_estimate=listed is not None and is_guessed[purchase],
        )


def _reserved(facts: TypeFacts, zones: frozenset[str], market: Market) -> Iterator[Offering]:
    for reservation in market.reserved.get(facts.name, ()):
        count = market.free_in.get(reservation.id, 0)
        price = market.prices.on_demand(facts.name)
        yield Offering(
            market.requirements_of(reservation),
            0.0 if price is None else price / _RESERVED_DISCOUNT,
            # A full reservation stays available: a terminating instance frees its slot
            available=reservation.availability_zone in zones and reservation.state != EXPIRING,
            reservation_id=reservation.id,
            reservation_capacity=count,
            is_estimate=market.prices.is_estimate(facts.name, labels.ON_DEMAND),
        )


def capacity_types(facts: TypeFacts, reservations: Iterable[object]) -> tuple[str, ...]:
    """The capacity types a type comes in."""
    bought = tuple(each for each in _PURCHASES if each in facts.usage_classes)
    return (*bought, labels.RESERVED) if any(True for _ in reservations) else bought
