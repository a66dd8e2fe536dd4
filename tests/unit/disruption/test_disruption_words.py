"""What users are told: about machines that stay, and about commands that are begun."""

from datetime import datetime, timedelta
from typing import Final

import pytest

from helpers.builders import NOW, condition, launching_node, unmanaged_node
from helpers.disruption import context_of, found_by, going, only, planned
from helpers.disruption_objects import (
    LONG_AGO,
    ON_DEMAND_ONLY,
    kind,
    machine,
    pdb_of,
    pod_on,
    pods_on,
    pool,
)
from karpenter.api.karpenter import NodePool
from karpenter.api.policy import PodDisruptionBudget
from karpenter.disruption.candidates import Blocked, Kind
from karpenter.disruption.events import announced_command, saved
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

DRIFTED: Final = condition("Drifted", at=LONG_AGO)
NOWHERE: Final = {keys.ZONE: "z9"}


@pytest.mark.parametrize(
    ("found", "detail"),
    [
        pytest.param(unmanaged_node("n1"), "it has no NodeClaim, so it is not ours", id="DIS-97"),
        pytest.param(launching_node("n1"), "its node has not appeared yet", id="DIS-98"),
        pytest.param(
            machine("n1", initialized=False), "it is not initialized", id="DIS-99 registered"
        ),
        pytest.param(
            machine("n1", registered=False, initialized=False),
            "it is neither initialized nor registered",
            id="DIS-99 not even registered",
        ),
        pytest.param(machine("n1", deleted=NOW), "it is on its way out", id="DIS-100"),
        pytest.param(
            machine("n1", nominated_until=NOW + timedelta(seconds=15)),
            "pods are expected on it",
            id="DIS-101",
        ),
        pytest.param(
            machine("n1", annotations={keys.DO_NOT_DISRUPT: "true"}),
            "the node has the annotation karpenter.sh/do-not-disrupt",
            id="DIS-102",
        ),
        pytest.param(
            machine("n1", pool=""), "it has no label karpenter.sh/nodepool", id="DIS-104 of no pool"
        ),
        pytest.param(machine("n1", pool="gone"), "there is no NodePool gone", id="DIS-105"),
        pytest.param(
            machine("n1", claim_conditions=[condition("Rebooting")]),
            "it is being rebooted",
            id="V15-D36",
        ),
    ],
)
def test_why_a_machine_is_no_candidate(found: StateNode, detail: str) -> None:
    assert detail == _said_of(found)


@pytest.mark.case("DIS-120")
def test_a_machine_in_a_command_is_said_to_be() -> None:
    found = context_of(machine("n1"), in_progress=["n1"]).standing(Kind.GRACEFUL)["n1"]

    assert isinstance(found, Blocked)
    assert "it is being disrupted already" == found.detail


@pytest.mark.parametrize(
    ("pdbs", "detail"),
    [
        pytest.param(
            [pdb_of(0, namespace="")],
            "PDB default/pdb allows 0 of 2 for pod default/p",
            id="DIS-115 a budget of no namespace is one of the default namespace",
        ),
        pytest.param(
            [pdb_of(5, name="b"), pdb_of(5, name="a")],
            "pod default/p is selected by several budgets: a, b",
            id="DIS-117 several budgets are all named",
        ),
    ],
)
def test_which_budget_of_pods_holds_a_machine(pdbs: list[PodDisruptionBudget], detail: str) -> None:
    assert detail == _said_of(machine("n1", pod_on("p")), pdbs)


def test_a_budget_of_pods_is_named_with_its_namespace() -> None:
    found = _said_of(machine("n1", pod_on("p", namespace="prod")), [pdb_of(0, namespace="prod")])

    assert "PDB prod/pdb allows 0 of 2 for pod prod/p" == found


@pytest.mark.case("DIS-173")
@pytest.mark.parametrize(
    ("count", "detail"),
    [
        pytest.param(3, "no place for default/p-0, default/p-1, default/p-2", id="three by name"),
        pytest.param(
            5, "no place for default/p-0, default/p-1, default/p-2 and 2 more", id="not all of many"
        ),
    ],
)
def test_pods_without_a_place_are_named(count: int, detail: str) -> None:
    crowd = reversed(pods_on(count, "p", cpu="100m", node_selector=NOWHERE))

    found = found_by("single", machine("n1", *crowd))

    assert ([], detail) == (going(found), found.verdicts["n1"].detail)


@pytest.mark.case("DIS-214")
def test_what_is_not_worth_it_is_refused_in_silence() -> None:
    weighing = pool(requirements=ON_DEMAND_ONLY, policy="Balanced")
    busy = machine("n1", *pods_on(8, "p", cpu="800m"), instance_type="s8")

    found = found_by("single", busy, pools=[weighing], types=[kind("s7", 7), kind("s8", 8)])

    verdict = found.verdicts["n1"]
    assert "saving $0.1000/h is not worth it: score 0.12 of NodePool np is below 0.50" == (
        verdict.detail
    )
    assert not verdict.has_event


@pytest.mark.parametrize(
    ("last_event", "detail", "has_event"),
    [
        pytest.param(
            NOW - timedelta(seconds=10),
            "its pods changed too lately; NodePool np waits until",
            False,
            id="DIS-162 within its window",
        ),
        pytest.param(
            NOW - timedelta(hours=1),
            "it is not marked as consolidatable yet",
            False,
            id="DIS-163 after its window, before somebody said so",
        ),
        pytest.param(
            NOW + timedelta(minutes=1),
            "its pods changed too lately; NodePool np waits until",
            False,
            id="a clock that runs a minute fast is a clock",
        ),
        pytest.param(
            NOW + timedelta(minutes=2),
            "which has not come yet: a clock was wrong",
            True,
            id="a clock that runs faster is wrong",
        ),
    ],
)
def test_why_a_machine_is_left_in_peace(last_event: datetime, detail: str, has_event: bool) -> None:
    waiting = machine("n1", pod_on("p"), without=["Consolidatable"], last_pod_event=last_event)

    verdict = found_by("single", waiting, pools=[pool(after="30s")]).verdicts["n1"]

    assert detail in verdict.detail
    assert has_event == verdict.has_event


def test_an_empty_machine_is_left_to_emptiness_in_silence() -> None:
    verdict = found_by("single", machine("n1")).verdicts["n1"]

    assert ("NothingToDo", "it is empty", False) == (
        verdict.why,
        verdict.detail,
        verdict.has_event,
    )


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        pytest.param(
            pool(policy="WhenTired"),
            "NodePool np has the unknown consolidation policy 'WhenTired'",
            id="a policy nobody knows",
        ),
        pytest.param(
            pool(after="soon"),
            "NodePool np consolidates after 'soon', which is no duration",
            id="no time",
        ),
        pytest.param(
            pool(after="-1ns"),
            "NodePool np consolidates after '-1ns', which is no duration",
            id="less than no time",
        ),
    ],
)
def test_no_node_goes_on_a_guess(wanted: NodePool, detail: str) -> None:
    empty = found_by("empty", machine("n1"), pools=[wanted])
    single = found_by("single", machine("n1", pod_on("p")), pools=[wanted])

    assert ([], []) == (going(empty), going(single))
    assert ((detail, False), (detail, True)) == (
        (empty.verdicts["n1"].detail, empty.verdicts["n1"].has_event),
        (single.verdicts["n1"].detail, single.verdicts["n1"].has_event),
    )


@pytest.mark.parametrize(
    "method", [pytest.param("drift", id="drift"), pytest.param("empty", id="emptiness")]
)
def test_only_consolidation_is_announced(method: str) -> None:
    on = [pod_on("p")] if method == "drift" else []
    command = only(found_by(method, machine("n1", *on, claim_conditions=[DRIFTED])))

    assert [] == announced_command(command)


@pytest.mark.case("DIS-219")
def test_what_pools_are_told_of_a_move_of_several() -> None:
    pools = [pool(name, requirements=ON_DEMAND_ONLY, policy="Balanced") for name in ("b", "a")]
    nodes = [machine(f"{name}1", pod_on(f"p-{name}"), pool=name) for name in ("a", "b")]

    events = planned(*nodes, unmanaged_node("other"), pools=pools).events

    message = "score 1.00 >= threshold 0.50 (k: 2, savings 100.0%, disruption 100.0%)"
    assert [
        ("NodePool/a", "ConsolidationApproved", message, False),
        ("NodePool/b", "ConsolidationApproved", message, False),
    ] == [(each.target, each.reason, each.message, each.is_warning) for each in events]


def test_a_claim_of_no_pool_that_expires_has_a_nameless_one() -> None:
    (command,) = planned(machine("n1", pool="", expire_after="1h")).commands

    (candidate,) = command.candidates
    assert ("", False, "") == (candidate.pool, command.is_static, command.about)


def _said_of(found: StateNode, pdbs: list[PodDisruptionBudget] | None = None) -> str:
    verdict = context_of(found, pdbs=pdbs or []).standing(Kind.GRACEFUL)["n1"]
    assert isinstance(verdict, Blocked)
    return verdict.detail


def test_what_nobody_can_price_saves_nobody_knows_what() -> None:
    priceless = machine("n1", pod_on("a"), labels=NOWHERE)

    command = only(found_by("single", priceless, unmanaged_node("big")))

    assert "(savings: unknown)" == saved(command)


def test_a_pool_that_weighs_savings_says_that_it_knows_none() -> None:
    weighing = [pool(policy="Balanced")]
    priceless = machine("n1", pod_on("a"), labels=NOWHERE)

    found = found_by("single", priceless, unmanaged_node("big"), pools=weighing)

    said = "even removing it would score 0.00, below 0.50, because its price is unknown"
    assert [said] == [verdict.detail for verdict in found.verdicts.values()]
