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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple

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

_CLOSE_ENOUGH: Final = 0.002  # of the program's price, between it and its bound
_MOST_COLUMNS: Final = 4000
_SMOOTHING: Final = (0.7, 0.3, 0.0)  # dual smoothing: weight of the best shares so far
_THRESHOLDS: Final = (1.0, 0.7, 0.5)  # rounding: fractions from which on a machine is bought
_MOST_DIVES: Final = 60  # resolves of the master during a rounding dive
_LOOKS_PER_PAIR: Final = 3  # the library prices a pair that much faster than Python does
_BETTER: Final = 1e-7  # least reduced cost of a new column, as a part of its price
_SEARCH_NODES: Final = 20_000  # of one exact search
_NODES_PER_PAIR: Final = 3  # nodes of such a search that take as long as one pair
_MOST_UNITS: Final = 4000  # of cpu, the width of a knapsack table
_RATES: Final = 11  # different charges for the other resources, one table for each
_STEEP_RATES: Final = 8  # further charges for each other resource that may fill a size first
_STEP: Final = 1.5  # from one of them to the next
_TABLES_ASKED: Final = 3  # tables that bound each node of a search
_MOST_TABLES: Final = 8  # one for each set of classes that share sizes
_SAFETY: Final = 1 + 1e-9  # the bound is divided by it, to cover rounding errors of floats


class SolverError(Exception):
    """The solver is absent, has failed, or has returned an infeasible result."""


@cache
def library() -> tuple[ModuleType, ModuleType]:
    """highspy and numpy, imported on first use: the import takes a fifth of a second."""
    try:
        import highspy
        import numpy
    except ImportError as error:
        raise SolverError(
            "highspy is not installed; install the extra karpenter[optimize]"
        ) from error
    return highspy, numpy


def solved(market: Market, worth: Sequence[float], work: Work) -> Solution:
    """Buy for a market whose classes all fit on some size.

    Args:
        worth: initial duals: what a pod of each class is worth.

    Raises:
        SolverError: the library is absent or has failed.
    """
    with _failing_as_one():
        program = _Program(market, worth, work)
        program.improve()
        return program.rounded()


def bound_of(market: Market, worth: Sequence[float], work: Work) -> tuple[float, Sequence[float]]:
    """The least that any packing of a market costs, with the shares that prove it.

    Raises:
        SolverError: as ``solved``.
    """
    with _failing_as_one():
        program = _Program(market, worth, work)
        program.improve()
        return program.bound, program.proof


@contextmanager
def _failing_as_one() -> Iterator[None]:
    """Raise every exception of the library as ``SolverError``: a plan goes on without it."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise SolverError(f"the solver failed: {type(error).__name__}: {error}") from error


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
        self._pricing = _Pricing(self._highspy, self._numpy, market)
        self.bound = 0.0
        self.proof: Sequence[float] = [0.0] * len(market.demand)
        self._begin()

    def _empty_master(self) -> Any:
        highs = _quiet(self._highspy)
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
        _run(self._highspy, self._master)
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
            if value > price * (1 + _BETTER) + 1e-12:
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
            if tables[n] and exact[n] > size.price * (1 + _BETTER)
        ]
        doubtful.sort(key=lambda n: (-exact[n] / max(market.sizes[n].price, 1e-9), n))
        for size in doubtful:
            pods, value, nodes = self._pricing.search(size, shares, tables[size])
            if nodes <= _SEARCH_NODES:
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
            _run(self._highspy, self._master)
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


class _Table(NamedTuple):
    """A knapsack table over the first resource; the other resources are charged at rates."""

    rates: Any  # resource, but for the first -> dollars for a unit
    values: Any  # class -> what a pod is worth beyond that
    free: float  # what pods that take no width add
    worth: Any  # width -> dollars


class _Pricing:
    """The pricing program: the fractional knapsacks of all sizes in one linear program."""

    def __init__(self, highspy: Any, numpy: Any, market: Market) -> None:
        self._highspy, self._numpy, self._market = highspy, numpy, market
        resources = len(market.needs[0])
        self._resources = resources
        scale = [max([1, *(size.room[r] for size in market.sizes)]) for r in range(resources)]
        self._needs = numpy.array(market.needs, dtype=float) / numpy.array(scale, dtype=float)
        self._rooms = numpy.array([size.room for size in market.sizes], dtype=float) / scale
        self._size_of = numpy.array(
            [n for n, most in enumerate(market.most) for _ in most], dtype=numpy.int32
        )
        self._user_of = numpy.array(
            [user for most in market.most for user in most], dtype=numpy.int32
        )
        self._most = numpy.array(
            [count for most in market.most for count in most.values()], dtype=float
        )
        self._first = numpy.concatenate(([0], numpy.cumsum([len(most) for most in market.most])))
        self._unit = self._largest_unit()
        self._highs = self._program()

    def _program(self) -> Any:
        numpy, highspy = self._numpy, self._highspy
        lp = highspy.HighsLp()
        columns = len(self._most)
        rows = len(self._market.sizes) * self._resources
        lp.num_col_, lp.num_row_ = columns, rows
        lp.col_cost_ = numpy.zeros(columns)
        lp.col_lower_ = numpy.zeros(columns)
        lp.col_upper_ = self._most
        lp.row_lower_ = numpy.full(rows, -highspy.kHighsInf)
        lp.row_upper_ = self._rooms.reshape(-1)
        lp.sense_ = highspy.ObjSense.kMaximize
        needed = self._needs[self._user_of]  # columns x resources
        column, resource = numpy.nonzero(needed)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = numpy.concatenate(
            ([0], numpy.cumsum((needed != 0).sum(axis=1)))
        ).astype(numpy.int32)
        lp.a_matrix_.index_ = (self._size_of[column] * self._resources + resource).astype(
            numpy.int32
        )
        lp.a_matrix_.value_ = needed[column, resource]
        highs = _quiet(highspy)
        # Primal simplex: only the objective changes, so the last basis stays feasible (warm start)
        highs.setOptionValue("simplex_strategy", 4)
        highs.passModel(lp)
        return highs

    def _solve(self, shares: Any) -> Any:
        numpy = self._numpy
        columns = len(self._most)
        self._highs.changeColsCost(
            columns, numpy.arange(columns, dtype=numpy.int32), shares[self._user_of]
        )
        _run(self._highspy, self._highs)
        return self._highs.getSolution()

    def columns(self, shares: Any) -> tuple[list[Configuration], Any]:
        """A good configuration of every size that may improve the program, and limits for all."""
        solution = self._solve(shares)
        amounts = self._numpy.array(solution.col_value)
        limit = self._limits(shares, solution)
        market, found = self._market, []
        rates = self._rates(solution)
        for number, size in enumerate(market.sizes):
            if limit[number] <= size.price * (1 + _BETTER):
                continue
            first, last = self._first[number], self._first[number + 1]
            whole = self._numpy.floor(amounts[first:last] + 1e-9)
            users = self._user_of[first:last]
            start = {int(user): int(n) for user, n in zip(users, whole, strict=True) if n > 0}
            if not market.holds(number, start):
                start = {}
            # Fill the remaining room by a pod's share over the room it takes, at dual rates
            spare = shares[users] / (self._needs[users] @ rates[number] + 1e-12)
            order = [int(users[n]) for n in self._numpy.argsort(-spare, kind="stable")]
            found.append(configuration(number, market.filled(number, order, market.demand, start)))
            found.append(configuration(number, market.filled(number, order, market.demand, {})))
        return found, limit

    def limits_of(self, shares: Any) -> Any:
        """What the pods on one machine of each size can be worth at most."""
        return self._limits(shares, self._solve(shares))

    def _rates(self, solution: Any) -> Any:
        duals = self._numpy.array(solution.row_dual).reshape(-1, self._resources)
        return self._numpy.abs(duals)

    def _limits(self, shares: Any, solution: Any) -> Any:
        """The dual's value for each size: by weak duality no filling is worth more."""
        numpy = self._numpy
        rates = self._rates(solution)
        limit = (rates * self._rooms).sum(axis=1)
        beyond = shares[self._user_of] - (self._needs[self._user_of] * rates[self._size_of]).sum(
            axis=1
        )
        gain = numpy.maximum(beyond, 0.0) * self._most
        return limit + numpy.bincount(
            self._size_of, weights=gain, minlength=len(self._market.sizes)
        )

    def tabled(
        self, shares: Any, limit: Any
    ) -> tuple[list[Configuration], Any, dict[int, list[_Table]]]:
        """Sharper limits, and good fillings, from knapsack tables over cpu in whole pods.

        The first resource is exact, in units that all pods are multiples of; the others are charged
        at rates (a Lagrangian relaxation). A table is an upper limit whatever the rates, so the
        lowest one holds. One table serves all sizes with the same users. The tables that are lowest
        for a size are returned too.
        """
        numpy, market = self._numpy, self._market
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, size in enumerate(market.sizes):
            if limit[number] > size.price * (1 + _BETTER):
                groups.setdefault(size.users, []).append(number)
        duals = self._rates(self._highs.getSolution())[:, 1:]
        sharper, found = limit.copy(), []
        lowest: dict[int, list[_Table]] = {}
        unit = self._unit
        for users, sizes in sorted(groups.items())[:_MOST_TABLES]:
            charged = [*_spread(numpy, duals[sizes]), *self._steep(users, sizes, shares)]
            kinds = numpy.array(users, dtype=numpy.int64)
            weights = [market.needs[user][0] // unit for user in users]
            width = max(market.sizes[n].room[0] for n in sizes) // unit
            tables = [self._table(users, weights, shares[kinds], rates, width) for rates in charged]
            for number in sizes:
                room = self._rooms[number][1:]
                place = market.sizes[number].room[0] // unit
                ranked = sorted(
                    (table.free + float(table.worth[place]) + float(room @ table.rates), n)
                    for n, table in enumerate(tables)
                )
                lowest[number] = [tables[n] for _, n in ranked[:_TABLES_ASKED]]
                sharper[number] = min(sharper[number], ranked[0][0] * (1 + 1e-12))
                if sharper[number] > market.sizes[number].price * (1 + _BETTER):
                    best = lowest[number][0]
                    chosen = _traced(numpy, best.worth, numpy.array(weights), best.values, place)
                    pods = {users[n]: count for n, count in chosen.items()}
                    found.append(self._made_to_fit(number, pods, shares))
        for number in range(len(market.sizes)):
            lowest.setdefault(number, [])
        return found, sharper, lowest

    def _steep(self, users: Sequence[int], sizes: Sequence[int], shares: Any) -> list[Any]:
        """Rates beyond the duals: whole pods leave room of the first resource, so others are dear.

        Each of the other resources that may fill a size before the first one does is charged alone,
        from what the dearest pod pays for a unit of it downwards.
        """
        numpy, found = self._numpy, []
        needs, rooms = self._needs[list(users)], self._rooms[list(sizes)]
        for resource in range(1, self._resources):
            first = numpy.multiply.outer(needs[:, 0], rooms[:, resource])
            if (numpy.multiply.outer(needs[:, resource], rooms[:, 0]) <= first).all():
                continue
            paying = needs[:, resource] > 0
            most = float((shares[list(users)][paying] / needs[paying, resource]).max())
            for step in range(1, _STEEP_RATES + 1):
                rates = numpy.zeros(self._resources - 1)
                rates[resource - 1] = most / _STEP**step
                found.append(rates)
        return found

    def _largest_unit(self) -> int:
        """The largest amount of the first resource that every pod's need is a multiple of."""
        unit = math.gcd(*(needs[0] for needs in self._market.needs)) or 1
        widest = max(size.room[0] for size in self._market.sizes)
        return max(unit, -(-widest // _MOST_UNITS))

    def _table(
        self, users: Sequence[int], weights: Sequence[int], shares: Any, rates: Any, width: int
    ) -> _Table:
        """What room of each width is worth at most, with all other resources charged at rates."""
        numpy, free = self._numpy, 0.0
        kinds = numpy.array(users, dtype=numpy.int64)
        values = shares - self._needs[kinds][:, 1:] @ rates
        table = numpy.zeros(width + 1)
        for user, weight, value in zip(users, weights, values, strict=True):
            if value <= 0:
                continue
            demand = self._market.demand[user]
            if weight == 0:
                free += float(value) * demand
                continue
            table = _with_copies(numpy, table, weight, float(value), demand)
        return _Table(rates, values, free, table)

    def _made_to_fit(self, size: int, pods: Mapping[int, int], shares: Any) -> Configuration:
        """As many of these pods as a size holds, and others that fill the room left."""
        market = self._market
        room = market.sizes[size].room
        usable = {
            user: min(n, market.demand[user])
            for user, n in pods.items()
            if user in market.most[size]
        }
        left = [0] * len(market.demand)
        for user, count in usable.items():
            left[user] = count
        order = sorted(usable, key=lambda u: (-float(shares[u]), u))
        start = market.filled(size, order, left, {})
        others = greedy.by_density(market.most[size], shares.tolist(), market.needs, room)
        return configuration(size, market.filled(size, others, market.demand, start))

    def search(
        self, size: int, shares: Any, tables: Sequence[_Table]
    ) -> tuple[dict[int, int], float, int]:
        """The best filling of one size with whole pods, its worth, and how many nodes that took.

        Branch and bound, depth first: classes in the order of their worth for the room they take,
        as many pods of each as possible first. What is still to come is bounded by tables of the
        classes that come later, at the rates of those given. If the node limit is exceeded, the
        search was cut and a better filling may exist.
        """
        market, unit = self._market, self._unit
        needs, most, room = market.needs, market.most[size], market.sizes[size].room
        users = greedy.by_density(most, shares.tolist(), needs, room)
        worth = [float(shares[user]) for user in users]
        counts = [most[user] for user in users]
        scale = [
            float(part) / max(1, have) for part, have in zip(self._rooms[size], room, strict=True)
        ]
        bounds = [
            (
                self._later(users, counts, worth, table.rates, room[0] // unit),
                [float(rate) * part for rate, part in zip(table.rates, scale[1:], strict=True)],
            )
            for table in tables
        ]
        best, nodes = 0.0, 0
        chosen: tuple[tuple[int, int], ...] = ()
        stack: list[tuple[int, tuple[int, ...], float, tuple[tuple[int, int], ...]]]
        stack = [(0, room, 0.0, ())]
        while stack:
            k, rest, value, pods = stack.pop()
            if value > best:
                best, chosen = value, pods
            if k == len(users):
                continue
            nodes += 1
            if nodes > _SEARCH_NODES:
                break
            place = rest[0] // unit
            ceiling = value + min(
                later[k][place] + sum(r * have for r, have in zip(rates, rest[1:], strict=True))
                for later, rates in bounds
            )
            if ceiling <= best * (1 + 1e-9):
                continue
            need = needs[users[k]]
            fit = min(have // n for have, n in zip(rest, need, strict=True) if n)
            for taken in range(min(counts[k], fit) + 1):
                if not taken:
                    stack.append((k + 1, rest, value, pods))
                    continue
                left = tuple(have - n * taken for have, n in zip(rest, need, strict=True))
                stack.append((k + 1, left, value + worth[k] * taken, (*pods, (users[k], taken))))
        return dict(chosen), best * (1 + 1e-9), nodes

    def _later(
        self,
        users: Sequence[int],
        counts: Sequence[int],
        worth: Sequence[float],
        rates: Any,
        width: int,
    ) -> list[Any]:
        """For each class of an order, what it and those after it are worth at most, by width."""
        numpy, needs = self._numpy, self._market.needs
        table = numpy.zeros(width + 1)
        found: list[Any] = []
        for user, count, value in reversed(list(zip(users, counts, worth, strict=True))):
            own = value - float(self._needs[user][1:] @ rates)
            weight = needs[user][0] // self._unit
            if own > 0:
                table = _with_copies(numpy, table, weight, own, count)
            found.append(table)
        found.reverse()
        return found


def _with_copies(numpy: Any, table: Any, weight: int, value: float, count: int) -> Any:
    """A knapsack table with so many pods more; a pod without width adds its value everywhere."""
    if not weight:
        return table + value * count
    table = table.copy()
    copies, left = 1, min(count, (len(table) - 1) // weight)
    while left > 0:
        copies = min(copies, left)
        shift = weight * copies
        table[shift:] = numpy.maximum(table[shift:], table[:-shift] + value * copies)
        left -= copies
        copies *= 2
    return table


def _spread(numpy: Any, duals: Any) -> list[Any]:
    """Rates spaced between the lowest and the highest dual of any size, both included."""
    ranks = numpy.linspace(0.0, 1.0, _RATES)
    return list(numpy.unique(numpy.quantile(duals, ranks, axis=0), axis=0))


def _traced(numpy: Any, table: Any, weights: Any, values: Any, place: int) -> dict[int, int]:
    """Trace a table back to the pods that make up the worth of one entry."""
    found: dict[int, int] = {}
    usable = numpy.nonzero((values > 0) & (weights > 0))[0]
    while place > 0 and len(usable):
        if table[place - 1] >= table[place] - 1e-12:
            place -= 1
            continue
        usable = usable[weights[usable] <= place]
        worth = table[place - weights[usable]] + values[usable]
        number = int(usable[int(numpy.argmax(worth))])
        found[number] = found.get(number, 0) + 1
        place -= int(weights[number])
    return found


def _quiet(highspy: Any) -> Any:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 1)
    return highs


def _run(highspy: Any, highs: Any) -> None:
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        # Retry once without the old basis, which may have become singular
        highs.clearSolver()
        highs.run()
        status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"the solver ended with {highs.modelStatusToString(status)}")


def _empty(numpy: Any) -> Any:
    return numpy.array([], dtype=numpy.int32)
