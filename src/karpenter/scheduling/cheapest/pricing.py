"""The pricing of configurations: which fillings of sizes are worth more than their price.

One linear program relaxes the knapsacks of all sizes; its duals prove an upper limit for each size.
Knapsack tables over whole pods sharpen the limits, and an exact search settles what is left.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from karpenter.scheduling.cheapest import greedy
from karpenter.scheduling.cheapest.market import (
    Configuration,
    Market,
    configuration,
)
from karpenter.scheduling.cheapest.solver_library import quiet, run

BETTER: Final = 1e-7  # least reduced cost of a new column, as a part of its price
SEARCH_NODES: Final = 20_000  # of one exact search
_MOST_UNITS: Final = 4000  # of cpu, the width of a knapsack table
_RATES: Final = 11  # different charges for the other resources, one table for each
_STEEP_RATES: Final = 8  # further charges for each other resource that may fill a size first
_STEP: Final = 1.5  # from one of them to the next
_TABLES_ASKED: Final = 3  # tables that bound each node of a search
_MOST_TABLES: Final = 8  # one for each set of classes that share sizes


class Table(NamedTuple):
    """A knapsack table over the first resource; the other resources are charged at rates."""

    rates: Any  # resource, but for the first -> dollars for a unit
    values: Any  # class -> what a pod is worth beyond that
    free: float  # what pods that take no width add
    worth: Any  # width -> dollars


class Pricing:
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
        highs = quiet(highspy)
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
        run(self._highspy, self._highs)
        return self._highs.getSolution()

    def columns(self, shares: Any) -> tuple[list[Configuration], Any]:
        """A good configuration of every size that may improve the program, and limits for all."""
        solution = self._solve(shares)
        amounts = self._numpy.array(solution.col_value)
        limit = self._limits(shares, solution)
        market, found = self._market, []
        rates = self._rates(solution)
        for number, size in enumerate(market.sizes):
            if limit[number] <= size.price * (1 + BETTER):
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
    ) -> tuple[list[Configuration], Any, dict[int, list[Table]]]:
        """Sharper limits, and good fillings, from knapsack tables over cpu in whole pods.

        The first resource is exact, in units that all pods are multiples of; the others are charged
        at rates (a Lagrangian relaxation). A table is an upper limit whatever the rates, so the
        lowest one holds. One table serves all sizes with the same users. The tables that are lowest
        for a size are returned too.
        """
        numpy, market = self._numpy, self._market
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, size in enumerate(market.sizes):
            if limit[number] > size.price * (1 + BETTER):
                groups.setdefault(size.users, []).append(number)
        duals = self._rates(self._highs.getSolution())[:, 1:]
        sharper, found = limit.copy(), []
        lowest: dict[int, list[Table]] = {}
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
                if sharper[number] > market.sizes[number].price * (1 + BETTER):
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
    ) -> Table:
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
        return Table(rates, values, free, table)

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
        self, size: int, shares: Any, tables: Sequence[Table]
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
            if nodes > SEARCH_NODES:
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
