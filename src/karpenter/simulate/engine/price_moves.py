"""Prices over time: when offerings get which price, as a scenario says."""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from karpenter.cloud.kwok.prices import OfferingName
from karpenter.simulate.amounts import matches
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.tables import rows
from karpenter.simulate.lengths import seconds, share
from karpenter.simulate.scenario.models import Price, PriceFile, TimeColumn, Walk


@dataclass(frozen=True, slots=True)
class PriceMove:
    """New prices at a moment."""

    at: float
    prices: Mapping[OfferingName, float]


def price_moves(
    prices: Sequence[Price],
    listed: Mapping[OfferingName, float],
    files: Mapping[str, bytes],
    chance: Chance,
    until: float,
) -> Iterator[PriceMove]:
    """All moves of prices in order; of an offering, the first entry that matches it counts."""
    taken: set[OfferingName] = set()
    streams = []
    for entry in prices:
        concerned = {
            name: price
            for name, price in listed.items()
            if name not in taken and matches(entry.match, "/".join(name))
        }
        taken |= concerned.keys()
        if concerned:
            streams.append(_moves(entry, concerned, files, chance, until))
    return heapq.merge(*streams, key=lambda move: move.at)


def factors(series: PriceFile, data: bytes) -> list[tuple[float, float]]:
    """Times since the first row, and the factor from then on.

    Raises:
        DataError: the file cannot be read.
    """
    column = TimeColumn(column=series.time)
    found = [
        (row.time(column), row.number(series.factor))
        for row in rows(series.csv, data, [series.time, series.factor])
    ]
    found.sort()
    first = found[0][0] if found else 0.0
    return [(moment - first, factor) for moment, factor in found]


def _moves(
    entry: Price,
    listed: Mapping[OfferingName, float],
    files: Mapping[str, bytes],
    chance: Chance,
    until: float,
) -> Iterator[PriceMove]:
    if entry.series is not None:
        for at, factor in factors(entry.series, files[entry.series.csv]):
            if at < until:
                yield PriceMove(at, {name: price * factor for name, price in listed.items()})
    elif entry.walk is not None:
        yield from _walked(entry.walk, listed, chance, until)
    elif entry.factor is not None:
        yield PriceMove(0.0, {name: price * entry.factor for name, price in listed.items()})
    elif entry.price is not None:
        yield PriceMove(0.0, dict.fromkeys(listed, entry.price))


def _walked(
    walk: Walk, listed: Mapping[OfferingName, float], chance: Chance, until: float
) -> Iterator[PriceMove]:
    """Each offering walks by itself, in steps of its logarithm."""
    volatility, period = share(walk.volatility), seconds(walk.every)
    floor, cap = share(walk.floor), share(walk.cap)
    level = dict.fromkeys(listed, 1.0)
    number = 1
    while period > 0 and number * period < until:
        for name in level:
            step = volatility * chance.normal("walk", "/".join(name), number)
            level[name] = min(max(level[name] * math.exp(step), floor), cap)
        yield PriceMove(number * period, {n: listed[n] * factor for n, factor in level.items()})
        number += 1
