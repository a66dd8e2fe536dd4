"""The balanced policy: weighs the savings of a move against its disruption of pods.

The score of a move is its savings as a fraction of the pool's cost, divided by its disruption cost
as a fraction of that of moving all of the pool's pods. At one, both fractions are equal; the
threshold is half of that.
"""

import math
from typing import Final

from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command, Score
from karpenter.disruption.context import DisruptionContext

BALANCED: Final = "Balanced"
LEAST_SCORE: Final = 0.5  # 1/k with k = 2


def score_of(view: DisruptionContext, pool: str, command: Command) -> Score:
    """The score of a move in one of the pools of its candidates."""
    own = [candidate for candidate in command.candidates if candidate.pool == pool]
    price = sum(candidate.price for candidate in own)
    everything = sum(candidate.price for candidate in command.candidates)
    # with several pools, each is credited its share of the savings
    savings = command.savings * (price / everything if everything > 0 else 0.0)
    return _score(view, pool, own, savings)


def best_score(view: DisruptionContext, candidate: Candidate) -> Score:
    """The highest possible score of removing one machine: all of its price is saved."""
    return _score(view, candidate.pool, [candidate], view.savings([candidate]))


def score(savings: float, disruption: float, pool_cost: float, pool_disruption: float) -> float:
    """The score: the fraction of the cost over the fraction of the disruption."""
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
