"""What pools and machines say about a pod agrees with where the solver put it."""

from hypothesis import HealthCheck, given, settings

from helpers.random_clusters import Recipe, recipes
from karpenter.scheduling.reasons.pod_verdicts import SolveCapture, pod_verdicts
from karpenter.scheduling.solve import solve
from karpenter.state.pods import key_of

SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(recipes())
def test_nobody_would_take_a_pod_that_fits_nowhere(recipe: Recipe) -> None:
    captured = SolveCapture()
    solve(recipe.question.problem, witness=captured)
    if captured.compiled is None or captured.attempt is None:
        return

    for position in captured.attempt.packing.failed:
        verdicts = pod_verdicts(captured.compiled, captured.attempt, position)

        assert [] == [pool.node_pool for pool in verdicts.pools if pool.is_possible]
        assert () == verdicts.nodes.possible
        assert not any(preference.is_met for preference in verdicts.preferences)


@SETTINGS
@given(recipes())
def test_who_took_a_pod_would_take_it(recipe: Recipe) -> None:
    captured = SolveCapture()
    plan = solve(recipe.question.problem, witness=captured)
    if captured.compiled is None or captured.attempt is None:
        return
    positions = {key_of(pod): at for at, pod in enumerate(captured.compiled.problem.pods)}

    for machine, names in plan.existing.items():
        for name in names:
            verdicts = pod_verdicts(captured.compiled, captured.attempt, positions[name])
            assert machine in verdicts.nodes.possible
    for claim in plan.claims:
        for name in claim.pods:
            verdicts = pod_verdicts(
                captured.compiled, captured.attempt, positions[name], claim.launch
            )
            (pool,) = [pool for pool in verdicts.pools if pool.node_pool == claim.node_pool]
            assert pool.is_possible
            assert all(check.passed for check in pool.checks)
