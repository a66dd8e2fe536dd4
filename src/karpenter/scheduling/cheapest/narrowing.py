"""Which instance types a claim keeps, and the price it is planned at.

A claim with a single type fails when that type is sold out, and one that lists expensive types lets
spot launch at any price. So the cheapest types are kept, at least as many as the pool requires, and
those that are nearly as cheap. Whole types are kept: on-demand of the same type remains the
fallback of spot.
"""

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from karpenter.cloud.types import comparable_price
from karpenter.model import labels
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.plan import KeptFor, KeptType
from karpenter.scheduling.problem import CostOptions


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What a claim keeps."""

    bits: int
    ceiling: float  # dollars per hour of the most expensive offering it may be launched as
    types: tuple[KeptType, ...]  # cheapest first


def narrowed(template: Template, claim: OpenClaim, cost: CostOptions) -> Narrowed | None:
    """What a claim keeps, or None when it stays as it is.

    A claim that holds or could use a reservation stays as it is, and so does one without any
    known price.
    """
    universe = template.universe
    sold = _sold(universe, claim.bits, cost)
    if claim.bookings or not sold:
        return None
    least, lowest = next(_by_price(universe, sold, cost))
    first = universe.offerings[lowest]
    if first.is_reserved:
        return None  # a reservation is prepaid, so its price is no measure for the fallback
    minimum = _minimum(first.capacity_type, cost)
    most = least * (1 + cost.price_slack)
    kept: dict[int, KeptType] = {}
    ceiling = first.price
    for compared, bit in _by_price(universe, sold, cost):
        index, price = universe.type_of[bit], universe.offerings[bit].price
        if compared > most and len(kept) >= minimum:
            break  # they come in the order of price, so all others are more expensive
        if compared > most and index in kept:
            continue
        ceiling = max(ceiling, price)
        if index not in kept:
            because = KeptFor.MINIMUM if len(kept) < minimum else KeptFor.SLACK
            because = because if kept else KeptFor.CHEAPEST
            kept[index] = KeptType(universe.type_names[index], price, because)
    bits = _of_types(universe, kept) & claim.bits
    if cost.risk is not None and first.capacity_type != labels.SPOT:
        # spot would be launched first, although its risk makes it the more expensive
        bits &= ~universe.with_value(labels.CAPACITY_TYPE, labels.SPOT)
    bits, more = _for_min_values(template, claim, sold, bits)
    added = []
    for bit in more:
        price = universe.offerings[bit].price
        if sold >> bit & 1:
            ceiling = max(ceiling, price)
        name = universe.type_names[universe.type_of[bit]]
        added.append(KeptType(name, price, KeptFor.MIN_VALUES))
    return Narrowed(bits, ceiling, (*kept.values(), *added))


def _for_min_values(
    template: Template, claim: OpenClaim, sold: int, bits: int
) -> tuple[int, list[int]]:
    """Add types, cheapest first, until the pool's ``minValues`` are met.

    If the capacity type of the cheapest offering is not enough, types of other capacity types count
    too. The cheapest offering of each added type is returned as well.
    """
    if not template.min_values:
        return bits, []
    universe, held = template.universe, claim.shape.requirements
    short = sum(entry.wanted - entry.found for entry in template.shortfalls(held, bits))
    added: list[int] = []
    others = claim.bits & ~sold  # a reservation that is used up counts too, as in Karpenter's order
    for bit in (*universe.members(sold), *universe.members(others)):
        if not short:
            break
        wider = bits | (universe.type_bits[universe.type_of[bit]] & claim.bits)
        if wider == bits:
            continue
        still = sum(entry.wanted - entry.found for entry in template.shortfalls(held, wider))
        if still < short:
            bits, short = wider, still
            added.append(bit)
    return bits, added


def expected_price(template: Template, bits: int, cost: CostOptions) -> float:
    """The expected price of a machine from these offerings.

    EC2 launches on-demand at the lowest price, but spot where there is capacity: there it is the
    mean over the cheapest types, with what the risk of an interruption costs.
    """
    universe = template.universe
    sold = _sold(universe, bits, cost)
    if not sold:
        cheapest = universe.cheapest(bits)
        return comparable_price(cheapest.price) if cheapest is not None else 0.0
    first = universe.offerings[universe.cheapest_bit(sold)]
    if first.capacity_type != labels.SPOT:
        return first.price
    prices: dict[int, float] = {}
    for price, bit in _by_price(universe, sold, cost):
        prices.setdefault(universe.type_of[bit], price)
        if len(prices) >= cost.min_spot_types:
            break
    return math.fsum(prices.values()) / len(prices)


def has_choice(universe: OfferingIndex, bits: int, cost: CostOptions) -> bool:
    """Whether as many types as a claim must keep have an offering in ``bits``."""
    sold = _sold(universe, bits, cost)
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


def _by_price(universe: OfferingIndex, bits: int, cost: CostOptions) -> Iterator[tuple[float, int]]:
    """Yield the offerings in ``bits`` by the price they are compared at, which is yielded too.

    Spot is compared with the price of its risk. That is never negative, so an offering may be
    yielded as soon as all others have a higher price without it.
    """
    if cost.risk is None:
        for bit in universe.members(bits):
            yield universe.offerings[bit].price, bit
        return
    waiting: list[tuple[float, int]] = []
    for bit in universe.members(bits):
        offering = universe.offerings[bit]
        price = comparable_price(offering.price)
        while waiting and waiting[0][0] <= price:
            yield heapq.heappop(waiting)
        if offering.capacity_type == labels.SPOT:
            name = universe.type_names[universe.type_of[bit]]
            price += cost.risk.hourly(name, offering.zone)
        heapq.heappush(waiting, (price, bit))
    while waiting:
        yield heapq.heappop(waiting)


def _sold(universe: OfferingIndex, bits: int, cost: CostOptions) -> int:
    """Those of ``bits`` with the capacity type of the cheapest, at a known price."""
    bits &= universe.launchable
    if not bits:
        return 0
    if cost.risk is None:
        first = universe.offerings[universe.cheapest_bit(bits)]
    else:
        first = universe.offerings[next(_by_price(universe, bits, cost))[1]]
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
