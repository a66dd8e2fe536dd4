"""Topping up: which free pods should join a claim that was opened before, for others.

A claim may still become a larger machine, so each size that its offerings leave is filled with the
pods that are worth most, and the filling whose worth most exceeds what the larger machine costs more
is taken. Sizes come in the order of an upper limit of that gain, so few of them are filled: at dual
rates, hardly any size has room that is worth more than its price. Claims that are alike, such as
those of pods that keep apart, are answered once as long as there are pods enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.scheduling.cheapest.greedy import by_density
from karpenter.scheduling.cheapest.market import Size, Work, fill, without_dominated
from karpenter.scheduling.cheapest.narrowing import expected_price, has_choice
from karpenter.scheduling.cheapest.pool_markets import PoolMarket
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.inputs.cost_annotations import pool_cost
from karpenter.scheduling.packing.claims import OpenClaim

_LIMITS_PER_PAIR: Final = 8  # limits of a size, or masks, that take as long as a pair does
_GAIN: Final = 1e-12  # dollars; less is rounding

_Filling: TypeAlias = Mapping[int, int]  # class -> how many pods


@dataclass(frozen=True, slots=True)
class _Answer:
    """The filling of a claim, and the demand for which it is the answer."""

    filling: _Filling
    demand: Sequence[int]
    most: _Filling  # class -> most pods of it in any filling that was tried

    def holds(self, demand: Sequence[int]) -> bool:
        """Whether it is the answer for this demand too."""
        if demand == self.demand:
            return True
        return all(n < min(self.demand[user], demand[user] + 1) for user, n in self.most.items())


class TopUps:
    """What the pods of one market could fill up."""

    def __init__(
        self,
        compiled: CompiledProblem,
        pool: PoolMarket,
        rates: Sequence[Sequence[float]],
        worth: Sequence[float],
        work: Work,
    ) -> None:
        """Prepare to ask about claims.

        Args:
            rates: the dual rates of the market's classes.
            worth: what one pod of each is worth at them.
            work: limits how much is tried.
        """
        self._compiled = compiled
        self._pool = pool
        self._work = work
        self._needs = pool.needs()
        self._worth = worth
        self._highest = [max(column) for column in zip(*rates, strict=True)]  # by resource
        self._ways: dict[tuple[int, int], list[Size]] = {}
        self._answers: dict[tuple[object, ...], _Answer] = {}

    def filling(self, claim: OpenClaim) -> _Filling:
        """The pods that should join a claim; none where no filling is worth what it costs more."""
        universe = self._compiled.templates[claim.template].universe
        if claim.bookings or not claim.bits & universe.launchable:
            return {}
        demand = [len(entry.pods) for entry in self._pool.classes]
        held = tuple(claim.requests.get(name, 0) for name in self._pool.resources)
        key = claim.template, claim.bits, held
        known = self._answers.get(key)
        if known is None or not known.holds(demand):
            known = self._answers[key] = self._best(self._ways_of(claim), held, demand)
        return known.filling

    def _best(self, ways: Sequence[Size], held: Sequence[int], demand: Sequence[int]) -> _Answer:
        best: _Filling = {}
        gain = _GAIN
        tried: dict[int, int] = {}
        self._work.spend(len(ways) // _LIMITS_PER_PAIR)
        limits = []
        for number, way in enumerate(ways):
            left = [have - taken for have, taken in zip(way.room, held, strict=True)]
            if min(left) >= 0:
                limit = sum(rate * room for rate, room in zip(self._highest, left, strict=True))
                limits.append((way.price - limit, number, left))
        for price, number, left in sorted(limits):
            if -price <= gain or not self._work.spend(len(ways[number].users)):
                break
            order = by_density(ways[number].users, self._worth, self._needs, left)
            found = fill(self._needs, left, order, demand, {})
            for user, n in found.items():
                tried[user] = max(n, tried.get(user, 0))
            more = sum(self._worth[user] * n for user, n in found.items()) - ways[number].price
            if more > gain:
                best, gain = found, more
        return _Answer(best, demand, tried)

    def _ways_of(self, claim: OpenClaim) -> list[Size]:
        """What a claim may become: the room, what it costs more, and the classes that may use it."""
        key = claim.template, claim.bits
        known = self._ways.get(key)
        if known is not None:
            return known
        compiled, pool = self._compiled, self._pool
        template = compiled.templates[claim.template]
        cost = pool_cost(template.node_pool, compiled.problem.options.cost)
        universe, room = template.universe, template.room
        everybody = tuple(range(len(pool.classes)))
        is_home = universe is pool.template.universe  # offerings of others have other numbers
        bits = claim.bits & universe.launchable
        now = expected_price(template, claim.bits, cost)
        is_fragile = not has_choice(universe, claim.bits, cost)
        found = []
        for rest, _ in room.cheapest_ways(bits):
            amounts = [(name, rest[name]) for name in pool.resources]
            holding = room.fitting(bits, {}, amounts)
            if not (is_fragile or has_choice(universe, holding, cost)):
                continue
            extra = expected_price(template, holding, cost) - now
            users = tuple(u for u in everybody if pool.classes[u].allowed & holding or not is_home)
            found.append(Size(tuple(amount for _, amount in amounts), extra, users))
        self._work.spend(len(found) * len(everybody) // _LIMITS_PER_PAIR)
        known = self._ways[key] = without_dominated(found)
        return known
