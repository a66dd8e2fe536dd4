"""Machines are looked at again exactly when something about them has changed."""

from dataclasses import replace

import pytest

from helpers.builders import APP_T, daemon_set, managed_node, pod, pod_term
from helpers.solver import question
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.problem import BoundVolumes, Problem
from karpenter.scheduling.solve import solve

APART = pod_term(APP_T, keys.HOSTNAME)

# A pod that keeps away from its likes, and two machines of which the first is smaller
ASKED = question(
    [pod("new", cpu="1", labels=APP_T, anti_affinity=[APART])],
    nodes=[managed_node("a", cpu="2"), managed_node("b", cpu="4")],
)


def with_smaller_machine() -> Problem:
    return replace(ASKED, nodes=(managed_node("a", cpu="500m"), *ASKED.nodes[1:]))


def with_neighbour() -> Problem:
    neighbour = pod("old", labels=APP_T, anti_affinity=[APART], node_name="a")
    return replace(ASKED, nodes=(managed_node("a", cpu="2", pods=[neighbour]), ASKED.nodes[1]))


def with_daemon() -> Problem:
    daemons = question([], daemon_sets=[daemon_set(cpu="1500m")]).daemons
    return replace(ASKED, daemons=daemons)


def test_machines_that_did_not_change_are_not_looked_at_again() -> None:
    compiler = Compiler()

    first = CompiledProblem(ASKED, compiler).nodes

    assert first is CompiledProblem(ASKED, compiler).nodes


def test_volumes_that_were_attached_since_are_seen() -> None:
    compiler = Compiler()
    CompiledProblem(ASKED, compiler)
    attached = BoundVolumes({"ebs": frozenset({"default/data"})})

    index = CompiledProblem(replace(ASKED, node_volumes={"a": attached}), compiler).nodes

    assert [attached.attached, {}] == [target.attached for target in index.targets]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(ASKED, {"a": ("default/new",)}, id="nothing: the first machine serves"),
        pytest.param(with_smaller_machine(), {"b": ("default/new",)}, id="the first shrank"),
        pytest.param(
            with_neighbour(), {"b": ("default/new",)}, id="a pod it avoids came to the first"
        ),
        pytest.param(with_daemon(), {"b": ("default/new",)}, id="a daemon will fill the first"),
        pytest.param(
            replace(ASKED, nodes=ASKED.nodes[1:]), {"b": ("default/new",)}, id="the first left"
        ),
    ],
)
def test_a_plan_follows_what_changed(
    changed: Problem, expected: dict[str, tuple[str, ...]]
) -> None:
    compiler = Compiler()
    solve(ASKED, compiler=compiler)

    plan = solve(changed, compiler=compiler)

    assert expected == plan.existing


def test_labels_that_changed_are_seen() -> None:
    compiler = Compiler()
    CompiledProblem(ASKED, compiler)
    relabelled = managed_node("a", cpu="2", labels={"tier": "slow"})

    index = CompiledProblem(replace(ASKED, nodes=(relabelled, ASKED.nodes[1])), compiler).nodes

    assert {"slow": 1} == index.domains("tier")
