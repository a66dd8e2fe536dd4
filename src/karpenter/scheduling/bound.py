"""A lower bound for the price of any plan, computed without planning.

It is a feasible solution of the packing problem's dual. Every pod gets a share of what nodes cost,
such that the shares of the pods that fit on one machine never exceed its price. By weak duality the
sum of all shares is at most the cost of any packing. A share is a rate for every unit of a resource
that the pod requests; what is left of a machine's price is shared by the pods that need such a
machine.

Room on machines that exist costs nothing, so what it could hold is subtracted: of each resource as
much as is free, at the highest rate of the pods that may use it.

The rates differ between pods that may use different offerings: a pod that needs an accelerator
includes its price, and one that does not has the cpu rate of the cheapest machine. The order in
which resources are charged decides how tight the bound is, never whether it holds; so a few orders
are tried, and the highest bound is returned.

Notation
    crowd    pods that may use the same offerings
    size     what a machine has for pods, at the lowest price at which a crowd can have it
    market   pools that sell the same sizes
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from karpenter.api.pods import Toleration
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from karpenter.scheduling.compiled.offerings import partition
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.templates import Template

COMMON: Final = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})
_MOST_CROWDS: Final = 8  # beyond that, those that may use the most are merged
_NODE: Final = ""  # pseudo-resource: the machine itself
_ROUNDING: Final = 1e-12  # of sums of floats, relative to them

Pools: TypeAlias = Sequence[Template]
Masks: TypeAlias = tuple[int, ...]  # offerings, one mask for each market


@dataclass(frozen=True, slots=True)
class FreeRoom:
    """Room on machines that exist."""

    free: Sequence[Mapping[str, int]] = ()  # machine -> resource -> what is left
    usable: Callable[[PodClass], int] = lambda _: 0  # class -> machines it may use, as a mask
    prices: Sequence[float] = ()  # machine -> its price, where machines need not be kept


_NO_ROOM: Final = FreeRoom()


def lower_bound(
    templates: Iterable[Template],
    served: Mapping[PodClass, int],
    well_known: frozenset[str],
    room: FreeRoom = _NO_ROOM,
) -> float:
    """The least that new machines for pods can cost per hour.

    Args:
        templates: the pools to buy from; their limits are ignored.
        served: how many pods there are of each class, wherever a plan puts them.
        well_known: labels that pools need not define for a pod that asks for them.
        room: free room on machines that exist.
    """
    markets = markets_of(templates)
    crowds = _distinct_crowds(_gathered(served, room), markets, well_known)
    if not crowds:
        return 0.0
    rooms = _Rooms(crowds, room)
    sheet = _Sheet(markets, crowds, rooms)
    charged = sorted({name for crowd in crowds for name in crowd.demand})
    bounds = [_resource_by_resource(sheet.copy(), crowds, name, charged) for name in charged]
    return max(0.0, *bounds, _crowd_by_crowd(sheet, crowds, charged))


@dataclass(slots=True, eq=False)
class _Crowd:
    """Pods that may use the same offerings."""

    masks: Masks
    demand: dict[str, int]  # of all of them together
    machines: int = 0  # those that exist and any of them may use
    sizes: list[int] = field(default_factory=list)  # that they may use
    nodes: int = 0  # that they need at least

    @property
    def width(self) -> int:
        """How many offerings they may use."""
        return sum(mask.bit_count() for mask in self.masks)


@dataclass(slots=True)
class _Demands:
    """The requests of pods with the same demands on their node."""

    alternatives: Sequence[Requirements]
    tolerations: tuple[Toleration, ...]
    total: dict[str, int]
    least: dict[str, int]  # that each one of them asks for
    machines: int = 0  # those that exist and any of them may use

    def add(self, pod_class: PodClass, count: int) -> None:
        """Count more pods."""
        needs = dict(pod_class.needs)
        for name, amount in needs.items():
            self.total[name] = self.total.get(name, 0) + amount * count
        self.least = {
            name: min(amount, needs[name]) for name, amount in self.least.items() if name in needs
        }

    def masks(self, markets: Iterable[Pools], well_known: frozenset[str]) -> Masks:
        """The offerings such a pod may use when it has given up every preference."""
        return tuple(self._mask(market, well_known) for market in markets)

    def _mask(self, market: Pools, well_known: frozenset[str]) -> int:
        universe, room = market[0].universe, market[0].room
        bits = 0
        for template in market:
            if template.is_tolerated(self.tolerations):
                for wanted in self.alternatives:
                    if template.requirements.is_compatible(wanted, well_known):
                        bits |= template.base & universe.allowed(wanted)
        return room.fitting(bits & universe.launchable, {}, self.least.items())


def offering_masks(
    pod_class: PodClass, markets: Iterable[Pools], well_known: frozenset[str]
) -> Masks:
    """The offerings that a pod of a class may use when it has given up every preference.

    Of its needs only rare ones count: whether there is room for the others depends on the size.
    """
    strict = {id(stage.strict): stage.strict for stage in pod_class.stages}
    tolerations = pod_class.stages[-1].tolerations
    rare = {name: amount for name, amount in pod_class.needs if name not in COMMON}
    demands = _Demands([*strict.values()], tolerations, {}, rare)
    return demands.masks(markets, well_known)


def markets_of(templates: Iterable[Template]) -> list[Pools]:
    """Pools by what they sell."""
    found: dict[tuple[int, int], list[Template]] = {}
    for template in templates:
        found.setdefault((id(template.universe), id(template.room)), []).append(template)
    return list(found.values())


def _gathered(served: Mapping[PodClass, int], room: FreeRoom) -> Iterable[_Demands]:
    found: dict[object, _Demands] = {}
    for pod_class, count in served.items():
        stages = pod_class.stages
        strict = {id(stage.strict): stage.strict for stage in stages}  # equal ones are one object
        tolerations = stages[-1].tolerations
        rare = tuple(name for name, _ in pod_class.needs if name not in COMMON)
        key = (*strict, tolerations, rare)
        demands = found.get(key)
        if demands is None:
            demands = _Demands([*strict.values()], tolerations, {}, dict(pod_class.needs))
            found[key] = demands
        demands.add(pod_class, count)
        if room.free:
            demands.machines |= room.usable(pod_class)
    return found.values()


def _distinct_crowds(
    demands: Iterable[_Demands], markets: Sequence[Pools], well_known: frozenset[str]
) -> list[_Crowd]:
    """The crowds that anything is sold to, those that may use the most first."""
    found: dict[Masks, _Crowd] = {}
    for entry in demands:
        masks = entry.masks(markets, well_known)
        if any(masks):
            crowd = found.setdefault(masks, _Crowd(masks, {}))
            crowd.machines |= entry.machines
            _add(crowd, entry.total)
    ordered = sorted(found.values(), key=lambda crowd: (-crowd.width, crowd.masks))
    while len(ordered) > _MOST_CROWDS:
        narrower = ordered.pop(1)
        both = zip(ordered[0].masks, narrower.masks, strict=True)
        machines = ordered[0].machines | narrower.machines
        ordered[0] = _Crowd(tuple(a | b for a, b in both), ordered[0].demand, machines)
        _add(ordered[0], narrower.demand)
    return ordered


def _add(crowd: _Crowd, demand: Mapping[str, int]) -> None:
    for name, amount in demand.items():
        crowd.demand[name] = crowd.demand.get(name, 0) + amount


class _Rooms:
    """What is free on machines that exist, added up for machines that the same crowds may use."""

    __slots__ = ("_crowds", "_totals")

    def __init__(self, crowds: Sequence[_Crowd], room: FreeRoom) -> None:
        """Add up what is free of the resources that crowds ask for."""
        self._crowds = crowds
        names = sorted({name for crowd in crowds for name in crowd.demand})
        self._totals: dict[tuple[int, ...], dict[str, int]] = {}  # crowds -> what they may use
        for number, free in enumerate(room.free):
            users = tuple(n for n, crowd in enumerate(crowds) if crowd.machines >> number & 1)
            if users:
                total = self._totals.setdefault(users, dict.fromkeys(names, 0))
                for name in names:
                    total[name] += max(0, free.get(name, 0))

    def free_to(self, crowd: _Crowd, name: str) -> int:
        """How much of a resource a crowd could have."""
        return sum(
            total[name]
            for users, total in self._totals.items()
            if any(self._crowds[user] is crowd for user in users)
        )

    def worth(self, rates: Mapping[_Crowd, Mapping[str, float]]) -> float:
        """The highest sum of shares of pods in these rooms."""
        return sum(
            amount * max(rates.get(self._crowds[user], {}).get(name, 0.0) for user in users)
            for users, total in self._totals.items()
            for name, amount in total.items()
            if amount
        )


class _Sheet:
    """The slack of the dual: what is left of each size's price, after the rates charged so far."""

    __slots__ = ("_amounts", "_charged", "_left", "_rates", "_rooms")

    def __init__(self, markets: Sequence[Pools], crowds: Sequence[_Crowd], rooms: _Rooms) -> None:
        """List the sizes, and which of them each crowd may use."""
        names = {name for crowd in crowds for name in crowd.demand}
        self._rooms = rooms
        self._charged: dict[_Crowd, dict[str, float]] = {}  # rates by crowd
        self._left: list[float] = []
        self._amounts: dict[str, list[int]] = {name: [] for name in names}
        for position, market in enumerate(markets):
            universe, room = market[0].universe, market[0].room
            for users, bits in partition([crowd.masks[position] for crowd in crowds]):
                for has, bit in room.cheapest_ways(bits):
                    for user in users:
                        crowds[user].sizes.append(len(self._left))
                    self._left.append(_worth(universe.offerings[bit].price))
                    for name, amounts in self._amounts.items():
                        amounts.append(has[name])
        self._rates = {name: [0.0] * len(self._left) for name in names}
        for crowd in crowds:
            crowd.nodes = self._least_nodes(crowd)

    def copy(self) -> "_Sheet":
        """Return a sheet that can be charged without changing this one."""
        twin = object.__new__(_Sheet)
        twin._amounts, twin._rooms = self._amounts, self._rooms
        twin._charged = {crowd: dict(rates) for crowd, rates in self._charged.items()}
        twin._left = self._left.copy()
        twin._rates = {name: rates.copy() for name, rates in self._rates.items()}
        return twin

    def charge(self, crowd: _Crowd, name: str) -> float:
        """Raise a crowd's rate until the price of some size is used up; return the gain."""
        if name == _NODE:
            return self._charge_for_nodes(crowd)
        demand = crowd.demand.get(name, 0)
        if not demand:
            return 0.0
        left, rates, amounts = self._left, self._rates[name], self._amounts[name]
        having = [size for size in crowd.sizes if amounts[size] > 0]
        rate = min([rates[size] + left[size] / amounts[size] for size in having], default=0.0)
        for size in having:
            more = rate - rates[size]
            if more > 0:
                left[size] = max(0.0, left[size] - more * amounts[size])
                rates[size] = rate
        self._charged.setdefault(crowd, {})[name] = rate
        return rate * demand

    def less_free_room(self, paid: float) -> float:
        """What is paid, less what pods on machines that exist could have paid at most.

        The difference of two sums of floats is off by a little of both, so that much more is
        taken off: a bound may be too low, never too high.
        """
        free = self._rooms.worth(self._charged)
        return paid - free - _ROUNDING * (paid + free) if free else paid

    def _charge_for_nodes(self, crowd: _Crowd) -> float:
        rate = min([self._left[size] for size in crowd.sizes])
        if rate > 0:
            for size in crowd.sizes:
                self._left[size] -= rate
        return rate * crowd.nodes

    def _least_nodes(self, crowd: _Crowd) -> int:
        """The least number of machines for a crowd, if all had the most of each resource."""
        largest = {
            name: max(self._amounts[name][size] for size in crowd.sizes) for name in crowd.demand
        }
        rooms = self._rooms
        return max(
            max(0, -(-(n - rooms.free_to(crowd, name)) // largest[name]))
            for name, n in crowd.demand.items()
            if largest[name]
        )


def _worth(price: float) -> float:
    """What a machine costs at least; one of unknown price may cost nothing."""
    return price if price > 0 and math.isfinite(price) else 0.0


def _resource_by_resource(
    sheet: _Sheet, crowds: Sequence[_Crowd], first: str, charged: Sequence[str]
) -> float:
    """Charge all crowds for one resource, then all for the next."""
    names = (first, *(name for name in charged if name != first), _NODE)
    paid = sum(sheet.charge(crowd, name) for name in names for crowd in crowds)
    return sheet.less_free_room(paid)


def _crowd_by_crowd(sheet: _Sheet, crowds: Sequence[_Crowd], charged: Sequence[str]) -> float:
    """Charge one crowd after the other, beginning with the resource that brings in the most."""
    total = 0.0
    for crowd in crowds:
        names = (*(name for name in charged if name in crowd.demand), _NODE)
        tried = []
        for first in names:
            after = sheet.copy()
            order = (first, *(name for name in names if name != first))
            tried.append((sum(after.charge(crowd, name) for name in order), after))
        gain, sheet = max(tried, key=lambda attempt: attempt[0])
        total += gain
    return sheet.less_free_room(total)
