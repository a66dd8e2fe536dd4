"""A pass that runs out of time says whom it did not come to, and the next begins with them."""

from helpers.builders import pods
from helpers.solver import question, time_for
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.solve import solve


def test_pods_whose_turn_did_not_come_are_reported_as_such() -> None:
    waiting = pods(300, cpu="10m")

    plan = solve(question(waiting), has_time=time_for(1))

    placed = {name for claim in plan.claims for name in claim.pods}
    assert plan.unevaluated
    assert placed
    assert 300 == len(placed) + len(plan.unevaluated)
    assert not placed & set(plan.unevaluated)
    assert () == plan.unplaced


def test_the_next_pass_begins_with_the_pods_the_last_one_did_not_come_to() -> None:
    waiting = pods(300, cpu="10m")
    first = solve(question(waiting), has_time=time_for(1))
    uid_of = {f"default/{pod.metadata.name}": pod.metadata.uid for pod in waiting}
    left_over = [uid_of[name] for name in first.unevaluated]

    second = solve(question(waiting), has_time=time_for(1), first=left_over)

    placed_second = {name for claim in second.claims for name in claim.pods}
    assert placed_second <= set(first.unevaluated)


def test_enough_passes_come_to_every_pod() -> None:
    waiting = pods(300, cpu="10m")
    uid_of = {f"default/{pod.metadata.name}": pod.metadata.uid for pod in waiting}
    seen: set[str] = set()
    left_over: list[str] = []

    for _ in range(6):
        plan = solve(question(waiting), has_time=time_for(1), first=left_over)
        seen |= {name for claim in plan.claims for name in claim.pods}
        left_over = [uid_of[name] for name in plan.unevaluated]

    assert set(uid_of) == seen


def test_identical_pods_are_one_class() -> None:
    world = CompiledProblem(question(pods(500, cpu="10m")))

    assert 1 == len(world.classes)
