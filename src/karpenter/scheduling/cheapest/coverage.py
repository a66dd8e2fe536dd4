"""Commitments in packing by price: which sizes they cover, and which claims are steered to them.

A covered offering is one more size: at its marginal price, in as many copies as what is left of its
commitment allows. A claim becomes such a machine only when it lists nothing else, since a launch
prefers spot, and among on-demand offerings the lowest list price. So after packing every claim is
judged in plan order: where covered offerings hold its pods for less than it would cost otherwise,
it is narrowed to them, and takes its part of the commitment. Such a claim may list fewer types than
others keep; when all of them are sold out, the next pass plans without them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.cloud.types import comparable_price
from karpenter.model import labels
from karpenter.model.resources import Resources
from karpenter.scheduling.cheapest.market import Draw
from karpenter.scheduling.cheapest.narrowing import Narrowed, expected_price, narrowed
from karpenter.scheduling.commitments import Balance, Book, Machine
from karpenter.scheduling.compiled.offerings import OfferingIndex, Room
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.inputs.cost_annotations import pool_cost
from karpenter.scheduling.packing.claims import OpenClaim, Shape
from karpenter.scheduling.plan import KeptFor, KeptType
from karpenter.scheduling.problem import CostOptions, PackingMode
from karpenter.scheduling.result import with_bookings

_SAME: Final = 1 + 1e-9  # prices this near are equal
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Settled:
    """What a claim keeps, and what it costs."""

    expected: float  # marginal, at the price it is expected to launch at
    hourly: float  # marginal, at the cheapest offering
    kept: Narrowed | None  # None: it stays as it is
    is_by_price: bool = True  # its pool is packed by price
    shape: Shape | None = None  # narrowed to covered offerings


class CoveredOfferings:
    """The on-demand offerings of catalogues that commitments cover."""

    def __init__(self, book: Book) -> None:
        """Match nothing yet; each catalogue is matched on first use."""
        self._book = book
        self._known: dict[int, tuple[OfferingIndex, int, list[int]]] = {}

    def of(self, universe: OfferingIndex) -> int:
        """Every covered offering."""
        return self._matched(universe)[1]

    def by_commitment(self, universe: OfferingIndex) -> Sequence[int]:
        """The offerings that each commitment covers."""
        return self._matched(universe)[2]

    def _matched(self, universe: OfferingIndex) -> tuple[OfferingIndex, int, list[int]]:
        known = self._known.get(id(universe))
        if known is None:
            masks = [0] * len(self._book.terms)
            for bit in universe.members(
                universe.with_value(labels.CAPACITY_TYPE, labels.ON_DEMAND)
            ):
                offering = universe.offerings[bit]
                name = universe.type_names[universe.type_of[bit]]
                for number, _ in self._book.ways(name, offering.zone, offering.price):
                    masks[number] |= 1 << bit
            every = 0
            for mask in masks:
                every |= mask
            known = self._known[id(universe)] = (universe, every, masks)
        return known


class Coverage:
    """What commitments leave for the machines of one packing."""

    def __init__(self, book: Book, balance: Balance, offerings: CoveredOfferings) -> None:
        """Begin with what running machines leave; ``balance`` is not changed."""
        self._book = book
        self._start = balance
        self._offerings = offerings
        self.balance = balance.copy()

    def afresh(self) -> "Coverage":
        """The same before any machine of a packing took its part."""
        return Coverage(self._book, self._start, self._offerings)

    @property
    def limits(self) -> Sequence[float]:
        """What is left of every commitment."""
        return self.balance.left

    def sizes(
        self, universe: OfferingIndex, room: Room, bits: int, *, partly: bool = True
    ) -> Iterator[tuple[Resources, float, Draw]]:
        """Yield what covered offerings leave for pods, with its marginal price and its draw.

        Each is yielded wholly covered, and if ``partly`` also as the one machine that is covered
        by the rest of a commitment that is too little for a whole one.
        """
        for number, covered in enumerate(self._offerings.by_commitment(universe)):
            left = self.balance.left[number]
            if left <= _NOTHING or not covered & bits:
                continue
            for rest, bit in room.cheapest_ways(covered & bits & universe.launchable):
                offering = universe.offerings[bit]
                name = universe.type_names[universe.type_of[bit]]
                draw = next(
                    way.draw
                    for way in self._book.ways(name, offering.zone, offering.price)
                    if way.commitment == number
                )
                whole = int(left / draw * _SAME)
                if whole or not partly:
                    yield rest, 0.0, Draw(number, draw)
                amount = left - whole * draw
                if partly and amount > _NOTHING:
                    yield rest, offering.price * (1 - amount / draw), Draw(number, amount)

    def settle(self, compiled: CompiledProblem, claim: OpenClaim, *, is_free: bool) -> Settled:
        """Judge one claim, and take its part of the commitments.

        ``is_free``: none of its pods has topology rules, so that its zone may be chosen.
        """
        template = compiled.templates[claim.template]
        settings = compiled.problem.options.cost
        cost = pool_cost(template.node_pool, settings)
        is_by_price = cost.packing is PackingMode.CHEAPEST
        kept = narrowed(template, claim, cost) if is_by_price else None
        bits = with_bookings(template, claim, compiled.problem.facts)[1]
        if kept is not None:
            bits &= kept.bits
        usual = replace(self._as_it_is(template, bits, cost, kept), is_by_price=is_by_price)
        if is_by_price and not claim.bookings:
            steered = self.steered(
                template, claim, usual.expected, slack=cost.price_slack, is_free=is_free
            )
            usual = steered or usual
        self._take(template, claim, usual, bits)
        return usual

    def _as_it_is(
        self, template: Template, bits: int, cost: CostOptions, kept: Narrowed | None
    ) -> Settled:
        universe = template.universe
        expected = expected_price(template, bits, cost)
        first = universe.cheapest(bits)
        if first is None:
            return Settled(expected, 0.0, kept)
        hourly = comparable_price(first.price)
        if first.capacity_type == labels.ON_DEMAND:
            hourly = expected = self._price(
                universe, universe.cheapest_bit(bits & universe.launchable)
            )
        return Settled(expected, hourly, kept)

    def steered(
        self,
        template: Template,
        claim: OpenClaim,
        usual: float,
        *,
        slack: float = 0.0,
        is_free: bool = False,
    ) -> Settled | None:
        """The claim narrowed to covered offerings, where that costs less than ``usual``.

        Args:
            slack: how much more than the one to be launched further ones may cost, as a part.
            is_free: none of its pods has topology rules, so that its zone may be chosen.
        """
        universe = template.universe
        covered = claim.bits & universe.launchable & self._offerings.of(universe)
        if not covered or self.balance.is_spent:
            return None
        chosen, least = -1, usual
        for bit in universe.members(covered):
            price = self._price(universe, bit)
            if price * _SAME < least:
                chosen, least = bit, price
            if least <= _NOTHING:
                break
        if chosen < 0:
            return None
        most = universe.offerings[chosen].price * (1 + slack)
        wanted = 0
        for bit in universe.members(covered >> chosen << chosen):
            if universe.offerings[bit].price > most:
                break
            if self._price(universe, bit) < usual:
                wanted |= 1 << bit
        return _narrowed(template, claim, wanted, chosen, least, is_free=is_free)

    def _take(self, template: Template, claim: OpenClaim, settled: Settled, bits: int) -> None:
        universe = template.universe
        if settled.shape is not None and settled.kept is not None:
            bits = settled.kept.bits
        bits &= universe.launchable
        if not bits or claim.bookings:
            return
        bit = universe.cheapest_bit(bits)
        offering = universe.offerings[bit]
        name = universe.type_names[universe.type_of[bit]]
        self.balance.take(Machine("", name, offering.zone, offering.capacity_type, offering.price))

    def _price(self, universe: OfferingIndex, bit: int) -> float:
        offering = universe.offerings[bit]
        name = universe.type_names[universe.type_of[bit]]
        return self.balance.price(name, offering.zone, offering.price)


def _narrowed(
    template: Template,
    claim: OpenClaim,
    wanted: int,
    chosen: int,
    price: float,
    *,
    is_free: bool,
) -> Settled | None:
    """Narrow a claim to some offerings of its own, if requirements can say so."""
    universe, shapes = template.universe, template.shapes
    shape = shapes.settled(claim.shape, labels.CAPACITY_TYPE, (labels.ON_DEMAND,))
    if shape is None:
        return None
    types = 0
    for index in universe.types_in(wanted):
        types |= universe.type_bits[index]
    bits = claim.bits & shape.bits & types
    if bits & ~wanted and is_free:
        # Reserved instances of one zone: the launch has to be in it
        zones = tuple(universe.values(labels.ZONE, 1 << chosen))
        shape = shapes.settled(shape, labels.ZONE, zones)
        if shape is None:
            return None
        bits &= shape.bits
    for index in universe.types_in(bits & ~wanted):
        bits &= ~universe.type_bits[index]  # some of its offerings are not covered
    if not bits >> chosen & 1 or template.shortfalls(shape.requirements, bits):
        return None
    last = max(universe.members(bits))
    listed = tuple(
        KeptType(universe.type_names[index], own.price, KeptFor.COVERED)
        for index in universe.types_in(bits)
        if (own := universe.cheapest(bits & universe.type_bits[index])) is not None
    )
    kept = Narrowed(bits, universe.offerings[last].price, listed)
    return Settled(price, price, kept, shape=shape)


def coverage_of(compiled: CompiledProblem, balance: Balance | None) -> Coverage | None:
    """What commitments cover beyond running machines; None when there is nothing to count on."""
    ledger = compiled.problem.ledger
    if ledger is None or balance is None:
        return None
    return Coverage(ledger.book, balance, CoveredOfferings(ledger.book))
