"""Whatever the cluster, a plan of ``PACKING=cheapest`` breaks no rule and is never dearer.

The properties are those of docs/spec/optimize.md, section 7.1: P1 to P7.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.builders import pods, priced_type
from helpers.random_clusters import Question, Recipe, recipes
from helpers.solver import solved, written
from karpenter.checker.check import accounting_violations, check_plan
from karpenter.checker.inputs import Rule, Violation
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.requirement import Operator, requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.cheapest import configurations, fluid, greedy
from karpenter.scheduling.cheapest.market import Configuration, Draw, Market, Size, Work
from karpenter.scheduling.plan import Launch, Plan, PlannedClaim
from karpenter.scheduling.problem import CostOptions, Options, PackingMode
from karpenter.scheduling.solve import solve
from karpenter.state.pods import key_of

orders = st.integers(0, 1000).map(Random)
costs = st.builds(
    CostOptions,
    packing=st.just(PackingMode.CHEAPEST),
    node_cost=st.sampled_from((0.0, 0.02, 1.0)),
    min_types=st.integers(1, 3),
    min_spot_types=st.integers(1, 3),
    price_slack=st.sampled_from((0.0, 0.1, 1.0)),
)


CHEAP = CostOptions(
    PackingMode.CHEAPEST, node_cost=0.0, min_types=1, min_spot_types=1, price_slack=0.0
)
# Two claims at the price of a reservation that has one machine
UNBOOKED = Recipe(4194303, (1, 3), 1, 3, 0, 0, topology=True, limits=True, reservations=True)


def asking_for(question: Question, cost: CostOptions) -> Question:
    return replace(question, options=replace(question.options, cost=cost))


@given(recipes(), costs)
@example(Recipe(75867675, (1, 1, 4, 1, 2), pools=3, types=3, nodes=3), CHEAP)  # a bound of 3e-20
@example(Recipe(231, (1, 1, 1, 2), pools=1, types=4, nodes=5), CHEAP)  # minValues by what is gone
@example(UNBOOKED, CHEAP)
@settings(max_examples=120, deadline=None)
def test_no_cheapest_plan_breaks_a_rule_or_is_dearer(recipe: Recipe, cost: CostOptions) -> None:
    question = asking_for(recipe.question, cost)

    plan = solve(question.problem)

    assert [] == check_plan(question.cluster, plan)
    plain = solve(asking_for(question, replace(cost, packing=PackingMode.KARPENTER)).problem)
    assert plan.names_left_out <= plain.names_left_out
    assert plan.existing == plain.existing
    if plan.names_left_out == plain.names_left_out:
        assert plan.hourly_cost <= plain.hourly_cost * (1 + 1e-9)
        assert plan.expected_cost <= plain.expected_cost * (1 + 1e-9)


@given(recipes(), costs, orders)
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_input_changes_no_cheapest_plan(
    recipe: Recipe, cost: CostOptions, order: Random
) -> None:
    question = asking_for(recipe.question, cost)

    plan = solve(question.problem)

    assert written(plan) == written(solve(question.shuffled(order).problem))


@given(recipes(), costs)
@settings(max_examples=40, deadline=None)
def test_the_bound_is_about_the_pods_not_about_the_plan(recipe: Recipe, cost: CostOptions) -> None:
    few, many = (
        solve(asking_for(recipe.question, replace(cost, node_cost=node_cost)).problem)
        for node_cost in (5.0, 0.0)
    )

    launched = all(claim.launch is not None for claim in (*few.claims, *many.claims))
    if launched and few.names_left_out == many.names_left_out:
        assert math.isclose(few.lower_bound, many.lower_bound, rel_tol=1e-9, abs_tol=1e-12)


@given(recipes(), costs, st.integers(0, 12))
@settings(max_examples=50, deadline=None)
def test_when_time_runs_out_every_pod_is_still_accounted_for(
    recipe: Recipe, cost: CostOptions, looks: int
) -> None:
    question = asking_for(recipe.question, cost)
    left = iter(range(looks))

    plan = solve(question.problem, has_time=lambda: next(left, None) is not None)

    assert [] == [*accounting_violations(question.cluster, plan)]


OPTIMAL = 1e-4  # gaps below it count as proved


def is_proved(plan: Plan) -> bool:
    return plan.hourly_cost <= plan.lower_bound * (1 + OPTIMAL)


sold = st.lists(
    st.tuples(st.sampled_from((1, 2, 4, 8)), st.sampled_from((0.1, 0.19, 0.36, 0.7))),
    min_size=1,
    max_size=3,
)
wanted = st.lists(st.tuples(st.sampled_from(("1", "2", "3")), st.integers(1, 5)), max_size=2)


@given(sold, wanted, st.tuples(st.integers(1, 9), st.sampled_from((0.05, 0.15, 0.3, 0.5, 2.0))))
@example([(8, 0.36)], [("1", 5)], (5, 0.15))
@settings(max_examples=80, deadline=None)
def test_one_more_offering_never_makes_what_is_proved_dearer(
    types: list[tuple[int, float]], kinds: list[tuple[str, int]], more: tuple[int, float]
) -> None:
    asked = [
        made
        for number, (cpu, count) in enumerate((("1", 2), *kinds))
        for made in pods(count, f"k{number}", cpu=cpu, memory="1Gi")
    ]
    catalogue = [priced_type(f"t{n}", cpu, price) for n, (cpu, price) in enumerate(types)]
    catalogue.append(priced_type("largest", 64, 3.0))  # everyone finds a place

    fewer, most = (
        solved(asked, types=each, options=Options(cost=CHEAP)).plan
        for each in (catalogue, [*catalogue, priced_type("more", *more)])
    )

    assert not most.left_out
    if is_proved(fewer) and is_proved(most):
        assert most.hourly_cost <= fewer.hourly_cost * (1 + 2 * OPTIMAL)
    assert most.lower_bound <= fewer.hourly_cost * (1 + 1e-9)


@given(recipes(reservations=False), costs)
@settings(max_examples=60, deadline=None)
def test_every_kept_type_holds_the_claim_and_there_are_enough(
    recipe: Recipe, cost: CostOptions
) -> None:
    """The checker judges which types would do: those that a plan may list alone.

    It does not know of preferences, nor which alternative of an affinity was taken, so claims with
    such pods are not counted.
    """
    question = asking_for(recipe.question, cost)
    plan = solve(question.problem)
    assert [] == check_plan(question.cluster, plan)  # each type that a claim lists holds it
    by_name = {key_of(pod): pod for pod in question.pods}

    for claim in plan.claims:
        asked = [by_name[name].spec.affinity for name in claim.pods]
        if claim.launch is None or any(each is not None and each.node_affinity for each in asked):
            continue
        able = [
            kind.name
            for kind in question.types
            if (alone := as_only(claim, kind)) is not None
            and [] == broken_by(question, plan, claim, alone)
        ]
        is_spot = claim.launch.capacity_type == keys.SPOT
        minimum = cost.min_spot_types if is_spot else cost.min_types
        minimum = min(minimum, question.options.most_instance_types)
        assert len(claim.instance_types) >= min(minimum, len(able))


def as_only(claim: PlannedClaim, kind: InstanceType) -> PlannedClaim | None:
    """A claim for one type alone, launched with the same capacity type; None if it is not sold so."""
    assert claim.launch is not None
    others = [entry for entry in claim.requirements if entry.key != keys.INSTANCE_TYPE]
    held = Requirements(others) & [requirement(keys.INSTANCE_TYPE, Operator.IN, (kind.name,))]
    ways = [
        each
        for each in kind.offerings
        if each.is_launchable
        and each.capacity_type == claim.launch.capacity_type
        and math.isfinite(each.price)
        and each.requirements.intersects(held)
    ]
    if not ways:
        return None
    way = min(ways, key=lambda each: (each.price, each.zone))
    launch = Launch(kind.name, way.zone, way.capacity_type, way.price)
    return replace(claim, instance_types=(kind.name,), requirements=held, launch=launch)


def broken_by(
    question: Question, plan: Plan, claim: PlannedClaim, alone: PlannedClaim
) -> list[Violation]:
    """The rules that a plan breaks with a claim for one type alone, but for those about money."""
    claims = tuple(alone if each is claim else each for each in plan.claims)
    found = check_plan(question.cluster, replace(plan, claims=claims))
    return [each for each in found if each.rule not in (Rule.COST, Rule.MIN_VALUES)]


@st.composite
def markets(draw: st.DrawFn) -> Market:
    classes = draw(st.integers(1, 3))
    needs = [(draw(st.integers(1, 4)), draw(st.integers(0, 4)), 1) for _ in range(classes)]
    demand = [draw(st.integers(1, 3)) for _ in range(classes)]
    sizes = [
        Size(
            (draw(st.integers(1, 9)), draw(st.integers(0, 9)), draw(st.integers(1, 5))),
            draw(st.sampled_from((0.1, 0.25, 0.3, 0.7, 1.0))),
            tuple(sorted(draw(st.sets(st.integers(0, classes - 1), min_size=1)))),
            draw(st.sampled_from((None, None, None, 1))),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    sizes.append(Size((9, 9, 9), 5.0, tuple(range(classes))))  # everyone finds a place
    limits = draw(st.sampled_from(((), (3.0,), (1.0, 5.0))))
    for limit in range(len(limits)):
        for _ in range(draw(st.integers(1, 2))):
            room = (draw(st.integers(1, 9)), draw(st.integers(0, 9)), draw(st.integers(1, 5)))
            users = tuple(sorted(draw(st.sets(st.integers(0, classes - 1), min_size=1))))
            drawn = Draw(limit, draw(st.sampled_from((0.5, 1.0, 2.0))))
            sizes.append(Size(room, draw(st.sampled_from((0.0, 0.05))), users, draw=drawn))
    return Market(needs, demand, sizes, limits)


@given(markets())
@settings(max_examples=150, deadline=None)
def test_no_packing_costs_less_than_the_bound(market: Market) -> None:
    least = _least_cost(market)
    worth = fluid.worths(market)

    bound, shares = configurations.bound_of(market, worth, Work(1.0, lambda: True))
    bought = greedy.buy(market, worth, market.demand, Work(1.0, lambda: True))

    assert bound <= least * (1 + 1e-9)
    assert len(market.demand) == len(shares)
    assert bought is not None
    _serves(market, bought)
    _serves(market, configurations.solved(market, worth, Work(1.0, lambda: True)).bought)


def _serves(market: Market, bought: Sequence[tuple[Configuration, int]]) -> None:
    served = [0] * len(market.demand)
    drawn = [0.0] * len(market.limits)
    for column, copies in bought:
        size = market.sizes[column.size]
        if size.draw is not None:
            drawn[size.draw.limit] += size.draw.amount * copies
        for resource, have in enumerate(size.room):
            assert sum(market.needs[u][resource] * n for u, n in column.pods) <= have
        for user, count in column.pods:
            assert user in size.users
            served[user] += count * copies
    assert served == list(market.demand)
    assert all(used <= most for used, most in zip(drawn, market.limits, strict=True))


def _least_cost(market: Market) -> float:
    """The cheapest packing of all, by trying every filling of every size for every rest."""
    fillings = [
        [
            pods
            for pods in product(*(range(n + 1) for n in market.demand))
            if any(pods)
            and all(user in size.users for user, count in enumerate(pods) if count)
            and all(
                sum(market.needs[user][r] * count for user, count in enumerate(pods)) <= have
                for r, have in enumerate(size.room)
            )
        ]
        for size in market.sizes
    ]
    limited = [n for n, size in enumerate(market.sizes) if size.count is not None]
    known: dict[tuple[object, ...], float] = {}

    def least(left: tuple[int, ...], spare: tuple[int, ...], limits: tuple[float, ...]) -> float:
        if not any(left):
            return 0.0
        key = left, spare, limits
        if key not in known:
            best = float("inf")
            for number, size in enumerate(market.sizes):
                after = spare
                if min(rest_of := _drawn(size, limits), default=0.0) < 0:
                    continue
                if number in limited:
                    place = limited.index(number)
                    if not spare[place]:
                        continue
                    after = (*spare[:place], spare[place] - 1, *spare[place + 1 :])
                for pods in fillings[number]:
                    rest = tuple(a - b for a, b in zip(left, pods, strict=True))
                    if min(rest) >= 0:
                        best = min(best, size.price + least(rest, after, rest_of))
            known[key] = best
        return known[key]

    counts = tuple(market.sizes[n].count or 0 for n in limited)
    return least(tuple(market.demand), counts, tuple(market.limits))


def _drawn(size: Size, limits: tuple[float, ...]) -> tuple[float, ...]:
    if size.draw is None:
        return limits
    limit, amount = size.draw
    return (*limits[:limit], limits[limit] - amount, *limits[limit + 1 :])
