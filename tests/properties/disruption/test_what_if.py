"""Asking a compiled cluster what if machines went gives what planning without them gives."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.random_clusters import Recipe, recipes
from karpenter.scheduling.plan import Plan, PlannedClaim
from karpenter.scheduling.problem import Problem
from karpenter.scheduling.solve import solve
from karpenter.scheduling.what_if import MovablePod, Outcome, WhatIf
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.nodes import StateNode


def movers_of(problem: Problem) -> list[MovablePod]:
    """The pending pods, those that must leave anyway, and every pod that could, with its home."""
    waiting = [MovablePod(pod, is_pending=True) for pod in problem.pods]
    waiting += [
        MovablePod(pod)
        for machine in problem.nodes
        if machine.is_deleting and machine.node is not None
        for pod in machine.pods
        if is_reschedulable(pod)
    ]
    taken = {mover.pod.metadata.uid for mover in waiting}
    moving = [
        MovablePod(pod, home=machine.name)
        for machine in candidates(problem)
        for pod in machine.pods
        if is_reschedulable(pod) and pod.metadata.uid not in taken
    ]
    return [*waiting, *moving]


def candidates(problem: Problem) -> list[StateNode]:
    """Machines that could go; names are shared by none of them."""
    names = [machine.name for machine in problem.nodes]
    return [
        machine
        for machine in problem.nodes
        if machine.node is not None and not machine.is_deleting and names.count(machine.name) == 1
    ]


def planned_without(
    problem: Problem, movers: Sequence[MovablePod], going: Sequence[StateNode]
) -> Plan:
    """The slow way: a problem without the machines, planned from nothing."""
    names = {machine.name for machine in going}
    pods = [mover.pod for mover in movers if not mover.home or mover.home in names]
    nodes = [machine for machine in problem.nodes if machine.name not in names]
    return solve(replace(problem, pods=pods, nodes=nodes))


def shown(claims: Sequence[PlannedClaim | None]) -> list[object]:
    """Claims as they can be compared; none is one that offers too little choice."""
    return [(c.node_pool, c.pods, c.instance_types, str(c.requirements)) for c in claims if c]


def answer_of(what_if: WhatIf, outcome: Outcome) -> tuple[object, object]:
    """An answer as it can be compared."""
    return shown([what_if.written(claim) for claim in outcome.claims]), dict(outcome.existing)


# a pod that keeps others away goes down with its machine: the others are free then
REPELLED: Final = Recipe(seed=1844407215, kinds=(1,), pools=2, types=3, nodes=5)

# a claim for the best domain of a spread uses up the limit that another pod would have needed
INSISTING: Final = Recipe(
    seed=3,
    kinds=(1, 1),
    pools=1,
    types=4,
    nodes=2,
    daemons=1,
    topology=True,
    limits=True,
    reservations=True,
)


@given(recipes(), st.integers(0, 10**6))
@example(REPELLED, 0)
@example(INSISTING, 0)
@settings(max_examples=150, deadline=None)
def test_a_what_if_answers_as_a_plan_without_the_machines_would(recipe: Recipe, seed: int) -> None:
    problem = recipe.question.problem
    going = candidates(problem)
    Random(seed).shuffle(going)
    movers = movers_of(problem)
    everything = replace(problem, pods=[mover.pod for mover in movers])
    what_if = WhatIf(everything, movers)

    for machines in [[machine] for machine in going[:3]] + [going[:2], going[:3]]:
        outcome = what_if.without(machines, is_strict=problem.options.strict_reservations)

        plan = planned_without(everything, movers, machines)
        assert (shown(plan.claims), dict(plan.existing)) == answer_of(what_if, outcome)


def test_the_property_is_not_about_nothing() -> None:
    moved = 0
    for seed in range(40):
        problem = Recipe(seed=seed, kinds=(3, 3, 3), pools=2, types=4, nodes=5).question.problem
        moved += sum(bool(mover.home) for mover in movers_of(problem))

    assert moved > 40
