"""The least that any plan for a cluster's pods can cost, from the configuration program.

Everything but prices, room, labels and taints is relaxed, so the bound holds whatever a plan does
about spreads, pool weights, limits or preferences. What commitments cover is a size without a price
that draws on what they leave. A reservation is a size that there is as often as it has machines left.
Each machine that exists is a size with a price of zero and a count of one; machines that are nearly
alike are merged, each with the most room that any of them has.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from karpenter.model.resources import CPU
from karpenter.scheduling.bound import FreeRoom, Masks, Pools, markets_of, offering_masks
from karpenter.scheduling.cheapest import configurations, fluid
from karpenter.scheduling.cheapest.coverage import Coverage, coverage_of
from karpenter.scheduling.cheapest.market import Market, Size, Work, without_dominated
from karpenter.scheduling.cheapest.solver_library import SolverError
from karpenter.scheduling.compiled.offerings import partition
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem

_MOST_PAIRS: Final = 60_000  # of a class and a size; beyond that the program is too large
_MOST_CLASSES: Final = 400
_ROUNDED_UP: Final = 1 + 1e-9  # covers rounding errors of floats
_DIGITS: Final = 2  # that are kept of the free room of machines


@dataclass(frozen=True, slots=True)
class _Class:
    """Pods with the same needs that may use the same offerings and machines."""

    needs: tuple[tuple[str, int], ...]
    masks: Masks  # offerings that can be bought any number of times
    reserved: Masks  # offerings of reservations
    machines: int  # those that exist, as a mask


@dataclass(frozen=True, slots=True)
class Proof:
    """A lower bound with the shares that prove it."""

    hourly: float
    shares: Mapping[PodClass, float]  # dollars per hour of one pod; none of what nothing holds
    method: Literal["shares", "configurations"]


def configuration_bound(
    compiled: CompiledProblem,
    served: Mapping[PodClass, int],
    well_known: frozenset[str],
    room: FreeRoom,
) -> float | None:
    """A lower bound in dollars per hour, or None where there is no solver or too much to solve.

    Args:
        served: how many pods a plan places of each class, on machines new and old.
        well_known: labels that pools need not define for a pod that asks for them.
        room: what is free on machines that exist.
    """
    crowd = _crowd(compiled, served, well_known, room)
    if not crowd.classes or not crowd.is_small:
        return None
    market = crowd.with_coverage(compiled)
    if market.pairs > _MOST_PAIRS or len(_held(market)) < len(crowd.classes):
        return None  # of a class that fits on no size that can be bought the dual is unbounded
    work = Work(compiled.problem.options.cost.budget or 1.0, lambda: True)
    try:
        return configurations.bound_of(market, fluid.worths(market), work)[0]
    except SolverError:
        return None


def proof_of(
    compiled: CompiledProblem,
    served: Mapping[PodClass, int],
    well_known: frozenset[str],
    room: FreeRoom,
) -> Proof:
    """A lower bound for these pods with the share of each, from the solver or built-in rates.

    Pods that fit on nothing that can be bought have no share. The arguments are those of
    ``configuration_bound``.
    """
    crowd = _crowd(compiled, served, well_known, room)
    if not crowd.classes:
        return Proof(0.0, {}, "shares")
    market = crowd.market
    held = _held(market)
    if len(held) < len(crowd.classes):
        crowd = crowd.only(held)
        if not crowd.classes:
            return Proof(0.0, {}, "shares")
        market = crowd.market
    shares: Sequence[float]
    hourly, shares = fluid.bound_of(market)
    method: Literal["shares", "configurations"] = "shares"
    if crowd.is_small and market.pairs <= _MOST_PAIRS:
        work = Work(compiled.problem.options.cost.budget or 1.0, lambda: True)
        try:
            sharper = configurations.bound_of(market, fluid.worths(market), work)
        except SolverError:
            sharper = (0.0, ())
        if sharper[0] > hourly:
            (hourly, shares), method = sharper, "configurations"
    share_of = dict(zip(crowd.classes, shares, strict=True))
    ledger = compiled.problem.ledger
    if ledger is not None:  # commitments pay at most so much of the list prices
        hourly = max(0.0, hourly - ledger.worth * _ROUNDED_UP)
    found = {kind: share_of[entry] for kind, entry in crowd.class_of.items() if entry in share_of}
    return Proof(hourly, found, method)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The pods of a cluster as classes of a market, and what there is for them."""

    classes: Sequence[_Class]
    class_of: Mapping[PodClass, _Class]
    demand: Mapping[_Class, int]
    pools: Sequence[Pools]
    room: FreeRoom
    credits: Mapping[str, int]  # what machines that go leave to reservations

    @property
    def is_small(self) -> bool:
        """Whether the configuration program takes so many classes."""
        return len(self.classes) <= _MOST_CLASSES

    @property
    def market(self) -> Market:
        """The market of these classes; machines that exist are sizes of limited number."""
        return self._market(None)

    def with_coverage(self, compiled: CompiledProblem) -> Market:
        """The same market with what commitments leave for new machines."""
        ledger = compiled.problem.ledger
        return self._market(coverage_of(compiled, ledger.balance() if ledger else None))

    def _market(self, coverage: Coverage | None) -> Market:
        names = sorted({name for entry in self.classes for name, _ in entry.needs}, key=_cpu_first)
        needs = [tuple(dict(entry.needs).get(name, 0) for name in names) for entry in self.classes]
        sold = without_dominated(_sold(self.pools, self.classes, names))
        sizes = [*sold, *_existing(self.classes, names, self.room, sold)]
        most = sum(self.demand.values())
        sizes += _reserved(self.pools, self.classes, names, self.credits, most)
        limits: Sequence[float] = ()
        if coverage is not None:
            sizes += _covered(coverage, self.pools, self.classes, names)
            limits = coverage.limits
        return Market(needs, [self.demand[entry] for entry in self.classes], sizes, limits)

    def only(self, held: Iterable[int]) -> "_Crowd":
        """The same with some of the classes."""
        return replace(self, classes=[self.classes[number] for number in sorted(held)])


def _crowd(
    compiled: CompiledProblem,
    served: Mapping[PodClass, int],
    well_known: frozenset[str],
    room: FreeRoom,
) -> _Crowd:
    pools = markets_of(compiled.templates)
    options = compiled.problem.options
    # Elsewhere a plan may count on more machines of a reservation than there are: if it books none, and
    # if claims without a booking are listed at the price of the reservation all the same
    books = options.reserved_capacity and options.strict_reservations
    reserved_in_pools = [own[0].universe.reserved if books else 0 for own in pools]
    demand: Counter[_Class] = Counter()
    class_of: dict[PodClass, _Class] = {}
    for pod_class, count in served.items():
        allowed = offering_masks(pod_class, pools, well_known)
        both = [*zip(allowed, reserved_in_pools, strict=True)]
        masks = tuple(mask & ~reserved for mask, reserved in both)
        if any(masks):  # nothing that can be bought suits the others, so they add nothing
            on_reserved = tuple(mask & reserved for mask, reserved in both)
            machines = room.usable(pod_class) if room.free else 0
            entry = _Class(pod_class.needs, masks, on_reserved, machines)
            class_of[pod_class] = entry
            demand[entry] += count
    classes = sorted(demand, key=lambda e: (e.needs, e.masks, e.reserved, e.machines))
    return _Crowd(classes, class_of, demand, pools, room, options.reservation_credits)


def _held(market: Market) -> set[int]:
    """The classes that fit on some size that can be bought."""
    return {u for n, most in enumerate(market.most) if market.sizes[n].is_unlimited for u in most}


def _cpu_first(name: str) -> tuple[bool, str]:
    return name != CPU, name


def _sold(
    pools: Sequence[Pools], classes: Sequence[_Class], names: Sequence[str]
) -> Iterator[Size]:
    """Yield what can be bought, at list prices."""
    for position, market in enumerate(pools):
        universe, room = market[0].universe, market[0].room
        for users, bits in partition([entry.masks[position] for entry in classes]):
            for rest, bit in room.cheapest_ways(bits):
                price = universe.offerings[bit].price
                if math.isfinite(price):
                    has = tuple(max(0, rest[name]) for name in names)
                    yield Size(has, max(0.0, price), tuple(sorted(users)))


def _reserved(
    pools: Sequence[Pools],
    classes: Sequence[_Class],
    names: Sequence[str],
    credits: Mapping[str, int],  # noqa: A002 -- as reservations call them
    most: int,
) -> list[Size]:
    """What reservations have left; no more than ``most`` machines of each are of any use.

    One that pools see with different room counts once for each, which makes a bound lower.
    """
    users: dict[tuple[str, tuple[int, ...], float], set[int]] = {}
    counts: dict[tuple[str, tuple[int, ...], float], int] = {}
    for position, market in enumerate(pools):
        universe, room = market[0].universe, market[0].room
        for own, bits in partition([entry.reserved[position] for entry in classes]):
            for bit in universe.members(bits):
                offering, rest = universe.offerings[bit], room.left_on(bit)
                has = tuple(max(0, rest[name]) for name in names)
                price = offering.price if math.isfinite(offering.price) else 0.0
                key = offering.reservation_id, has, max(0.0, price)
                users.setdefault(key, set()).update(own)
                left = offering.reservation_capacity + credits.get(offering.reservation_id, 0)
                counts[key] = min(most, counts.get(key, 0) + left)
    return [
        Size(has, price, tuple(sorted(users[key])), counts[key])
        for key in sorted(users)
        for _, has, price in (key,)
    ]


def _covered(
    coverage: Coverage, pools: Sequence[Pools], classes: Sequence[_Class], names: Sequence[str]
) -> Iterator[Size]:
    """Yield covered machines, at no price and as many as commitments allow.

    One that is covered in part is a mixture of a covered one and one at its list price, so the
    program need not know it.
    """
    for position, market in enumerate(pools):
        universe, room = market[0].universe, market[0].room
        for users, bits in partition([entry.masks[position] for entry in classes]):
            for rest, _, draw in coverage.sizes(universe, room, bits, partly=False):
                has = tuple(max(0, rest[name]) for name in names)
                yield Size(has, 0.0, tuple(sorted(users)), draw=draw)


def _existing(
    classes: Sequence[_Class], names: Sequence[str], room: FreeRoom, sold: Sequence[Size]
) -> list[Size]:
    """What machines that exist have left; those that are nearly alike count as one kind.

    A machine that costs as much as one with its room on sale adds nothing and is omitted.
    """
    exact: Counter[tuple[tuple[int, ...], tuple[int, ...], float]] = Counter()
    for number, free in enumerate(room.free):
        price = room.prices[number] if room.prices else 0.0
        users = tuple(n for n, entry in enumerate(classes) if entry.machines >> number & 1)
        if users:
            exact[tuple(max(0, free.get(name, 0)) for name in names), users, price] += 1
    found: Counter[tuple[tuple[int, ...], tuple[int, ...], float]] = Counter()
    for (has, users, price), count in exact.items():
        if not any(_is_as_good(other, Size(has, price, users)) for other in sold):
            found[tuple(map(_rounded_up, has)), users, price] += count
    return [Size(has, price, users, count) for (has, users, price), count in sorted(found.items())]


def _is_as_good(sold: Size, size: Size) -> bool:
    return (
        sold.price <= size.price
        and all(a >= b for a, b in zip(sold.room, size.room, strict=True))
        and set(size.users) <= set(sold.users)
    )


def _rounded_up(amount: int) -> int:
    """The next number with few digits; overstated room makes a bound lower, never wrong."""
    if amount <= 0:
        return 0
    step: int = 10 ** max(0, len(str(amount)) - _DIGITS)
    return -(-amount // step) * step
