"""Which instance types a replacement may use so that it is certainly cheaper than what it replaces.

Notation
    wanted    offerings a claim can be launched as; its cheapest is the lowest bit
    worst     the highest price of a type: the most expensive offering of its first capacity type
              among reserved, spot and on-demand

A type is kept only when its worst price is below the price of the candidates, so that it is cheaper
whatever is sold out at launch. Usually there is no such type, which the lowest bit's price shows.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.cloud.types import ProviderFacts, comparable_price
from karpenter.disruption.candidates import Candidate, Why
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim, Shape
from karpenter.scheduling.plan import ABOUT
from karpenter.scheduling.result import with_bookings

# How many cheaper types spot-to-spot consolidation needs; with fewer, a machine would be replaced
# by the next cheaper type again and again, each with a higher risk of interruption
LEAST_SPOT_TYPES: Final = 15
# How Karpenter's events about prices and minValues begin
FILTERING: Final = "Filtering by price"
_NOT_CHEAPER: Final = "Can't replace with a cheaper node"
_NEXT_TO_NOTHING: Final = 0.0001  # dollars per hour; ``g`` would write less with an exponent
_LAUNCH_ORDER: Final = (labels.RESERVED, labels.SPOT, labels.ON_DEMAND)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is no replacement for the candidates."""

    detail: str
    is_silent: bool = False  # no event for each refusal
    event_message: str = ""  # the text of the event, which begins with Karpenter's wording
    why: Why = Why.UNCONSOLIDATABLE


@dataclass(frozen=True, slots=True)
class Option:
    """A planned claim, and the offerings it may be launched as."""

    template: Template
    claim: OpenClaim
    held: Requirements  # its final requirements
    wanted: int

    @property
    def types(self) -> tuple[int, ...]:
        """The indices of the types it may become, cheapest first."""
        return self.template.universe.types_in(self.wanted)

    @property
    def cheapest(self) -> float:
        """The least it may cost an hour."""
        offering = self.template.universe.cheapest(self.wanted)
        return comparable_price(offering.price) if offering else float("inf")

    def with_offerings(self, shape: Shape, bits: int) -> "Option":
        """The same claim with another shape, and some of its offerings."""
        claim = _copy(self.claim, shape, bits)
        return Option(self.template, claim, shape.requirements, bits)

    @property
    def may_be_spot(self) -> bool:
        """Whether its requirements allow spot."""
        return self.held[labels.CAPACITY_TYPE].has(labels.SPOT)


def option_of(template: Template, claim: OpenClaim, facts: ProviderFacts) -> Option:
    """A planned claim as it would be launched."""
    held, wanted = with_bookings(template, claim, facts)
    return Option(template, claim, held, wanted & template.universe.launchable)


def replacement(
    option: Option, candidates: Iterable[Candidate], price: float, *, spot_to_spot: bool
) -> Option | Refused:
    """Narrow a claim to the types that may replace machines with a total of ``price``."""
    replaced = list(candidates)
    if all(each.capacity_type == labels.SPOT for each in replaced) and option.may_be_spot:
        cheaper = _spot_to_spot(option, replaced, price, is_allowed=spot_to_spot)
    else:
        cheaper = cheaper_than(option, price, unknown_price(replaced))
    if isinstance(cheaper, Refused):
        return cheaper
    # before pinning to spot, since an on-demand machine could be kept as well
    cap = _price_of_what_could_stay(cheaper, replaced) if len(replaced) > 1 else None
    pinned = _pinned_to_spot(cheaper)
    if cap is None or isinstance(pinned, Refused):
        return pinned
    return cheaper_than(pinned, cap)


def cheaper_than(option: Option, price: float, unknown: str = "") -> Option | Refused:
    """Keep the types that cost less whichever of their offerings is launched.

    ``unknown`` is added to the refusal where ``price`` does not include an unknown price.
    """
    if not option.wanted:
        return _no_cheaper("no instance type that fits can be launched")
    about = _about(option)
    if option.cheapest >= price:
        than = f"and {unknown}" if unknown else f"not below {about}{_hourly(price)}"
        return _no_cheaper(f"the cheapest replacement is {_cheapest(option)}, {than}")
    kept = _surely_cheaper(option.template.universe, option.wanted, price)
    if not kept:
        detail = f"the cheapest replacement is {_cheapest(option)}, but not in every zone"
        return _no_cheaper(f"{detail} it is sure to cost less than {about}{_hourly(price)}")
    return narrowed_to(option, kept)


def _no_cheaper(detail: str) -> Refused:
    return Refused(detail, event_message=f"{_NOT_CHEAPER}: {detail}")


def unknown_price(candidates: Sequence[Candidate]) -> str:
    """A phrase about candidates of unknown price; empty when all are known."""
    if all(candidate.known_price is not None for candidate in candidates):
        return ""
    replaced = "the price of what it would replace"
    if len(candidates) > 1:
        replaced = "the total price of what it would replace"
    return f"{replaced} is unknown"


def _price_of_what_could_stay(option: Option, candidates: Iterable[Candidate]) -> float | None:
    """The price of the cheapest candidate whose type the claim allows.

    A replacement as expensive as that candidate would disrupt for nothing: it could be kept.
    """
    names = option.template.universe.type_names
    could_have = {names[index] for index in option.types}
    prices = [
        candidate.known_price
        for candidate in candidates
        if candidate.known_price is not None
        and candidate.instance_type is not None
        and candidate.instance_type.name in could_have
    ]
    return min(prices, default=None)


def _cheapest(option: Option) -> str:
    universe = option.template.universe
    bit = universe.cheapest_bit(option.wanted)
    offering = universe.offerings[bit]
    name, about = universe.type_names[universe.type_of[bit]], _about(option)
    return f"{name} ({offering.capacity_type}, {offering.zone}) at {about}{_hourly(offering.price)}"


def _hourly(price: float) -> str:
    """A price without an exponent, also the tiny ones of reservations."""
    shown = f"{price:.4g}" if price >= _NEXT_TO_NOTHING else f"{price:.9f}".rstrip("0").rstrip(".")
    return f"${shown}/h"


def _about(option: Option) -> str:
    """The prefix of prices where they are estimates."""
    universe = option.template.universe
    return ABOUT if universe.offerings[universe.cheapest_bit(option.wanted)].is_estimate else ""


def _spot_to_spot(
    option: Option, replaced: Sequence[Candidate], price: float, *, is_allowed: bool
) -> Option | Refused:
    if not is_allowed:
        return Refused(
            "SpotToSpotConsolidation is off, so spot does not replace spot",
            event_message="SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
        )
    pinned = on_spot(option)
    if isinstance(pinned, Refused):
        return pinned
    cheaper = cheaper_than(pinned, price, unknown_price(replaced))
    if isinstance(cheaper, Refused) or len(replaced) > 1:
        return cheaper
    found = len(cheaper.types)
    if found < LEAST_SPOT_TYPES:
        return Refused(
            f"spot replaces spot only with {LEAST_SPOT_TYPES} cheaper instance types"
            f" to choose from, and there are {found}",
            event_message=f"SpotToSpotConsolidation requires {LEAST_SPOT_TYPES} cheaper instance type options"
            f" than the current candidate to consolidate, got {found}",
        )
    return _cheapest_few(cheaper)


def _cheapest_few(option: Option) -> Option | Refused:
    """The cheapest types: as many as spot-to-spot requires, or more where ``minValues`` does."""
    universe = option.template.universe
    kept = 0
    for number, index in enumerate(option.types, start=1):
        kept |= universe.type_bits[index]
        if number >= LEAST_SPOT_TYPES and not option.template.shortfalls(
            option.held, option.claim.bits & kept
        ):
            break
    return narrowed_to(option, kept)


def _pinned_to_spot(option: Option) -> Option | Refused:
    """Require spot where both spot and on-demand are allowed.

    The types were chosen by their spot price: if spot is sold out at launch, on-demand could cost
    more than the candidates.
    """
    universe = option.template.universe
    spot = universe.with_value(labels.CAPACITY_TYPE, labels.SPOT)
    on_demand = universe.with_value(labels.CAPACITY_TYPE, labels.ON_DEMAND)
    if option.wanted & spot and option.wanted & on_demand:
        return on_spot(option)
    return option


def on_spot(option: Option) -> Option | Refused:
    """The claim on spot alone."""
    template = option.template
    spot = template.universe.with_value(labels.CAPACITY_TYPE, labels.SPOT)
    shape = template.shapes.settled(option.claim.shape, labels.CAPACITY_TYPE, (labels.SPOT,))
    if shape is None or not option.wanted & spot:
        return _no_cheaper("no instance type that fits has spot capacity")
    pinned = _copy(option.claim, shape, option.claim.bits & spot)
    return _checked(Option(template, pinned, shape.requirements, option.wanted & spot))


def narrowed_to(option: Option, kept: int) -> Option | Refused:
    """The claim with those of its offerings that are in a mask."""
    claim = _copy(option.claim, option.claim.shape, option.claim.bits & kept)
    return _checked(Option(option.template, claim, option.held, option.wanted & kept))


def _checked(option: Option) -> Option | Refused:
    """Refuse a claim that does not reach its pool's ``minValues``, even at best effort."""
    short = option.template.shortfalls(option.held, option.claim.bits)
    return Refused(str(short[0]), event_message=f"{FILTERING}: {short[0]}") if short else option


def _surely_cheaper(universe: OfferingIndex, wanted: int, price: float) -> int:
    """All offerings of the types whose worst price is below ``price``."""
    first_dear = bisect_left(
        range(universe.launchable.bit_length()),
        price,
        key=lambda bit: comparable_price(universe.offerings[bit].price),
    )
    dear = wanted >> first_dear << first_dear
    ways = [universe.with_value(labels.CAPACITY_TYPE, way) for way in _LAUNCH_ORDER]
    kept = 0
    for index in universe.types_in(wanted ^ dear):
        own = universe.type_bits[index]
        launched = next((found for way in ways if (found := own & wanted & way)), 0)
        if launched and not launched & dear:
            kept |= own
    return kept


def _copy(claim: OpenClaim, shape: Shape, bits: int) -> OpenClaim:
    copy = OpenClaim(claim.index, claim.template, shape, bits)
    copy.requests = claim.requests
    copy.members = claim.members
    copy.ports = claim.ports
    copy.volumes = claim.volumes
    copy.bookings = claim.bookings
    copy.device_drivers = claim.device_drivers
    copy.is_pinned = claim.is_pinned
    return copy
