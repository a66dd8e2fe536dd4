"""A lower bound for the price of any plan, computed without planning.

It is a dual solution of the packing problem. Every pod gets a share of what nodes cost, such that
the shares of the pods that fit on one machine never exceed its price. Then all shares together are
at most the cost of any packing. A share is a rate for every unit of a resource that the pod
requests; what is left of a machine's price goes to the pods that need a machine of its kind at all.

The rates differ between pods that may use different offerings: a pod that needs an accelerator pays
for it, and one that does not pays no more for its cpu than the cheapest machine costs. The order in
which resources are charged decides how tight the bound is, never whether it holds; so a few orders
are tried, and the highest bound counts.

Notation
    crowd    pods that may use the same offerings
    size     what a machine has for pods, at the lowest price at which a crowd can have it
    market   pools that sell the same sizes
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from karpenter.api.pods import Toleration
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.templates import Template

_COMMON: Final = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})
_MOST_CROWDS: Final = 8  # beyond that, those that may use the most are merged
_NODE: Final = ""  # pseudo-resource: the machine itself

_Market: TypeAlias = Sequence[Template]
_Masks: TypeAlias = tuple[int, ...]  # offerings, one mask for each market


def lower_bound(
    templates: Iterable[Template], served: Mapping[PodClass, int], well_known: frozenset[str]
) -> float:
    """The least that machines for pods can cost per hour.

    Args:
        templates: the pools to buy from; their limits are not looked at.
        served: how many pods there are of each class.
        well_known: labels that pools need not define for a pod that asks for them.
    """
    markets = _markets(templates)
    crowds = _distinct_crowds(_gathered(served), markets, well_known)
    if not crowds:
        return 0.0
    sheet = _Sheet(markets, crowds)
    charged = sorted({name for crowd in crowds for name in crowd.demand})
    bounds = [_resource_by_resource(sheet.copy(), crowds, name, charged) for name in charged]
    return max(*bounds, _crowd_by_crowd(sheet, crowds, charged))


@dataclass(slots=True)
class _Crowd:
    """Pods that may use the same offerings."""

    masks: _Masks
    demand: dict[str, int]  # of all of them together
    sizes: list[int] = field(default_factory=list)  # that they may use
    nodes: int = 0  # that they need at least

    @property
    def width(self) -> int:
        """How many offerings they may use."""
        return sum(mask.bit_count() for mask in self.masks)


@dataclass(slots=True)
class _Demands:
    """What pods with the same demands on their node ask for."""

    alternatives: Sequence[Requirements]
    tolerations: tuple[Toleration, ...]
    total: dict[str, int]
    least: dict[str, int]  # that each one of them asks for

    def add(self, pod_class: PodClass, count: int) -> None:
        """Count more pods."""
        needs = dict(pod_class.needs)
        for name, amount in needs.items():
            self.total[name] = self.total.get(name, 0) + amount * count
        self.least = {
            name: min(amount, needs[name]) for name, amount in self.least.items() if name in needs
        }

    def masks(self, markets: Iterable[_Market], well_known: frozenset[str]) -> _Masks:
        """The offerings such a pod may use when it has given up every preference."""
        return tuple(self._mask(market, well_known) for market in markets)

    def _mask(self, market: _Market, well_known: frozenset[str]) -> int:
        universe, room = market[0].universe, market[0].room
        bits = 0
        for template in market:
            if template.is_tolerated(self.tolerations):
                for wanted in self.alternatives:
                    if template.requirements.is_compatible(wanted, well_known):
                        bits |= template.base & universe.allowed(wanted)
        return room.fitting(bits & universe.launchable, {}, self.least.items())


def _markets(templates: Iterable[Template]) -> list[_Market]:
    found: dict[tuple[int, int], list[Template]] = {}
    for template in templates:
        found.setdefault((id(template.universe), id(template.room)), []).append(template)
    return list(found.values())


def _gathered(served: Mapping[PodClass, int]) -> Iterable[_Demands]:
    found: dict[object, _Demands] = {}
    for pod_class, count in served.items():
        stages = pod_class.stages
        strict = {id(stage.strict): stage.strict for stage in stages}  # equal ones are one object
        tolerations = stages[-1].tolerations
        rare = tuple(name for name, _ in pod_class.needs if name not in _COMMON)
        key = (*strict, tolerations, rare)
        demands = found.get(key)
        if demands is None:
            demands = _Demands([*strict.values()], tolerations, {}, dict(pod_class.needs))
            found[key] = demands
        demands.add(pod_class, count)
    return found.values()


def _distinct_crowds(
    demands: Iterable[_Demands], markets: Sequence[_Market], well_known: frozenset[str]
) -> list[_Crowd]:
    """The crowds that anything is sold to, those that may use the most first."""
    found: dict[_Masks, _Crowd] = {}
    for entry in demands:
        masks = entry.masks(markets, well_known)
        if any(masks):
            _add(found.setdefault(masks, _Crowd(masks, {})), entry.total)
    ordered = sorted(found.values(), key=lambda crowd: (-crowd.width, crowd.masks))
    while len(ordered) > _MOST_CROWDS:
        narrower = ordered.pop(1)
        both = zip(ordered[0].masks, narrower.masks, strict=True)
        ordered[0] = _Crowd(tuple(a | b for a, b in both), ordered[0].demand)
        _add(ordered[0], narrower.demand)
    return ordered


def _add(crowd: _Crowd, demand: Mapping[str, int]) -> None:
    for name, amount in demand.items():
        crowd.demand[name] = crowd.demand.get(name, 0) + amount


class _Sheet:
    """What is still left of the price of each size, and the rates charged so far."""

    __slots__ = ("_amounts", "_left", "_rates")

    def __init__(self, markets: Sequence[_Market], crowds: Sequence[_Crowd]) -> None:
        """List the sizes, and which of them each crowd may use."""
        names = {name for crowd in crowds for name in crowd.demand}
        self._left: list[float] = []
        self._amounts: dict[str, list[int]] = {name: [] for name in names}
        for position, market in enumerate(markets):
            universe, room = market[0].universe, market[0].room
            for users, bits in _parts([crowd.masks[position] for crowd in crowds]):
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
        twin._amounts = self._amounts
        twin._left = self._left.copy()
        twin._rates = {name: rates.copy() for name, rates in self._rates.items()}
        return twin

    def charge(self, crowd: _Crowd, name: str) -> float:
        """Raise a crowd's rate for a resource as far as it goes; return what that brings in."""
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
        return rate * demand

    def _charge_for_nodes(self, crowd: _Crowd) -> float:
        rate = min([self._left[size] for size in crowd.sizes])
        if rate > 0:
            for size in crowd.sizes:
                self._left[size] -= rate
        return rate * crowd.nodes

    def _least_nodes(self, crowd: _Crowd) -> int:
        """How many machines a crowd needs were all of them the largest, whichever resource."""
        largest = {
            name: max(self._amounts[name][size] for size in crowd.sizes) for name in crowd.demand
        }
        return max(-(-n // largest[name]) for name, n in crowd.demand.items() if largest[name])


def _worth(price: float) -> float:
    """What a machine costs at least; one of unknown price may cost nothing."""
    return price if price > 0 and math.isfinite(price) else 0.0


def _parts(masks: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Cut masks into parts that do not overlap, each with the positions of the masks it is in."""
    parts: list[tuple[list[int], int]] = []
    for position, mask in enumerate(masks):
        cut = []
        rest = mask  # in none of the masks before it
        for users, bits in parts:
            cut += [(users, bits & ~mask), ([*users, position], bits & mask)]
            rest &= ~bits
        parts = [(users, bits) for users, bits in (*cut, ([position], rest)) if bits]
    yield from parts


def _resource_by_resource(
    sheet: _Sheet, crowds: Sequence[_Crowd], first: str, charged: Sequence[str]
) -> float:
    """Charge all crowds for one resource, then all for the next."""
    names = (first, *(name for name in charged if name != first), _NODE)
    return sum(sheet.charge(crowd, name) for name in names for crowd in crowds)


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
    return total
