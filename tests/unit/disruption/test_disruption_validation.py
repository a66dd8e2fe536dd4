"""Group J: whether a command still holds after the wait."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import NOW, unmanaged_node
from helpers.disruption import context_of, decided, found_by, only
from helpers.disruption_objects import (
    OD_POOL,
    ON_DEMAND_ONLY,
    machine,
    pdb_of,
    pod_on,
    pods_on,
    pool,
)
from karpenter.disruption.commands import Command
from karpenter.disruption.plan import Search, next_commands
from karpenter.disruption.validation import validated
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

LATER: Final = NOW + timedelta(seconds=15)
SOON: Final = LATER + timedelta(seconds=5)


def two_empty() -> Command:
    return only(decided(machine("n1"), machine("n2")))


def replacement() -> Command:
    command = only(
        found_by("single", machine("n1", pod_on("a"), instance_type="s8"), pools=[OD_POOL])
    )
    assert command.replacements
    return command


def others(name: str) -> list[StateNode]:
    """A machine with room for more."""
    return [machine(name, *pods_on(3, f"p-{name}"))]


def deletion() -> Command:
    nodes = [machine("n1", pod_on("a")), *others("b"), *others("c")]
    command = only(found_by("single", *nodes, pools=[OD_POOL]))
    assert ("delete", ("n1",)) == (command.decision, command.names)
    return command


def test_a_cluster_at_rest_confirms_a_command() -> None:
    fresh = context_of(machine("n1"), machine("n2"), now=LATER)

    found = validated(two_empty(), fresh)

    assert found.command is not None
    assert (("n1", "n2"), "", ()) == (found.command.names, found.failure, found.lost)


@pytest.mark.case("DIS-150")
def test_an_empty_machine_that_got_a_pod_stays_and_the_other_goes() -> None:
    fresh = context_of(machine("n1", pod_on("new")), machine("n2"), now=LATER)

    found = validated(two_empty(), fresh)

    assert found.command is not None
    assert (("n2",), ("n1",)) == (found.command.names, found.lost)
    assert 0.4 == pytest.approx(found.command.savings)


@pytest.mark.case("DIS-151")
def test_an_empty_machine_that_pods_are_expected_on_stays() -> None:
    command = only(decided(machine("n1")))

    found = validated(command, context_of(machine("n1", nominated_until=SOON), now=LATER))

    assert (None, "nominated", ("n1",)) == (found.command, found.failure, found.lost)


def test_an_empty_machine_that_is_gone_is_lost() -> None:
    found = validated(only(decided(machine("n1"))), context_of(now=LATER))

    assert (None, "churn", ("n1",)) == (found.command, found.failure, found.lost)


def test_empty_machines_beyond_the_budget_stay() -> None:
    fresh = context_of(machine("n1"), machine("n2"), pools=[pool(budgets=["1"])], now=LATER)

    found = validated(two_empty(), fresh)

    assert found.command is not None
    assert (("n1",), ("n2",)) == (found.command.names, found.lost)


def test_empty_machines_without_any_budget_stay() -> None:
    fresh = context_of(machine("n1"), machine("n2"), pools=[pool(budgets=["0"])], now=LATER)

    found = validated(two_empty(), fresh)

    assert (None, "budget") == (found.command, found.failure)
    assert ("budgets allow none of its nodes any more", ("n1", "n2")) == (found.detail, found.lost)


def test_a_replacement_that_still_holds_is_confirmed() -> None:
    fresh = context_of(machine("n1", pod_on("a"), instance_type="s8"), pools=[OD_POOL], now=LATER)

    found = validated(replacement(), fresh)

    assert found.command is not None
    assert replacement().replacements == found.command.replacements


def test_a_deletion_that_still_holds_is_confirmed_with_the_places_of_now() -> None:
    command = deletion()
    came = [machine("n1", pod_on("a"), pod_on("new")), *others("b"), *others("c")]

    found = validated(command, context_of(*came, pools=[OD_POOL], now=LATER))

    assert found.command is not None
    assert ["a", "new"] == [each.metadata.name for each in found.command.candidates[0].movable]
    assert {"b": ("default/a", "default/new")} == found.command.placements
    assert "" == found.failure


@pytest.mark.parametrize(
    ("nodes", "failure", "detail"),
    [
        pytest.param([machine("n2")], "churn", "n1 is gone", id="it is gone"),
        pytest.param(
            [machine("n1", pod_on("a"), nominated_until=SOON)],
            "nominated",
            "n1: pods are expected on it",
            id="pods are expected on it",
        ),
        pytest.param(
            [machine("n1", pod_on("a"), without=["Consolidatable"])],
            "churn",
            "n1: it is not marked as consolidatable yet",
            id="its pods changed",
        ),
    ],
)
def test_why_a_candidate_is_lost(nodes: list[StateNode], failure: str, detail: str) -> None:
    found = validated(deletion(), context_of(*nodes, *others("b"), pools=[OD_POOL], now=LATER))

    assert (None, failure, detail, ("n1",)) == (
        found.command,
        found.failure,
        found.detail,
        found.lost,
    )


def test_of_several_reasons_churn_is_counted() -> None:
    fresh = context_of(machine("n1", nominated_until=SOON), machine("n2", pod_on("new")), now=LATER)

    found = validated(two_empty(), fresh)

    assert ("churn", "none of its nodes is empty any more") == (found.failure, found.detail)


@pytest.mark.case("DIS-155")
def test_a_budget_that_allows_some_of_several_is_not_enough() -> None:
    nodes = [machine(name, pod_on(f"p-{name}")) for name in ("n1", "n2")]
    command = only(found_by("multi", *nodes, unmanaged_node("other"), pools=[OD_POOL]))
    tight = pool(requirements=ON_DEMAND_ONLY, budgets=["1"])

    found = validated(
        command, context_of(*nodes, unmanaged_node("other"), pools=[tight], now=LATER)
    )

    assert (None, "budget", "budgets allow it no more", ("n2",)) == (
        found.command,
        found.failure,
        found.detail,
        found.lost,
    )


@pytest.mark.case("DIS-154")
def test_pods_came_that_need_several_machines() -> None:
    came = [pod_on(f"new{zone}", node_selector={keys.ZONE: zone}) for zone in ("z1", "z2")]
    fresh = context_of(
        machine("n1", pod_on("a"), *came, instance_type="s8"), pools=[OD_POOL], now=LATER
    )

    found = validated(replacement(), fresh)

    assert ("scheduling", "2 new nodes would be needed now") == (found.failure, found.detail)


@pytest.mark.case("DIS-152")
def test_a_protected_pod_came() -> None:
    came = pod_on("new", annotations={keys.DO_NOT_DISRUPT: "true"})
    fresh = context_of(
        machine("n1", pod_on("a"), came, instance_type="s8"), pools=[OD_POOL], now=LATER
    )

    found = validated(replacement(), fresh)

    assert (None, "churn") == (found.command, found.failure)
    assert "default/new" in found.detail


@pytest.mark.case("DIS-153")
def test_a_pod_came_whose_budget_is_spent() -> None:
    came = pod_on("new", labels={"app": "held"})
    fresh = context_of(
        machine("n1", pod_on("a"), came, instance_type="s8"),
        pools=[OD_POOL],
        pdbs=[pdb_of(0, labels={"app": "held"})],
        now=LATER,
    )

    found = validated(replacement(), fresh)

    assert (None, "churn") == (found.command, found.failure)


@pytest.mark.case("DIS-154")
def test_a_pod_came_that_does_not_fit_what_was_decided() -> None:
    fresh = context_of(
        machine("n1", pod_on("a"), pod_on("new", cpu="3"), instance_type="s8"),
        pools=[OD_POOL],
        now=LATER,
    )

    found = validated(replacement(), fresh)

    assert (None, "scheduling", ()) == (found.command, found.failure, found.lost)
    assert "s1 would not do" in found.detail


def test_a_replacement_nobody_needs_any_more_is_not_made() -> None:
    fresh = context_of(
        machine("n1", pod_on("a"), instance_type="s8"),
        machine("n2", *pods_on(2, "b"), instance_type="s4"),
        pools=[OD_POOL],
        now=LATER,
    )

    found = validated(replacement(), fresh)

    assert ("scheduling", "no replacement is needed any more") == (found.failure, found.detail)


def test_a_deletion_that_would_need_a_new_machine_now_fails() -> None:
    nodes = [machine("n1", *pods_on(5, "a")), machine("n2", pod_on("b"))]
    command = only(found_by("single", *nodes, pools=[OD_POOL]))
    full = [machine("n1", *pods_on(7, "a")), machine("n2", pod_on("b"))]

    found = validated(command, context_of(*full, pools=[OD_POOL], now=LATER))

    assert (None, "scheduling") == (found.command, found.failure)


def test_a_pod_that_fits_nowhere_fails_it() -> None:
    came = pod_on("new", node_selector={keys.ZONE: "z9"})
    fresh = context_of(
        machine("n1", pod_on("a"), came, instance_type="s8"), pools=[OD_POOL], now=LATER
    )

    assert "no place for default/new" == validated(replacement(), fresh).detail


@pytest.mark.case("DIS-155")
def test_the_budget_was_closed() -> None:
    shut = pool(requirements=ON_DEMAND_ONLY, budgets=["0"])
    fresh = context_of(machine("n1", pod_on("a"), instance_type="s8"), pools=[shut], now=LATER)

    found = validated(replacement(), fresh)

    assert (None, "budget", ("n1",)) == (found.command, found.failure, found.lost)


@pytest.mark.case("DIS-156")
def test_after_several_one_is_tried_in_the_same_pass() -> None:
    nodes = [machine(f"n{n}", pod_on(f"p{n}"), instance_type="s8") for n in range(3)]
    search = Search(context_of(*nodes, pools=[OD_POOL]))

    first = next_commands(search)
    second = next_commands(search, skip={"repair", "empty", "static-drift", "drift", "multi"})

    assert ["multi", "single"] == [only(first).method, only(second).method]
