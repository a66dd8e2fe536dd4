"""What articles about Karpenter promise of removing nodes, as far as it is decided and not done."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import NOW, condition, owner
from helpers.disruption import decided, going, only, planned
from helpers.disruption_objects import (
    LONG_AGO,
    ON_DEMAND_ONLY,
    kind,
    machine,
    on_demand,
    pod_on,
    pool,
)
from karpenter.api.karpenter import Budget
from karpenter.model import labels as keys

MONTH: Final = timedelta(seconds=2_592_000)
SECOND: Final = timedelta(seconds=1)
DRIFTED: Final = condition("Drifted", at=LONG_AGO)


@pytest.mark.row("S0-24", "S0-39", "S1-33", "S2-31")
@pytest.mark.parametrize(
    ("age", "names"),
    [
        pytest.param(MONTH - SECOND, [], id="kept a second before"),
        pytest.param(MONTH, ["n1"], id="gone on time, busy or not"),
    ],
)
def test_a_node_expires_a_month_after_its_creation(age: timedelta, names: list[str]) -> None:
    node = machine("n1", pod_on("p"), created=NOW - age, expire_after="2592000s")

    assert names == going(planned(node, pools=[pool(after="Never")]))


@pytest.mark.row("S0-27", "S1-34", "S2-29", "S2-73")
@pytest.mark.parametrize(("seconds", "names"), [(29, []), (30, ["n1"])])
def test_an_empty_node_goes_half_a_minute_after_its_last_pod(
    seconds: int, names: list[str]
) -> None:
    left = NOW - seconds * SECOND
    node = machine("n1", without=["Consolidatable"], last_pod_event=left)

    assert names == going(planned(node, pools=[pool(policy="WhenEmpty", after="30s")]))


@pytest.mark.row("S0-28")
def test_daemons_do_not_count() -> None:
    node = machine("n1", pod_on("logs", owners=[owner("DaemonSet", "logs")]))

    assert ["n1"] == going(decided(node))


@pytest.mark.row("S1-08")
def test_two_nodes_become_one_that_is_cheaper_than_both() -> None:
    types = [kind("one", 2, ways=[on_demand(1.0)]), kind("more", 4, ways=[on_demand(1.4)])]
    nodes = [
        machine(f"n{n}", pod_on(f"p{n}", cpu="1500m"), instance_type="one", types=types)
        for n in range(2)
    ]

    command = only(decided(*nodes, types=types))

    assert ("multi", {"n0", "n1"}) == (command.method, set(command.names))
    (claim,) = command.replacements
    assert (("more",), 2) == (claim.instance_types, len(claim.pods))
    assert 0.6 == pytest.approx(command.savings)


@pytest.mark.row("S1-32", "S2-05")
def test_a_half_used_node_becomes_half_the_size() -> None:
    node = machine("n1", pod_on("p", cpu="3500m"), instance_type="s8")

    command = only(decided(node, pools=[pool(requirements=ON_DEMAND_ONLY)]))

    assert ("replace", ("s4",)) == (command.decision, command.replacements[0].instance_types)


@pytest.mark.row("S2-04")
def test_a_node_whose_pods_fit_beside_others_goes() -> None:
    nodes = [machine("a", pod_on("p", cpu="1")), machine("b", pod_on("q", cpu="2800m"))]

    command = only(decided(*nodes, pools=[pool(requirements=ON_DEMAND_ONLY)]))

    assert ("delete", ("a",), {"b": ("default/p",)}) == (
        command.decision,
        command.names,
        command.placements,
    )


@pytest.mark.row("S2-08")
def test_a_load_test_is_left_in_peace() -> None:
    calm = pool(after="Never", requirements=ON_DEMAND_ONLY)
    nodes = [
        machine("a", pod_on("p"), instance_type="s32"),
        machine("b"),
        machine("c", pod_on("q")),
    ]

    assert [] == going(planned(*nodes, pools=[calm]))


@pytest.mark.row("S2-25")
@pytest.mark.parametrize(
    ("budget", "names"),
    [
        pytest.param(Budget(nodes="100%"), ["n1"], id="an edited pool replaces its nodes"),
        pytest.param(Budget(nodes="0", reasons=("Drifted",)), [], id="unless a budget forbids it"),
    ],
)
def test_nodes_of_an_edited_pool(budget: Budget, names: list[str]) -> None:
    node = machine("n1", pod_on("p"), claim_conditions=[DRIFTED])

    assert names == going(planned(node, pools=[pool(after="Never", budgets=[budget])]))


@pytest.mark.row("S2-32")
def test_two_half_nodes_become_one_and_cost_less() -> None:
    nodes = [machine(f"n{n}", pod_on(f"p{n}", cpu="1800m")) for n in range(2)]

    plan = planned(*nodes, pools=[pool(requirements=ON_DEMAND_ONLY)])

    assert 1 == len(going(plan))
    assert 0.4 == pytest.approx(plan.commands[0].savings)


@pytest.mark.row("S2-103")
@pytest.mark.parametrize("said", [[], [DRIFTED]], ids=["not consolidated", "not drifted"])
def test_a_long_job_is_not_disturbed(said: list[object]) -> None:
    job = pod_on("job", annotations={keys.DO_NOT_DISRUPT: "true"})
    node = machine("n1", job, instance_type="s32", claim_conditions=said)  # type: ignore[arg-type]

    plan = planned(node)

    assert [] == going(plan)
    assert {("Node/n1", "DisruptionBlocked"), ("NodeClaim/n1", "DisruptionBlocked")} == {
        (event.target, event.reason) for event in plan.events
    }
