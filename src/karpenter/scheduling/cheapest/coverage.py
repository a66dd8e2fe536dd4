"""Commitments in packing by price: which sizes they cover, and which claims are steered to them.

A covered offering is one more size: at its marginal price, in as many copies as what is left of its
commitment allows. A claim becomes such a machine only when it lists nothing else, since a launch
prefers spot, and among on-demand offerings the lowest list price. So after packing every claim is
judged: where covered offerings hold its pods for less than it would cost otherwise,
it is narrowed to them, and takes its part of the commitment. Such a claim may list fewer types than
others keep; when all of them are sold out, the next pass plans without them.
"""

from collections.abc import Callable, Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class _Plain:
    """A claim as it is without commitments."""

    template: Template
    cost: CostOptions
    kept: Narrowed | None
    bits: int
    expected: float
    is_by_price: bool
    is_booked: bool


def _plain(compiled: CompiledProblem, claim: OpenClaim) -> _Plain:
    template = compiled.templates[claim.template]
    cost = pool_cost(template.node_pool, compiled.problem.options.cost)
    is_by_price = cost.packing is PackingMode.CHEAPEST
    kept = narrowed(template, claim, cost) if is_by_price else None
    bits = with_bookings(template, claim, compiled.problem.facts)[1]
    if kept is not None:
        bits &= kept.bits
    expected = expected_price(template, bits, cost)
    return _Plain(template, cost, kept, bits, expected, is_by_price, bool(claim.bookings))


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

    def settled(
        self,
        compiled: CompiledProblem,
        claims: Sequence[OpenClaim],
        is_free: Callable[[OpenClaim], bool],
    ) -> list[Settled]:
        """What each claim keeps, and what it costs beyond commitments, in plan order.

        Which claims are steered is decided from the most expensive one down, so that a small claim
        does not take a large machine that others need. Prices are those of the ledger, which
        covers machines in plan order; a claim that would be covered too late stays as it is.

        Args:
            is_free: whether none of a claim's pods has topology rules, so that its zone may be
                chosen.
        """
        plain = [_plain(compiled, claim) for claim in claims]
        deciding = self.afresh()
        decided: dict[int, Settled | None] = {}
        for number in sorted(range(len(claims)), key=lambda n: (-plain[n].expected, n)):
            entry, claim = plain[number], claims[number]
            usual = deciding.as_it_is(entry)
            decided[number] = None
            if entry.is_by_price and not claim.bookings:
                decided[number] = deciding.steered(
                    entry.template,
                    claim,
                    usual.expected,
                    slack=entry.cost.price_slack,
                    is_free=is_free(claim),
                )
            deciding.use(entry, decided[number] or usual)
        telling = self.afresh()
        found = []
        for number, entry in enumerate(plain):
            usual, steered = telling.as_it_is(entry), decided[number]
            if steered is not None and steered.kept is not None:
                bit = entry.template.universe.cheapest_bit(steered.kept.bits)
                price = telling.price_at(entry.template.universe, bit)
                if price * _SAME < usual.expected:
                    usual = replace(steered, expected=price, hourly=price)
            telling.use(entry, usual)
            found.append(usual)
        return found

    def take(self, compiled: CompiledProblem, claim: OpenClaim) -> None:
        """Take the part of the commitments that a claim uses as it is."""
        entry = _plain(compiled, claim)
        self.use(entry, self.as_it_is(entry))

    def draw(self, taken: Draw) -> None:
        """Take an amount of a commitment."""
        self.balance.left[taken.limit] = max(0.0, self.balance.left[taken.limit] - taken.amount)

    def as_it_is(self, entry: "_Plain") -> Settled:
        """What a claim costs that is not steered."""
        universe, expected = entry.template.universe, entry.expected
        first = universe.cheapest(entry.bits)
        if first is None:
            return Settled(expected, 0.0, entry.kept, entry.is_by_price)
        hourly = comparable_price(first.price)
        if first.capacity_type == labels.ON_DEMAND and not entry.is_booked:
            bit = universe.cheapest_bit(entry.bits & universe.launchable)
            hourly = expected = self.price_at(universe, bit)
        return Settled(expected, hourly, entry.kept, entry.is_by_price)

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
            price = self.price_at(universe, bit)
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
            if self.price_at(universe, bit) < usual:
                wanted |= 1 << bit
        return _narrowed(template, claim, wanted, chosen, least, is_free=is_free)

    def use(self, entry: "_Plain", settled: Settled) -> None:
        """Take the part of the commitments that a claim uses."""
        universe, bits = entry.template.universe, entry.bits
        if settled.shape is not None and settled.kept is not None:
            bits = settled.kept.bits
        bits &= universe.launchable
        if not bits or entry.is_booked:
            return
        bit = universe.cheapest_bit(bits)
        offering = universe.offerings[bit]
        name = universe.type_names[universe.type_of[bit]]
        self.balance.take(Machine("", name, offering.zone, offering.capacity_type, offering.price))

    def price_at(self, universe: OfferingIndex, bit: int) -> float:
        """The marginal price of one more machine of an offering."""
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
