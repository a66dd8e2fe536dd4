"""Which instance types a claim keeps, and the price it is planned at.

A claim that may become one type only is fragile, and one that lists dear types lets spot launch at
any price. So the cheapest types are kept, as many as the pool asks for at least, and those that are
nearly as cheap. Whole types are kept: on-demand of the same type remains the fallback of spot.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from karpenter.cloud.types import comparable_price
from karpenter.model import labels
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.problem import CostOptions


class Because(StrEnum):
    """Why a type is kept."""

    CHEAPEST = "cheapest"
    MINIMUM = "minimum"
    SLACK = "slack"
    MIN_VALUES = "minValues"


@dataclass(frozen=True, slots=True)
class KeptType:
    """An instance type that a claim keeps."""

    index: int  # in the catalogue
    price: float  # of its cheapest offering of the kind that would be launched
    because: Because


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What a claim keeps."""

    bits: int
    types: tuple[KeptType, ...]  # cheapest first
    ceiling: float | None  # the dearest offering it may be launched at, if that is known


def narrowed(template: Template, claim: OpenClaim, cost: CostOptions) -> Narrowed | None:
    """What a claim keeps, or None when it stays as it is.

    A claim that holds or could use a reservation stays as it is, and so does one without any
    known price.
    """
    universe = template.universe
    sold = _sold(universe, claim.bits)
    if claim.bookings or not sold:
        return None
    first = universe.offerings[universe.cheapest_bit(sold)]
    if first.is_reserved:
        return None  # it is paid for already, so its price says nothing about the fallback
    minimum = _minimum(first.capacity_type, cost)
    most = first.price * (1 + cost.price_slack)
    kept: dict[int, KeptType] = {}
    ceiling = first.price
    for bit in universe.members(sold):
        index, price = universe.type_of[bit], universe.offerings[bit].price
        if price <= most and (index in kept or len(kept) >= minimum):
            kept.setdefault(index, KeptType(index, price, Because.SLACK))
        elif index in kept:
            continue
        elif len(kept) < minimum:
            because = Because.MINIMUM if kept else Because.CHEAPEST
            kept[index] = KeptType(index, price, because)
        elif price > most:
            break
        ceiling = max(ceiling, price)
    more = _for_min_values(template, claim, kept)
    prices = [entry.price for index, entry in more.items() if universe.type_bits[index] & sold]
    ceiling = max(ceiling, *prices) if prices else ceiling
    kept |= more
    bits = _of_types(universe, kept) & claim.bits
    return Narrowed(bits, tuple(kept.values()), ceiling)


def _for_min_values(
    template: Template, claim: OpenClaim, kept: dict[int, KeptType]
) -> dict[int, KeptType]:
    """Further types, cheapest first, until the pool's minimum choice is there.

    Where it is not, types that are sold in other ways than the cheapest one count too.
    """
    if not template.min_values:
        return {}
    universe, held = template.universe, claim.shape.requirements
    more: dict[int, KeptType] = {}
    bits = _of_types(universe, kept) & claim.bits
    short = sum(entry.wanted - entry.found for entry in template.shortfalls(held, bits))
    sold = _sold(universe, claim.bits)
    others = claim.bits & universe.launchable & ~sold
    for bit in (*universe.members(sold), *universe.members(others)):
        if not short:
            break
        index = universe.type_of[bit]
        if index in kept or index in more:
            continue
        wider = bits | (universe.type_bits[index] & claim.bits)
        still = sum(entry.wanted - entry.found for entry in template.shortfalls(held, wider))
        if still < short:
            price = universe.offerings[bit].price
            more[index] = KeptType(index, price, Because.MIN_VALUES)
            bits, short = wider, still
    return more


def expected_price(template: Template, bits: int, cost: CostOptions) -> float:
    """What a machine from these offerings will cost: EC2 launches on-demand at the lowest price.

    Spot is launched where there is capacity, so there it is the mean over the cheapest types.
    """
    universe = template.universe
    sold = _sold(universe, bits)
    if not sold:
        cheapest = universe.cheapest(bits)
        return comparable_price(cheapest.price) if cheapest is not None else 0.0
    first = universe.offerings[universe.cheapest_bit(sold)]
    if first.capacity_type != labels.SPOT:
        return first.price
    prices: dict[int, float] = {}
    for bit in universe.members(sold):
        prices.setdefault(universe.type_of[bit], universe.offerings[bit].price)
        if len(prices) >= cost.min_spot_types:
            break
    return math.fsum(prices.values()) / len(prices)


def has_choice(universe: OfferingIndex, bits: int, cost: CostOptions) -> bool:
    """Whether as many types as a claim must keep have an offering in ``bits``."""
    sold = _sold(universe, bits)
    if not sold:
        return False
    minimum = _minimum(universe.offerings[universe.cheapest_bit(sold)].capacity_type, cost)
    found: set[int] = set()
    for bit in universe.members(sold):
        found.add(universe.type_of[bit])
        if len(found) >= minimum:
            return True
    return False


def _minimum(capacity_type: str, cost: CostOptions) -> int:
    return cost.min_spot_types if capacity_type == labels.SPOT else cost.min_types


def _sold(universe: OfferingIndex, bits: int) -> int:
    """Those of ``bits`` that are sold as the cheapest is, at a price that is known."""
    bits &= universe.launchable
    if not bits:
        return 0
    first = universe.offerings[universe.cheapest_bit(bits)]
    if not math.isfinite(first.price):
        return 0
    bits &= universe.with_value(labels.CAPACITY_TYPE, first.capacity_type)
    dearest = bits.bit_length() - 1
    while bits and not math.isfinite(universe.offerings[dearest].price):
        bits &= ~(1 << dearest)  # prices that are not known come last
        dearest = bits.bit_length() - 1
    return bits


def _of_types(universe: OfferingIndex, indices: Iterable[int]) -> int:
    bits = 0
    for index in indices:
        bits |= universe.type_bits[index]
    return bits
