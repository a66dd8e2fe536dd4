"""The policy that weighs what a move saves against how many pods it disrupts.

A move scores the part of its pool's cost that it saves, divided by the part of the disruption that
moving the whole pool would be. At one, both parts are equal; half of that is enough.
"""

import math
from typing import Final

from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command, Score
from karpenter.disruption.context import DisruptionContext

BALANCED: Final = "Balanced"
LEAST_SCORE: Final = 0.5  # 1/k with k = 2


def score_of(view: DisruptionContext, pool: str, command: Command) -> Score:
    """How one of the pools that a move takes machines from judges it."""
    own = [candidate for candidate in command.candidates if candidate.pool == pool]
    price = sum(candidate.price for candidate in own)
    everything = sum(candidate.price for candidate in command.candidates)
    # with several pools, each is credited its share of the savings
    savings = command.savings * (price / everything if everything > 0 else 0.0)
    return _score(view, pool, own, savings)


def best_score(view: DisruptionContext, candidate: Candidate) -> Score:
    """The most that a move of a single machine could score: all of its price saved."""
    return _score(view, candidate.pool, [candidate], candidate.price)


def score(savings: float, disruption: float, pool_cost: float, pool_disruption: float) -> float:
    """What a move is worth: its share in the cost over its share in the disruption."""
    if savings <= 0 or pool_cost <= 0 or pool_disruption <= 0:
        return 0.0
    if disruption <= 0:
        return math.inf
    return (savings / pool_cost) / (disruption / pool_disruption)


def _score(view: DisruptionContext, pool: str, own: list[Candidate], savings: float) -> Score:
    cost, disruption = view.totals(pool)
    disturbed = sum(candidate.cost for candidate in own)
    value = score(savings, disturbed, cost, disruption)
    # tolerance: sums in another order differ by rounding
    is_enough = value >= LEAST_SCORE or math.isclose(value, LEAST_SCORE, rel_tol=1e-9)
    return Score(
        pool,
        value,
        is_enough,
        savings / cost if cost > 0 else 0.0,
        disturbed / disruption if disruption > 0 else 0.0,
    )
