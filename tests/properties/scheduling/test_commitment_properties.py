"""The ledger of commitments on random machines, and plans that are made with it.

The properties are those of docs/spec/optimize.md, section 7.1: P8, and P1 to P3 with commitments.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import book_of, priced_type, reserved_instances, savings_plan
from helpers.random_clusters import Recipe, recipes
from helpers.solver import written
from karpenter.api.karpenter import Commitment
from karpenter.checker.check import check_plan
from karpenter.model import labels as keys
from karpenter.scheduling.commitments import Ledger, Machine, running_machines
from karpenter.scheduling.problem import CostOptions, PackingMode, Problem
from karpenter.scheduling.solve import solve

PRICES = {"s.large": 0.10, "l.2xlarge": 0.36, "x.8xlarge": 2.00}
TYPES = tuple(priced_type(name, 2, price) for name, price in PRICES.items())
BY_PRICE = CostOptions(
    PackingMode.CHEAPEST, node_cost=0.0, min_types=1, min_spot_types=1, price_slack=0.0
)
orders = st.integers(0, 1000).map(Random)


@st.composite
def commitments(draw: st.DrawFn, types: Sequence[str]) -> list[Commitment]:
    found: list[Commitment] = []
    for number in range(draw(st.integers(0, 3))):
        of = sorted(draw(st.sets(st.sampled_from(types), min_size=1)))
        share = draw(st.sampled_from((None, "50%", "33.3%")))
        amount = draw(st.sampled_from(("0.05", "0.27", "1", "3.5")))
        match draw(st.integers(0, 3)):
            case 0:
                discount = draw(st.sampled_from(("0%", "25%", "72%")))
                found.append(
                    savings_plan(f"c{number}", amount, types=of, discount=discount, share=share)
                )
            case 1:
                rates = {name: draw(st.sampled_from(("0.05", "0.3"))) for name in of}
                found.append(savings_plan(f"c{number}", amount, rates=rates, share=share))
            case 2:
                count = draw(st.integers(1, 3))
                found.append(
                    reserved_instances(f"c{number}", types=of, instances=count, share=share)
                )
            case _:
                found.append(reserved_instances(f"c{number}", types=of, units=amount, share=share))
    return found


machines = st.lists(
    st.tuples(st.sampled_from(sorted(PRICES)), st.sampled_from((keys.ON_DEMAND, keys.SPOT))),
    max_size=6,
)


def named(kinds: Sequence[tuple[str, str]], prefix: str) -> tuple[Machine, ...]:
    return tuple(
        Machine(f"{prefix}{n}", kind, "z1", way, PRICES[kind])
        for n, (kind, way) in enumerate(kinds)
    )


@given(commitments(sorted(PRICES)), machines, machines)
@settings(max_examples=200, deadline=None)
def test_a_bill_lies_between_what_is_listed_and_that_less_what_is_committed(
    given_: list[Commitment], running: list[tuple[str, str]], new: list[tuple[str, str]]
) -> None:
    book = book_of(given_, TYPES)
    ledger = Ledger(book, named(running, "r"))
    planned = named(new, "n")
    listed = math.fsum(each.price for each in (*ledger.running, *planned))
    committed = math.fsum(
        terms.amount * most for terms, most in zip(book.terms, book.worth_of_unit, strict=True)
    )

    bill = ledger.bill(planned=planned)

    assert max(0.0, listed - committed) - 1e-9 <= bill <= listed + 1e-9
    balance = ledger.balance()
    for machine in planned:
        marginal = balance.price(machine.instance_type, machine.zone, machine.price)
        taken = math.fsum(each.hourly for each in balance.take(machine))
        if machine.capacity_type == keys.ON_DEMAND:
            assert math.isclose(machine.price - taken, marginal, abs_tol=1e-6)
    assert all(left >= 0 for left in balance.left)


@given(commitments(sorted(PRICES)), machines, machines, orders)
@settings(max_examples=200, deadline=None)
def test_the_order_of_machines_with_equal_claims_does_not_matter(
    given_: list[Commitment],
    running: list[tuple[str, str]],
    new: list[tuple[str, str]],
    order: Random,
) -> None:
    book = book_of(given_, TYPES)
    shuffled = list(named(running, "r"))
    order.shuffle(shuffled)
    planned = named(new, "n")
    renamed = [replace(each, name=f"z{-n}") for n, each in enumerate(planned)]

    first = Ledger(book, named(running, "r")).bill(planned=planned)

    assert math.isclose(first, Ledger(book, tuple(shuffled)).bill(planned=renamed), abs_tol=1e-9)


@given(commitments(sorted(PRICES)), machines, machines)
@settings(max_examples=200, deadline=None)
def test_one_more_machine_never_lowers_the_bill_nor_raises_it_above_its_price(
    given_: list[Commitment], running: list[tuple[str, str]], new: list[tuple[str, str]]
) -> None:
    ledger = Ledger(book_of(given_, TYPES), named(running, "r"))
    before = ledger.bill()

    for count in range(1, len(new) + 1):
        after = ledger.bill(planned=named(new, "n")[:count])
        price = PRICES[new[count - 1][0]]
        assert -1e-9 <= after - before <= price + 1e-9
        before = after


def with_commitments(problem: Problem, given_: list[Commitment]) -> Problem:
    types = {
        pool.node_pool.metadata.name: {each.name: each for each in pool.instance_types}
        for pool in problem.pools
    }
    book = book_of(given_, [kind for own in types.values() for kind in own.values()])
    return replace(problem, ledger=Ledger(book, running_machines(problem.nodes, types)))


@given(recipes(), st.data(), st.sampled_from((0.0, 0.02)))
@settings(max_examples=100, deadline=None)
def test_plans_with_commitments_break_no_rule_and_cost_no_less_than_their_bound(
    recipe: Recipe, data: st.DataObject, node_cost: float
) -> None:
    question = recipe.question
    options = replace(question.options, cost=replace(BY_PRICE, node_cost=node_cost))
    question = replace(question, options=options)
    names = sorted({each.name for pool in question.problem.pools for each in pool.instance_types})
    given_ = data.draw(commitments(names))
    problem = with_commitments(question.problem, given_)

    plan = solve(problem)

    assert [] == check_plan(question.cluster, plan)
    order = replace(options.cost, packing=PackingMode.KARPENTER)
    plain = solve(replace(problem, options=replace(options, cost=order)))
    assert plan.names_left_out <= plain.names_left_out
    if plan.names_left_out == plain.names_left_out:
        assert plan.marginal_cost <= plain.marginal_cost + 1e-9
    if all(claim.launch is not None for claim in plan.claims):
        assert plan.lower_bound <= plan.marginal_cost * (1 + 1e-6) + 1e-9
        assert plan.rough_bound <= plan.marginal_cost * (1 + 1e-6) + 1e-9
    assert written(plan) == written(solve(problem))
