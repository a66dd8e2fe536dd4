"""Whatever the cluster, a plan breaks no rule, and says the same however the cluster is written."""

from dataclasses import replace
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.random_clusters import Recipe, recipes
from helpers.solver import written
from karpenter.checker.check import accounting_violations, check_plan
from karpenter.checker.inputs import Rule
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.solve import solve
from karpenter.state.pods import key_of

orders = st.integers(0, 1000).map(Random)
crowds = st.builds(  # more pods than are placed between two looks at the clock
    Recipe,
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.integers(20, 30), min_size=4, max_size=5).map(tuple),
    pools=st.integers(1, 2),
    types=st.integers(3, 5),
)


@given(recipes())
@settings(max_examples=150, deadline=None)
def test_no_plan_breaks_a_rule(recipe: Recipe) -> None:
    question = recipe.question

    plan = solve(question.problem)

    assert [] == check_plan(question.cluster, plan)


@given(recipes(topology=False, limits=False))
@settings(max_examples=60, deadline=None)
def test_a_pod_without_neighbours_is_left_out_only_when_no_fresh_node_could_take_it(
    recipe: Recipe,
) -> None:
    question = recipe.question

    plan = solve(question.problem)

    found = check_plan(question.cluster, plan)
    assert [] == [v for v in found if v.rule in (Rule.COMPLETENESS, Rule.POOL_ORDER)]


@given(recipes(), orders)
@settings(max_examples=60, deadline=None)
def test_the_order_of_the_input_does_not_change_a_byte(recipe: Recipe, order: Random) -> None:
    question = recipe.question

    plan = solve(question.problem)

    assert written(plan) == written(solve(question.shuffled(order).problem))


@given(recipes(), orders)
@settings(max_examples=40, deadline=None)
def test_pods_without_uid_or_age_come_in_one_order_too(recipe: Recipe, order: Random) -> None:
    question = replace(
        recipe.question,
        pods=tuple(
            msgspec.structs.replace(
                pod,
                metadata=msgspec.structs.replace(
                    pod.metadata, creation_timestamp=None, uid="same for all"
                ),
            )
            for pod in recipe.question.pods
            if not pod.spec.volumes  # which are found by uid
        ),
    )

    plan = solve(question.problem)

    assert written(plan) == written(solve(question.shuffled(order).problem))


@given(recipes(), recipes())
@settings(max_examples=40, deadline=None)
def test_what_was_solved_before_changes_nothing(recipe: Recipe, earlier: Recipe) -> None:
    problem = recipe.question.problem
    before = replace(problem, pods=earlier.question.pods, volumes=earlier.question.problem.volumes)
    compiler = Compiler()

    solve(before, compiler=compiler)
    plan = solve(problem, compiler=compiler)

    assert written(solve(problem)) == written(plan)


@given(recipes(topology=False, limits=False, reservations=False))
@settings(max_examples=50, deadline=None)
def test_one_more_type_leaves_no_pod_behind(recipe: Recipe) -> None:
    richer = replace(recipe, types=recipe.types + 1)

    before = solve(recipe.question.problem)
    after = solve(richer.question.problem)

    assert set() == {u.pod for u in after.unplaced} - {u.pod for u in before.unplaced}


@given(crowds)
@settings(max_examples=15, deadline=None)
def test_pods_whose_turn_did_not_come_are_named_and_come_first_next_time(recipe: Recipe) -> None:
    problem = recipe.question.problem
    uids = {key_of(pod): pod.metadata.uid for pod in problem.pods}

    plan = solve(problem, has_time=lambda: False)
    late = list(plan.unevaluated)
    next_plan = solve(problem, has_time=lambda: False, first=[uids[name] for name in late])

    assert [] == [*accounting_violations(recipe.question.cluster, plan)]
    assert late
    assert [] == [name for name in late[:20] if name in next_plan.unevaluated]


def test_a_pool_that_is_sold_out_names_its_types_in_one_order() -> None:
    question = Recipe(seed=298958, kinds=(1, 4), pools=2, types=3).question

    plan = solve(question.problem)

    assert plan.empty_pools
    assert written(plan) == written(solve(question.shuffled(Random(1)).problem))
