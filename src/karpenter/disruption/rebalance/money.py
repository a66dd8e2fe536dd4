"""What a rebalance saves: the only place where its machines and replacements are priced."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from karpenter.disruption.candidates import Candidate
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.simulation import Answer
from karpenter.model.labels import PRICE_CEILING
from karpenter.scheduling.cheapest.narrowing import expected_price
from karpenter.scheduling.inputs.cost_annotations import pool_cost
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.result import with_bookings


@dataclass(frozen=True, slots=True)
class Savings:
    """Dollars per hour that a rebalance saves; less than nothing when it costs more."""

    expected: float  # at the prices that replacements are expected to be launched at
    worst: float  # if each replacement is launched at its price ceiling


def savings_of(
    view: DisruptionContext,
    candidates: Sequence[Candidate],
    answer: Answer,
    made: Sequence[tuple[OpenClaim, PlannedClaim]],
) -> Savings:
    """What is saved when these replacements, as packed and as planned, take the candidates' place.

    A machine of unknown price saves nothing, and a replacement of unknown price saves nothing.
    """
    before = sum(candidate.price for candidate in candidates)
    expected = math.fsum(_expected(view, answer, *each) for each in made)
    worst = math.fsum(ceiling_of(planned) for _, planned in made)
    lost = view.lost_coverage(candidates, [planned for _, planned in made])
    return Savings(before - expected - lost, before - worst - lost)


def ceiling_of(planned: PlannedClaim) -> float:
    """The most that a replacement may cost an hour; infinite when that is not known."""
    stated = planned.annotations.get(PRICE_CEILING)
    if stated is not None:
        return float(stated)
    if planned.launch is None or not math.isfinite(planned.launch.price):
        return math.inf
    return planned.launch.price  # a reservation, or the only price there is


def _expected(
    view: DisruptionContext, answer: Answer, claim: OpenClaim, planned: PlannedClaim
) -> float:
    """The expected price of the types that a replacement lists."""
    template = answer.template(claim)
    _, bits = with_bookings(template, claim, view.facts)
    bits &= template.universe.of_types(planned.instance_types)
    cost = pool_cost(template.node_pool, view.settings.planning.options.cost)
    price = expected_price(template, bits, cost)
    return price if bits & template.universe.launchable else math.inf
