"""The least that any plan for a cluster's pods can cost, from the configuration program.

Everything but prices, room, labels and taints is relaxed, so the bound holds whatever a plan does
about spreads, pool weights, limits or preferences. Each machine that exists is a size with a price
of zero and a count of one; machines that are nearly alike are merged, each with the most room that
any of them has.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.model.resources import CPU
from karpenter.scheduling.bound import FreeRoom, Masks, Pools, markets_of, offering_masks
from karpenter.scheduling.cheapest import configurations, fluid
from karpenter.scheduling.cheapest.market import Market, Size, Work, without_dominated
from karpenter.scheduling.compiled.offerings import partition
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem

_MOST_PAIRS: Final = 60_000  # of a class and a size; beyond that the program is too large
_MOST_CLASSES: Final = 400
_DIGITS: Final = 2  # that are kept of the free room of machines


@dataclass(frozen=True, slots=True)
class _Class:
    """Pods with the same needs that may use the same offerings and machines."""

    needs: tuple[tuple[str, int], ...]
    masks: Masks
    machines: int  # those that exist, as a mask


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
    pools = markets_of(compiled.templates)
    grouped: Counter[_Class] = Counter()
    for pod_class, count in served.items():
        masks = offering_masks(pod_class, pools, well_known)
        if any(masks):  # no offering suits the others, so they add nothing to the price
            machines = room.usable(pod_class) if room.free else 0
            grouped[_Class(pod_class.needs, masks, machines)] += count
    if not grouped or len(grouped) > _MOST_CLASSES:
        return None
    classes = sorted(grouped, key=lambda entry: (entry.needs, entry.masks, entry.machines))
    names = sorted({name for entry in classes for name, _ in entry.needs}, key=_cpu_first)
    needs = [tuple(dict(entry.needs).get(name, 0) for name in names) for entry in classes]
    sizes = without_dominated(_sold(pools, classes, names)) + _free(classes, names, room)
    market = Market(needs, [grouped[entry] for entry in classes], sizes)
    if market.pairs > _MOST_PAIRS:
        return None
    held = {u for n, most in enumerate(market.most) if sizes[n].count is None for u in most}
    if len(held) < len(classes):
        return None  # a class fits on no size that can be bought, so its dual is unbounded
    work = Work(compiled.problem.options.cost.budget or 1.0, lambda: True)
    try:
        return configurations.bound_of(market, fluid.worths(market), work)[0]
    except configurations.SolverError:
        return None


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


def _free(classes: Sequence[_Class], names: Sequence[str], room: FreeRoom) -> list[Size]:
    """What machines that exist have left; those that are nearly alike count as one kind."""
    found: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for number, free in enumerate(room.free):
        users = tuple(n for n, entry in enumerate(classes) if entry.machines >> number & 1)
        if users:
            found[tuple(_rounded_up(free.get(name, 0)) for name in names), users] += 1
    return [Size(has, 0.0, users, count) for (has, users), count in sorted(found.items())]


def _rounded_up(amount: int) -> int:
    """The next number with few digits; overstated room makes a bound lower, never wrong."""
    if amount <= 0:
        return 0
    step: int = 10 ** max(0, len(str(amount)) - _DIGITS)
    return -(-amount // step) * step
