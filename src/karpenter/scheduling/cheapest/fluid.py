"""Dual rates: what a unit of each resource is worth if pods were divisible.

Pods that may use the same sizes pay one rate for each resource. The rates are the dual solution of
a small linear program: the highest value for all of their demand such that the room of no size is
worth more than its price. It has one variable per resource and one row per size, so the textbook
simplex method on a dense tableau is quick enough, and needs no library.
"""

from collections.abc import Sequence
from typing import Final

from karpenter.scheduling.cheapest.market import Market

_TINY: Final = 1e-12
_MOST_PIVOTS: Final = 500
_ROUNDING: Final = 1e-9  # of sums of floats, relative to them


def worths(market: Market) -> list[float]:
    """What one pod of each class is worth: its rates times its needs, in dollars per hour."""
    return worths_at(market, class_rates(market))


def bound_of(market: Market) -> tuple[float, list[float]]:
    """A lower bound for packing a market, with the shares that prove it.

    Pods that may use different sizes have different rates, so a machine that both may use could
    hold pods worth more than its price. Its room at the highest rate of each resource is the most
    that it can hold; all shares are scaled down until that is within the price of every size.
    """
    rates = class_rates(market)
    limits = [
        sum(
            have * max((rates[user][resource] for user in size.users), default=0.0)
            for resource, have in enumerate(size.room)
        )
        for size in market.sizes
    ]
    over = 1.0
    for size, limit in zip(market.sizes, limits, strict=True):
        if size.count is None and limit > size.price:
            if size.price <= 0:
                return 0.0, [0.0] * len(market.demand)
            over = max(over, limit / size.price)
    shares = [worth / over for worth in worths_at(market, rates)]
    paid = sum(share * count for share, count in zip(shares, market.demand, strict=True))
    free = sum(
        (size.count or 0) * max(0.0, limit / over - size.price)
        for size, limit in zip(market.sizes, limits, strict=True)
    )
    return max(0.0, (paid - free - _ROUNDING * (paid + free)) / (1 + _ROUNDING)), shares


def worths_at(market: Market, rates: Sequence[Sequence[float]]) -> list[float]:
    """What one pod of each class is worth at the rates of its class."""
    return [
        sum(rate * need for rate, need in zip(own, needs, strict=True))
        for own, needs in zip(rates, market.needs, strict=True)
    ]


def class_rates(market: Market) -> list[Sequence[float]]:
    """The dual rate of each resource, for each class: dollars per hour for a unit of it."""
    groups: dict[tuple[int, ...], list[int]] = {}
    usable: list[list[int]] = [[] for _ in market.demand]
    for number, size in enumerate(market.sizes):
        if size.is_unlimited:
            for user in size.users:
                usable[user].append(number)
    for user, allowed in enumerate(usable):
        groups.setdefault(tuple(allowed), []).append(user)
    found: list[Sequence[float]] = [()] * len(market.demand)
    for sizes, users in groups.items():
        resources = range(len(market.needs[users[0]]))
        demand = [sum(market.needs[u][r] * market.demand[u] for u in users) for r in resources]
        rates = dual_rates(
            [market.sizes[size].room for size in sizes],
            [market.sizes[size].price for size in sizes],
            demand,
        )
        for user in users:
            found[user] = rates
    return found


def dual_rates(
    rooms: Sequence[Sequence[int]], prices: Sequence[float], demand: Sequence[int]
) -> list[float]:
    """The rates that value a demand highest while no room is worth more than its price."""
    if not rooms:
        return [0.0] * len(demand)
    scale = [max(1, *(room[r] for room in rooms)) for r in range(len(demand))]
    rows = [
        [*(have / most for have, most in zip(room, scale, strict=True)), price]
        for room, price in zip(rooms, prices, strict=True)
    ]
    goal = [amount / most for amount, most in zip(demand, scale, strict=True)]
    scaled = _maximised(rows, goal)
    return [rate / most for rate, most in zip(scaled, scale, strict=True)]


def _maximised(rows: list[list[float]], goal: list[float]) -> list[float]:
    """Maximise ``goal`` over variables >= 0 such that no row's sum exceeds its last entry.

    Rows hold the coefficients of the variables that are zero at present, and ``basis`` names the
    variable that each row stands for; numbers from ``len(goal)`` on are the slacks of rows.
    """
    width = len(goal)
    columns = list(range(width))  # variables that are zero
    basis = [width + row for row in range(len(rows))]
    gain = [*goal, 0.0]
    for pivots in range(_MOST_PIVOTS):
        rising = [c for c in range(width) if gain[c] > _TINY]
        if not rising:
            break
        # The steepest column converges fast; Bland's rule (the first one) cannot cycle
        enter = max(rising, key=gain.__getitem__) if pivots < _MOST_PIVOTS // 2 else rising[0]
        ratios = [
            (row[-1] / row[enter], basis[number], number)
            for number, row in enumerate(rows)
            if row[enter] > _TINY
        ]
        if not ratios:
            break  # unbounded: no row limits this variable
        leave = min(ratios)[2]
        _pivot(rows, gain, leave, enter)
        columns[enter], basis[leave] = basis[leave], columns[enter]
    found = [0.0] * width
    for row, variable in zip(rows, basis, strict=True):
        if variable < width:
            found[variable] = max(0.0, row[-1])
    return found


def _pivot(rows: list[list[float]], gain: list[float], leave: int, enter: int) -> None:
    chosen = rows[leave]
    factor = 1.0 / chosen[enter]
    chosen[:] = [value * factor for value in chosen]
    chosen[enter] = factor
    for row in (*rows, gain):
        if row is not chosen and (times := row[enter]):
            row[:] = [value - times * own for value, own in zip(row, chosen, strict=True)]
            row[enter] = -times * factor
