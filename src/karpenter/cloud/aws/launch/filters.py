"""Which types and offerings a launch asks EC2 for: a chain of filters, each with a reason.

The order matters and is that of ``FILTERS``. A filter that leaves nothing ends the launch, and the
error names the filter. Types come out with only those offerings that may be asked for.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.launch.template_data import CAPACITY_BLOCK
from karpenter.cloud.provider import InsufficientCapacityError
from karpenter.cloud.types import InstanceType, Offering, comparable_price, is_within
from karpenter.model import labels
from karpenter.model.min_values import shortfalls
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

MOST_TYPES: Final = 60
_EXOTIC: Final = (
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "amd.com/gpu",
    "nvidia.com/gpu",
    "habana.ai/gaudi",
)
# Resources that types define; others may come from a NodeOverlay or a device plugin
_OF_TYPES: Final = (
    CPU,
    MEMORY,
    PODS,
    EPHEMERAL_STORAGE,
    *_EXOTIC,
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/efa",
    "vpc.amazonaws.com/PrivateIPv4Address",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a claim asks for."""

    requirements: Requirements
    requests: Resources
    well_known: frozenset[str]
    is_best_effort: bool = False  # minValues are best effort: unmet ones do not end the launch
    ceiling: float = math.inf  # dollars per hour

    @property
    def has_min_values(self) -> bool:
        """Whether the claim has a requirement with ``minValues``."""
        return any(each.min_values is not None for each in self.requirements)

    def allows(self, capacity_type: str) -> bool:
        """Whether the claim takes a capacity type."""
        return self.requirements[labels.CAPACITY_TYPE].has(capacity_type)


def launchable(types: Iterable[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """The types to ask for, cheapest first, with the offerings to ask for.

    Raises:
        InsufficientCapacityError: nothing is left.
    """
    left = list(types)
    for name, keep in FILTERS:
        before, left = left, keep(left, wanted)
        if not left:
            raise InsufficientCapacityError(_nothing_left(name, before, wanted))
    left.sort(key=lambda kind: (_cheapest(kind), kind.name))
    left = left[:MOST_TYPES]
    short = shortfalls(wanted.requirements, (kind.requirements for kind in left))
    if short and not wanted.is_best_effort:
        asked = ", ".join(str(each) for each in short)
        raise InsufficientCapacityError(f"minValues cannot be met by what is left: {asked}")
    return left


def compatible_available(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """What is available now and meets the requirements and requests of the claim."""
    found = []
    for kind in types:
        if not wanted.requirements.intersects(kind.requirements):
            continue
        offerings = tuple(each for each in kind.offerings if _suits(kind, each, wanted))
        if offerings:
            found.append(kind.with_offerings(offerings))
    return found


def one_reservation_type(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """Where reservations may be used, those of one type: the type of the cheapest offering."""
    if not wanted.allows(labels.RESERVED):
        return list(types)
    partitions: dict[int, list[tuple[InstanceType, Offering]]] = {}
    for kind in types:
        for offering in kind.offerings:
            if offering.is_reserved:
                partitions.setdefault(_sort_of(offering), []).append((kind, offering))
    if not partitions:
        return list(types)
    chosen = min(
        partitions,
        key=lambda sort: (min(comparable_price(o.price) for _, o in partitions[sort]), sort),
    )
    return _narrowed(types, lambda _, each: each.is_reserved and _sort_of(each) == chosen)


def one_capacity_block(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """Of capacity blocks the cheapest alone, as a fleet takes one only."""
    offerings = [(kind, each) for kind in types for each in kind.offerings if _is_block(each)]
    if not offerings:
        return list(types)
    kind, offering = min(
        offerings, key=lambda pair: (comparable_price(pair[1].price), pair[0].name)
    )
    return [kind.with_offerings((offering,))]


def roomiest_reservation(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """Of a type's reservations in a zone the one with most room; other types only without any."""
    best: dict[tuple[str, str], Offering] = {}
    for kind in types:
        for offering in kind.offerings:
            place = (kind.name, offering.zone)
            if offering.is_reserved and _has_more_room(offering, best.get(place)):
                best[place] = offering
    if not best:
        return list(types)
    return _narrowed(types, lambda kind, each: best.get((kind.name, each.zone)) is each)


def without_exotic(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """No bare metal and no accelerators for pods that do not need them."""
    if wanted.has_min_values:
        return list(types)
    return [kind for kind in types if not _is_exotic(kind)] or list(types)


def within_ceiling(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """No offering that costs more than the claim was planned at."""
    return _narrowed(types, lambda _, each: is_within(wanted.ceiling, each.price))


def without_dear_spot(types: Sequence[InstanceType], wanted: Wanted) -> list[InstanceType]:
    """No spot offering that costs more than the cheapest on-demand one."""
    if wanted.has_min_values or not (
        wanted.allows(labels.SPOT) and wanted.allows(labels.ON_DEMAND)
    ):
        return list(types)
    on_demand = [
        comparable_price(each.price)
        for kind in types
        for each in kind.offerings
        if each.capacity_type == labels.ON_DEMAND
    ]
    has_spot = any(each.capacity_type == labels.SPOT for kind in types for each in kind.offerings)
    if not on_demand or not has_spot:
        return list(types)
    limit = min(on_demand)
    return _narrowed(
        types,
        lambda _, each: each.capacity_type != labels.SPOT or comparable_price(each.price) <= limit,
    )


Filter = Callable[[Sequence[InstanceType], Wanted], list[InstanceType]]
FILTERS: Final[tuple[tuple[str, Filter], ...]] = (
    ("compatible-available", compatible_available),  # what can be launched at all
    ("capacity-reservation-type", one_reservation_type),  # a fleet takes one sort of reservation
    ("capacity-block", one_capacity_block),  # and of blocks a single one
    ("reserved-offering", roomiest_reservation),  # already paid for, so tried first
    ("price-ceiling", within_ceiling),  # what was planned by price is launched at that price
    ("exotic", without_exotic),  # expensive machines only for pods that need them
    ("spot-price", without_dear_spot),  # spot is worth its risk only when it is cheaper
)


def _suits(kind: InstanceType, offering: Offering, wanted: Wanted) -> bool:
    if not offering.is_launchable:
        return False
    if not wanted.requirements.is_compatible(offering.requirements, wanted.well_known):
        return False
    room = kind.allocatable_of(offering)
    return all(wanted.requests[name] <= room[name] for name in _OF_TYPES)


def _narrowed(
    types: Sequence[InstanceType], keeps: Callable[[InstanceType, Offering], bool]
) -> list[InstanceType]:
    found = []
    for kind in types:
        offerings = tuple(each for each in kind.offerings if keeps(kind, each))
        if offerings:
            found.append(kind.with_offerings(offerings))
    return found


def _sort_of(offering: Offering) -> int:
    """The type of a reservation, as a sort key that decides between equal prices."""
    if _is_block(offering):
        return 1
    interruptible = offering.requirements[ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE]
    return 2 if not interruptible.complement and interruptible.any() == "true" else 0


def _is_block(offering: Offering) -> bool:
    kind = offering.requirements[ec2_labels.CAPACITY_RESERVATION_TYPE]
    return offering.is_reserved and not kind.complement and kind.any() == CAPACITY_BLOCK


def _has_more_room(offering: Offering, other: Offering | None) -> bool:
    if other is None:
        return True
    mine = (offering.reservation_capacity, other.reservation_id)
    return mine > (other.reservation_capacity, offering.reservation_id)


def _is_exotic(kind: InstanceType) -> bool:
    size = kind.requirements[ec2_labels.INSTANCE_SIZE].any()
    return "metal" in size or any(kind.capacity[name] for name in _EXOTIC)


def _cheapest(kind: InstanceType) -> float:
    return min(comparable_price(each.price) for each in kind.offerings)


def _nothing_left(name: str, before: Sequence[InstanceType], wanted: Wanted) -> str:
    if name == "price-ceiling":
        least = min(map(_cheapest, before))
        return (
            f"nothing is on sale within the claim's price ceiling of ${wanted.ceiling:g} per hour;"
            f" the cheapest of {len(before)} instance types costs ${least:g}"
        )
    return (
        f"no instance type is left after the filter {name}, of {len(before)} before it, for"
        f" {wanted.requirements}"
    )
