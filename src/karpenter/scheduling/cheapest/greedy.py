"""Greedy purchase: the filling with the most worth per dollar, until every pod has a place.

The worth of a pod is its cost at the dual rates of its market; a configuration is good when its
pods are worth nearly its price. A size is filled again only when its last filling cannot be bought
once more, and sizes are tried in the order of an upper limit of their worth per dollar, so few of
them are evaluated for each purchase.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from karpenter.scheduling.cheapest.market import (
    Configuration,
    Market,
    Solution,
    Work,
    configuration,
    copies_left,
    draw,
)

_FEW_CLASSES: Final = 400  # beyond that one order of classes is tried for each size

_OF_A_DRAW: Final = 1e-3  # dollars that a unit of a shared amount counts as

_Filling: TypeAlias = Mapping[int, int]  # class -> how many pods


def solved(market: Market, worth: Sequence[float], work: Work) -> Solution | None:
    """Buy for the whole demand of a market; None means that the work budget was used up."""
    bought = buy(market, worth, market.demand, work)
    return Solution(bought, worth) if bought is not None else None


def buy(
    market: Market,
    worth: Sequence[float],
    demand: Sequence[int],
    work: Work,
    limits: Sequence[float] | None = None,
) -> list[tuple[Configuration, int]] | None:
    """Configurations that serve a demand, each with how often it is bought.

    Pods that no size holds are in none of them. None means that the work budget was used up.

    Args:
        limits: what is left of the amounts that sizes draw on; all of them by default.
    """
    left = list(demand)
    amounts = list(market.limits if limits is None else limits)
    by_price = sorted(
        (size for size, entry in enumerate(market.sizes) if entry.is_unlimited),
        key=lambda size: (market.sizes[size].price, size),
    )
    drawing: dict[int, list[int]] = {}  # amount -> the sizes that draw on it, least first
    for size, entry in enumerate(market.sizes):
        if entry.draw is not None and entry.count is None:
            drawing.setdefault(entry.draw.limit, []).append(size)
    for sizes in drawing.values():
        sizes.sort(key=lambda size: (market.sizes[size].price, market.sizes[size].draw, size))
    filler = _Filler(market, worth)
    fillings: dict[int, _Filling] = {}
    every = [*by_price, *(size for sizes in drawing.values() for size in sizes)]
    heap = [(-filler.promise(size), size) for size in every]
    heapq.heapify(heap)
    bought: dict[Configuration, int] = {}
    while heap:
        _, size = heap[0]
        filling = fillings.get(size)
        if filling is None or any(left[user] < n for user, n in filling.items()):
            if not work.spend(len(market.most[size])):
                return None
            filling = fillings[size] = filler.best(size, left)
            if filling:
                heapq.heapreplace(heap, (-filler.ratio(size, filling), size))
            else:
                heapq.heappop(heap)
            continue
        copies = min(left[user] // n for user, n in filling.items())
        taken = market.sizes[size].draw
        among = by_price if taken is None else drawing[taken.limit]
        smallest = market.smallest(filling, among)
        chosen = configuration(size if smallest is None else smallest, filling)
        copies = copies_left(market.sizes[chosen.size], amounts, copies)
        if not copies:
            heapq.heappop(heap)  # what is left of the amount does not suffice for one more
            continue
        draw(market.sizes[chosen.size], amounts, copies)
        for user, n in filling.items():
            left[user] -= n * copies
        bought[chosen] = bought.get(chosen, 0) + copies
    return sorted(bought.items())


class _Filler:
    """Fills sizes with classes in several orders, and returns the best filling of each."""

    __slots__ = ("_market", "_orders", "_shared", "_worth")

    def __init__(self, market: Market, worth: Sequence[float]) -> None:
        self._market = market
        self._worth = worth
        self._orders: dict[int, tuple[Sequence[int], ...]] = {}
        self._shared: Sequence[int] = ()
        if len(market.demand) > _FEW_CLASSES:
            largest = [
                max(size.room[r] for size in market.sizes) for r in range(len(market.needs[0]))
            ]
            self._shared = sorted(
                range(len(market.demand)),
                key=lambda user: (-_share(market.needs[user], largest), user),
            )

    def promise(self, size: int) -> float:
        """An upper limit of the worth per dollar of a size.

        Its pods together take no more than the whole of each resource.
        """
        needs, worth = self._market.needs, self._worth
        room = self._market.sizes[size].room
        densest = max(
            (density(worth[u], needs[u], room) for u in self._market.most[size]), default=0.0
        )
        # A heuristic instead of the limit where there are very many classes
        return self._per_dollar(size, densest * (1 if self._shared else len(room)))

    def ratio(self, size: int, filling: _Filling) -> float:
        """The worth of a filling per dollar of its size's price."""
        return self._per_dollar(size, sum(self._worth[user] * n for user, n in filling.items()))

    def best(self, size: int, left: Sequence[int]) -> _Filling:
        """The filling of a size that is worth most."""
        best: _Filling = {}
        most = -1.0
        for order in self._orders_of(size):
            filling = self._market.filled(size, order, left, {})
            value = sum(self._worth[user] * n for user, n in filling.items())
            if value > most:
                best, most = filling, value
        return best

    def _per_dollar(self, size: int, value: float) -> float:
        chosen = self._market.sizes[size]
        price = chosen.price
        if chosen.draw is not None:
            price += chosen.draw.amount * _OF_A_DRAW  # before all others, the least draw first
        return value / price if price > 0 else float("inf")

    def _orders_of(self, size: int) -> tuple[Sequence[int], ...]:
        most = self._market.most[size]
        if self._shared:
            return ([user for user in self._shared if user in most],)
        known = self._orders.get(size)
        if known is None:
            market, worth, room = self._market, self._worth, self._market.sizes[size].room
            needs = market.needs
            known = self._orders[size] = (
                by_density(most, worth, needs, room),
                sorted(most, key=lambda u: (-_share(needs[u], room), u)),
                sorted(most, key=lambda u: (-worth[u] / (_share(needs[u], room) or 1.0), u)),
            )
        return known


def by_density(
    users: Iterable[int],
    worth: Sequence[float],
    needs: Sequence[Sequence[int]],
    room: Sequence[int],
) -> list[int]:
    """Classes in the order of their worth for the part of a room that they take, highest first."""
    return sorted(users, key=lambda user: (-density(worth[user], needs[user], room), user))


def density(worth: float, needs: Sequence[int], room: Sequence[int]) -> float:
    """What a pod is worth for the part of a room that it takes, over all resources."""
    taken = sum(need / have for need, have in zip(needs, room, strict=True) if need and have)
    return worth / taken if taken else 0.0


def _share(needs: Sequence[int], room: Sequence[int]) -> float:
    """The largest part of any resource of a room that a pod takes."""
    return max(
        (need / have for need, have in zip(needs, room, strict=True) if need and have), default=0.0
    )
