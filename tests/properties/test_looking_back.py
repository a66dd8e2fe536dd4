"""What pools and machines say about a pod agrees with where the solver put it."""

from hypothesis import HealthCheck, given, settings

from helpers.random_clusters import Recipe, recipes
from karpenter.scheduling.reasons.look_back import LookBack, look_at
from karpenter.scheduling.solve import solve
from karpenter.state.pods import key_of

SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(recipes())
def test_nobody_would_take_a_pod_that_fits_nowhere(recipe: Recipe) -> None:
    look_back = LookBack()
    solve(recipe.question.problem, witness=look_back)
    if look_back.compiled is None or look_back.attempt is None:
        return

    for position in look_back.attempt.packing.failed:
        sight = look_at(look_back.compiled, look_back.attempt, position)

        assert [] == [pool.node_pool for pool in sight.pools if pool.is_possible]
        assert () == sight.nodes.possible
        assert not any(wish.is_met for wish in sight.wishes)


@SETTINGS
@given(recipes())
def test_who_took_a_pod_would_take_it(recipe: Recipe) -> None:
    look_back = LookBack()
    plan = solve(recipe.question.problem, witness=look_back)
    if look_back.compiled is None or look_back.attempt is None:
        return
    positions = {key_of(pod): at for at, pod in enumerate(look_back.compiled.problem.pods)}

    for machine, names in plan.existing.items():
        for name in names:
            sight = look_at(look_back.compiled, look_back.attempt, positions[name])
            assert machine in sight.nodes.possible
    for claim in plan.claims:
        for name in claim.pods:
            sight = look_at(look_back.compiled, look_back.attempt, positions[name], claim.launch)
            (pool,) = [pool for pool in sight.pools if pool.node_pool == claim.node_pool]
            assert pool.is_possible
            assert all(check.passed for check in pool.checks)
