"""Prices over time: when offerings get which price, as a scenario says."""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
    start: float,
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
            streams.append(_moves(entry, concerned, files, chance, start, until))
    return heapq.merge(*streams, key=lambda move: move.at)


@dataclass(frozen=True, slots=True)
class _Told:
    """One row of a series."""

    at: float
    offering: str  # empty for all
    amount: float


def told(series: PriceFile, data: bytes) -> list[_Told]:
    """The rows of a series in the order of their times; those of factors count from the first.

    Raises:
        DataError: the file cannot be read.
    """
    column, amount = TimeColumn(column=series.time), series.price or series.factor or ""
    named = [series.offering] if series.offering is not None else []
    found = [
        _Told(
            row.time(column),
            row.text(series.offering) if series.offering is not None else "",
            row.number(amount),
        )
        for row in rows(series.csv, data, [series.time, amount, *named])
    ]
    found.sort(key=lambda each: each.at)
    if series.price is None and found:
        first = found[0].at
        found = [replace(each, at=each.at - first) for each in found]
    return found


def _told_moves(
    series: PriceFile,
    listed: Mapping[OfferingName, float],
    data: bytes,
    start: float,
    until: float,
) -> Iterator[PriceMove]:
    """Prices that were told before the start hold from then on."""
    by_path = {"/".join(name): name for name in listed}
    for each in told(series, data):
        at = max(0.0, each.at - start) if series.price is not None else each.at
        if at >= until:
            return
        names = [by_path[each.offering]] if each.offering in by_path else []
        if not each.offering:
            names = list(listed)
        if names:
            ratio = series.price is None
            yield PriceMove(
                at, {name: listed[name] * each.amount if ratio else each.amount for name in names}
            )


def _moves(
    entry: Price,
    listed: Mapping[OfferingName, float],
    files: Mapping[str, bytes],
    chance: Chance,
    start: float,
    until: float,
) -> Iterator[PriceMove]:
    if entry.series is not None:
        yield from _told_moves(entry.series, listed, files[entry.series.csv], start, until)
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
