"""Whatever the cluster, a plan with spot ratios breaks no rule, places the same pods, and keeps them.

A ratio that is not kept has a reason: no claim that may be spot could be anything else.
"""

from dataclasses import replace
from random import Random

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.random_clusters import Question, Recipe, recipes
from helpers.solver import CHEAPEST, written
from karpenter.api.karpenter import NodePool
from karpenter.checker.check import check_plan
from karpenter.model import labels
from karpenter.scheduling.problem import PackingMode
from karpenter.scheduling.solve import solve
from karpenter.scheduling.spot.annotations import ON_DEMAND_BASE, SPOT_PERCENTAGE

modes = st.sampled_from([PackingMode.KARPENTER, PackingMode.CHEAPEST])
percents = st.sampled_from(["0", "30", "50", "100"])
bases = st.sampled_from(["0", "4", "40"])
orders = st.integers(0, 1000).map(Random)


def asking(question: Question, mode: PackingMode, ratio: dict[str, str]) -> Question:
    """The question with this ratio on every pool."""

    def rated(pool: NodePool) -> NodePool:
        metadata = msgspec.structs.replace(pool.metadata, annotations=ratio)
        return msgspec.structs.replace(pool, metadata=metadata)

    cost = replace(CHEAPEST, packing=mode)
    return replace(
        question,
        pools=tuple(map(rated, question.pools)),
        options=replace(question.options, cost=cost),
    )


# Reservations that are not booked, so that there is no end to them
UNBOOKED = Recipe(20924, (1, 3), 2, 3, 0, 0, topology=True, limits=True, reservations=True)


@given(recipes(), modes, percents, bases)
@example(UNBOOKED, PackingMode.CHEAPEST, "0", "0")
@settings(max_examples=80, deadline=None)
def test_ratios_break_no_rule_and_cost_no_pod_its_place(
    recipe: Recipe, mode: PackingMode, percent: str, base: str
) -> None:
    ratio = {SPOT_PERCENTAGE: percent, ON_DEMAND_BASE: base}
    question = asking(recipe.question, mode, ratio)

    plan = solve(question.problem)

    assert [] == check_plan(question.cluster, plan)
    free = solve(asking(recipe.question, PackingMode.KARPENTER, {}).problem)
    assert plan.names_left_out <= free.names_left_out
    assert plan.existing == free.existing
    for each in plan.ratios:
        assert each.is_met is (each.excess_cpu <= 0)
        on_spot = [
            claim
            for claim in plan.claims
            if claim.node_pool == each.node_pool
            and claim.requirements[labels.CAPACITY_TYPE].has(labels.SPOT)
        ]
        if not on_spot:
            continue
        if mode is PackingMode.KARPENTER and not each.is_met:
            # what is still spot could be nothing else, or minValues would be missed
            fixed = [
                claim
                for claim in on_spot
                if not claim.requirements[labels.CAPACITY_TYPE].has(labels.ON_DEMAND)
                or any(r.min_values is not None for r in claim.requirements)
            ]
            assert len(on_spot) == len(fixed)


@given(recipes(), modes, percents, orders)
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_input_changes_no_plan_with_ratios(
    recipe: Recipe, mode: PackingMode, percent: str, order: Random
) -> None:
    question = asking(recipe.question, mode, {SPOT_PERCENTAGE: percent})

    assert written(solve(question.problem)) == written(solve(question.shuffled(order).problem))


@given(recipes(), modes)
@settings(max_examples=40, deadline=None)
def test_a_ratio_that_allows_everything_changes_nothing(recipe: Recipe, mode: PackingMode) -> None:
    question = recipe.question
    plain = solve(asking(question, mode, {}).problem)

    if mode is PackingMode.KARPENTER:
        all_spot = solve(asking(question, mode, {SPOT_PERCENTAGE: "100"}).problem)
        assert plain.claims == all_spot.claims
    assert () == plain.ratios
