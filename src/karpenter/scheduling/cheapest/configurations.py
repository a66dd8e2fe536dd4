"""The configuration program: which configurations to buy, and how far from the best that is.

The master program is the linear relaxation of buying configurations so that every demand is met at
the lowest price. There are too many configurations to list, so columns are generated: the duals of
the master are shares, dollars for one pod of each class, and a configuration whose pods' shares
exceed its price improves the program. Pricing relaxes the knapsack of each size, in fractions of
pods, to one more linear program over all sizes; its duals prove an upper limit for each size, and
with that a lower bound for every packing. Where it finds no column, an exact knapsack search with
whole pods looks for one.

highspy is an extra and imported when first used. Every configuration is checked in integers: one
that does not fit raises ``SolverError``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from karpenter.scheduling.cheapest import greedy
from karpenter.scheduling.cheapest.market import (
    Configuration,
    Market,
    Solution,
    Work,
    configuration,
    copies_left,
    draw,
)
from karpenter.scheduling.cheapest.pricing import BETTER, SEARCH_NODES, Pricing
from karpenter.scheduling.cheapest.solver_library import (
    SolverError,
    failing_as_one,
    library,
    quiet,
    run,
)

_CLOSE_ENOUGH: Final = 0.002  # of the program's price, between it and its bound
_MOST_COLUMNS: Final = 4000
_SMOOTHING: Final = (0.7, 0.3, 0.0)  # dual smoothing: weight of the best shares so far
_THRESHOLDS: Final = (1.0, 0.7, 0.5)  # rounding: fractions from which on a machine is bought
_MOST_DIVES: Final = 60  # resolves of the master during a rounding dive
_LOOKS_PER_PAIR: Final = 3  # the library prices a pair that much faster than Python does
_NODES_PER_PAIR: Final = 3  # nodes of an exact search that take as long as one pair
_SAFETY: Final = 1 + 1e-9  # the bound is divided by it, to cover rounding errors of floats


def solved(market: Market, worth: Sequence[float], work: Work) -> Solution:
    """Buy for a market whose classes all fit on some size.

    Args:
        worth: initial duals: what a pod of each class is worth.

    Raises:
        SolverError: the library is absent or has failed.
    """
    with failing_as_one():
        program = _Program(market, worth, work)
        program.improve()
        return program.rounded()


def bound_of(market: Market, worth: Sequence[float], work: Work) -> tuple[float, Sequence[float]]:
    """The least that any packing of a market costs, with the shares that prove it.

    Raises:
        SolverError: as ``solved``.
    """
    with failing_as_one():
        program = _Program(market, worth, work)
        program.improve()
        return program.bound, program.proof


class _Program:
    """The master program with the columns made so far."""

    def __init__(self, market: Market, worth: Sequence[float], work: Work) -> None:
        self._highspy, self._numpy = library()
        self._market = market
        self._work = work
        self._worth = worth
        self._columns: list[Configuration] = []
        self._known: set[Configuration] = set()
        self._limited = [n for n, size in enumerate(market.sizes) if size.count is not None]
        self._row_of = {size: len(market.demand) + n for n, size in enumerate(self._limited)}
        first = len(market.demand) + len(self._limited)
        self._row_of_limit = [first + n for n in range(len(market.limits))]
        self._master = self._empty_master()
        self._pricing = Pricing(self._highspy, self._numpy, market)
        self.bound = 0.0
        self.proof: Sequence[float] = [0.0] * len(market.demand)
        self._begin()

    def _empty_master(self) -> Any:
        highs = quiet(self._highspy)
        for demand in self._market.demand:
            highs.addRow(
                float(demand), self._highspy.kHighsInf, 0, _empty(self._numpy), _empty(self._numpy)
            )
        for size in self._limited:
            count = self._market.sizes[size].count or 0
            highs.addRow(
                -self._highspy.kHighsInf, float(count), 0, _empty(self._numpy), _empty(self._numpy)
            )
        for amount in self._market.limits:
            highs.addRow(
                -self._highspy.kHighsInf, amount, 0, _empty(self._numpy), _empty(self._numpy)
            )
        return highs

    def _begin(self) -> None:
        """Add the initial columns: every class alone, a greedy solution, one round of pricing."""
        market = self._market
        alone: dict[int, tuple[float, int]] = {}  # class -> price of a pod, on the cheapest size
        for number, size in enumerate(market.sizes):
            for user, count in market.most[number].items() if size.is_unlimited else ():
                per_pod = (size.price / count, number)
                alone[user] = min(per_pod, alone.get(user, per_pod))
        self._add(
            configuration(number, {user: market.most[number][user]})
            for user, (_, number) in alone.items()
        )
        bought = greedy.buy(market, self._worth, market.demand, self._work) or ()
        self._add(column for column, _ in bought)
        worth = self._numpy.array(self._worth)
        found, limit = self._pricing.columns(worth)
        self._add(found)
        self._raise_bound(worth, limit)

    def _add(self, configurations: Iterable[Configuration]) -> int:
        """Add the columns that are new; return how many."""
        added = 0
        for column in configurations:
            if column in self._known or not column.pods:
                continue
            self._check(column)
            self._known.add(column)
            self._columns.append(column)
            rows = [user for user, _ in column.pods]
            values = [float(n) for _, n in column.pods]
            if column.size in self._row_of:
                rows.append(self._row_of[column.size])
                values.append(1.0)
            drawn = self._market.sizes[column.size].draw
            if drawn is not None:
                rows.append(self._row_of_limit[drawn.limit])
                values.append(drawn.amount)
            self._master.addCol(
                self._market.sizes[column.size].price,
                0.0,
                self._highspy.kHighsInf,
                len(rows),
                self._numpy.array(rows, dtype=self._numpy.int32),
                self._numpy.array(values),
            )
            added += 1
        return added

    def _check(self, column: Configuration) -> None:
        market = self._market
        size = market.sizes[column.size]
        for resource, have in enumerate(size.room):
            if sum(market.needs[user][resource] * n for user, n in column.pods) > have:
                raise SolverError("the solver made a configuration that does not fit its size")
        if any(user not in market.most[column.size] for user, _ in column.pods):
            raise SolverError("the solver put pods on a size that they may not use")

    def _solve_master(self) -> tuple[float, Any, Any]:
        run(self._highspy, self._master)
        solution = self._master.getSolution()
        price = self._master.getObjectiveValue()
        duals = self._numpy.array(solution.row_dual)
        return (
            price,
            duals[: len(self._market.demand)].clip(min=0.0),
            duals[len(self._market.demand) :],
        )

    def improve(self) -> None:
        """Generate columns until the program is close to its bound, or the work is used up."""
        best = self._numpy.array(self._worth)
        while len(self._columns) < _MOST_COLUMNS:
            price, shares, limits = self._solve_master()
            if price <= 0 or self.bound >= price * (1 - _CLOSE_ENOUGH):
                return
            added = 0
            for weight in _SMOOTHING:
                tried = weight * best + (1 - weight) * shares
                if not self._work.spend(self._market.pairs // _LOOKS_PER_PAIR):
                    return
                found, limit = self._pricing.columns(tried)
                if self._raise_bound(tried, limit):
                    best = tried
                    if self.bound >= price * (1 - _CLOSE_ENOUGH):
                        return
                added = self._add(self._improving(found, shares, limits))
                if added:
                    break
            if not added and not self._searched(shares, limits):
                return

    def _improving(
        self, found: Iterable[Configuration], shares: Any, limits: Any
    ) -> Iterable[Configuration]:
        market = self._market
        for column in found:
            price = market.sizes[column.size].price
            value = sum(shares[user] * n for user, n in column.pods)
            if column.size in self._row_of:
                price -= limits[self._row_of[column.size] - len(market.demand)]
            drawn = market.sizes[column.size].draw
            if drawn is not None:
                row = self._row_of_limit[drawn.limit] - len(market.demand)
                price -= limits[row] * drawn.amount
            if value > price * (1 + BETTER) + 1e-12:
                yield column

    def _raise_bound(self, shares: Any, limit: Any) -> bool:
        """Keep the bound that these shares prove, if it is the highest so far.

        Args:
            limit: size -> what pods on one machine of it can be worth at most.
        """
        market = self._market
        over = 1.0
        for number, size in enumerate(market.sizes):
            if size.is_unlimited and limit[number] > 0:
                if size.price <= 0:
                    return False
                over = max(over, float(limit[number]) / size.price)
        proved = float(sum(shares * self._numpy.array(market.demand, dtype=float))) / over
        free = 0.0
        for number in self._limited:
            size = market.sizes[number]
            free += (size.count or 0) * max(0.0, float(limit[number]) / over - size.price)
        free += self._worth_of_limits(limit, over)
        if free:
            proved -= free + (_SAFETY - 1) * (proved + free)
        if proved / _SAFETY <= self.bound:
            return False
        self.bound = proved / _SAFETY
        self.proof = [float(share) / over for share in shares]
        return True

    def _worth_of_limits(self, limit: Any, over: float) -> float:
        """What pods on all machines that shared amounts allow could be worth above their price.

        However an amount is divided among sizes, a unit of it holds no more than on the best size.
        """
        market = self._market
        best = [0.0] * len(market.limits)  # for a unit of each amount
        for number, size in enumerate(market.sizes):
            if size.draw is not None:
                gain = max(0.0, float(limit[number]) / over - size.price) / size.draw.amount
                best[size.draw.limit] = max(best[size.draw.limit], gain)
        return math.fsum(a * gain for a, gain in zip(market.limits, best, strict=True))

    def _searched(self, shares: Any, limits: Any) -> bool:
        """Search exactly for columns, of sizes whose limit exceeds their price."""
        market = self._market
        limit = self._pricing.limits_of(shares)
        if not self._work.spend(market.pairs * 4):
            return False
        found, exact, tables = self._pricing.tabled(shares, limit)
        self._raise_bound(shares, exact)
        if self._add(self._improving(found, shares, limits)):
            return True
        doubtful = [
            n
            for n, size in enumerate(market.sizes)
            if tables[n] and exact[n] > size.price * (1 + BETTER)
        ]
        doubtful.sort(key=lambda n: (-exact[n] / max(market.sizes[n].price, 1e-9), n))
        for size in doubtful:
            pods, value, nodes = self._pricing.search(size, shares, tables[size])
            if nodes <= SEARCH_NODES:
                exact[size] = min(exact[size], value)
            if pods:
                found.append(configuration(size, pods))
            if not self._work.spend(nodes // _NODES_PER_PAIR):
                break
        self._raise_bound(shares, exact)
        return bool(self._add(self._improving(found, shares, limits)))

    def rounded(self) -> Solution:
        """Round the fractional solution to whole machines.

        First by threshold: columns above a fraction are bought, and the rest greedily. Then by
        diving: the whole parts are bought, or one machine of the column nearest to a whole one, and
        the master is solved again for the remaining demand. The cheapest result is returned.
        """
        market = self._market
        bought: dict[Configuration, int] = {}
        left = list(market.demand)
        spare = {size: market.sizes[size].count or 0 for size in self._limited}
        amounts_left = list(market.limits)
        _, shares, _ = self._solve_master()
        worth = [float(share) for share in shares]
        best = self._finished(bought, left, worth)
        fractions = list(self._master.getSolution().col_value)
        for threshold in _THRESHOLDS:
            tried, rest, once = dict(spare), list(left), dict(bought)
            amounts = [float(int(amount + 1 - threshold + 1e-6)) for amount in fractions]
            self._buy_whole(amounts, rest, tried, list(market.limits), once, worth)
            finished = self._finished(once, rest, worth)
            if finished is not None and (best is None or finished[0] < best[0]):
                best = finished
        for _ in range(_MOST_DIVES):
            amounts = list(self._master.getSolution().col_value)
            if not self._buy_whole(amounts, left, spare, amounts_left, bought, worth):
                break
            if sum(left) > sum(market.demand) // 10:
                finished = None  # too early: most of the demand is still unmet
            else:
                finished = self._finished(bought, left, worth)
            if finished is not None and (best is None or finished[0] < best[0]):
                best = finished
            if not any(left):
                break
            self._set_demand(left, spare, amounts_left)
            run(self._highspy, self._master)
        if best is None:
            raise SolverError("there was no time to round what the solver found")
        return Solution(best[1], self.proof)

    def _buy_whole(
        self,
        amounts: Sequence[float],
        left: list[int],
        spare: dict[int, int],
        limits: list[float],
        bought: dict[Configuration, int],
        worth: Sequence[float],
    ) -> bool:
        """Buy the whole parts, or the machine nearest to a whole one; return whether any was."""
        copies = [(int(amount + 1e-6), n) for n, amount in enumerate(amounts) if amount > 1e-6]
        whole = [(n, count) for count, n in copies if count > 0]
        if not whole and copies:
            nearest = max((n for _, n in copies), key=lambda n: (amounts[n], self._columns[n]))
            whole = [(nearest, 1)]
        is_any = False
        for number, count in whole:
            column = self._columns[number]
            wanted = min(count, spare[column.size]) if column.size in spare else count
            wanted = copies_left(self._market.sizes[column.size], limits, wanted)
            while wanted > 0:
                pods = {user: min(n, left[user]) for user, n in column.pods if left[user] > 0}
                if not pods:
                    break
                if len(pods) < len(column.pods) or any(pods[user] < n for user, n in column.pods):
                    # The column exceeds the remaining demand, so other classes fill its room
                    pods = self._market.filled(
                        column.size, self._by_worth(column.size, worth), left, pods
                    )
                times = min(wanted, *(left[user] // n for user, n in pods.items()))
                chosen = configuration(column.size, pods)
                bought[chosen] = bought.get(chosen, 0) + times
                for user, n in pods.items():
                    left[user] -= n * times
                wanted -= times
                is_any = True
                if column.size in spare:
                    spare[column.size] -= times
                draw(self._market.sizes[column.size], limits, times)
        return is_any

    def _by_worth(self, size: int, worth: Sequence[float]) -> list[int]:
        market, room = self._market, self._market.sizes[size].room
        return greedy.by_density(market.most[size], worth, market.needs, room)

    def _set_demand(
        self, left: Sequence[int], spare: Mapping[int, int], limits: Sequence[float]
    ) -> None:
        for user, demand in enumerate(left):
            self._master.changeRowBounds(user, float(demand), self._highspy.kHighsInf)
        for size, row in self._row_of.items():
            self._master.changeRowBounds(row, -self._highspy.kHighsInf, float(spare[size]))
        for amount, row in zip(limits, self._row_of_limit, strict=True):
            self._master.changeRowBounds(row, -self._highspy.kHighsInf, amount)

    def _finished(
        self, bought: Mapping[Configuration, int], left: Sequence[int], worth: Sequence[float]
    ) -> tuple[float, list[tuple[Configuration, int]]] | None:
        """What is bought, with the rest bought greedily, and its price."""
        whole = dict(bought)
        if any(left):
            limits = list(self._market.limits)
            for chosen, n in bought.items():
                draw(self._market.sizes[chosen.size], limits, n)
            rest = greedy.buy(self._market, worth, left, self._work.unlimited(), limits)
            if rest is None:
                return None
            for chosen, n in rest:
                whole[chosen] = whole.get(chosen, 0) + n
        shrunk = _shrunk(self._market, whole)
        return sum(self._market.sizes[c.size].price * n for c, n in shrunk), shrunk


def _shrunk(market: Market, bought: Mapping[Configuration, int]) -> list[tuple[Configuration, int]]:
    """Put every configuration on the cheapest size that holds it."""
    by_price = sorted(
        (n for n, size in enumerate(market.sizes) if size.is_unlimited),
        key=lambda n: (market.sizes[n].price, n),
    )
    found: dict[Configuration, int] = {}
    for column, count in bought.items():
        smallest = None
        if market.sizes[column.size].is_unlimited:
            smallest = market.smallest(dict(column.pods), by_price)
        chosen = column if smallest is None else column._replace(size=smallest)
        found[chosen] = found.get(chosen, 0) + count
    return sorted(found.items())


def _empty(numpy: Any) -> Any:
    return numpy.array([], dtype=numpy.int32)
