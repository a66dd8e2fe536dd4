"""Machines that exist or are on their way: when pods go there instead of to a new one."""

import pytest

from helpers.builders import (
    APP_T,
    launching_node,
    managed_node,
    node,
    node_claim,
    node_pool,
    pod,
    pod_term,
    pods,
    taint,
    toleration,
    unmanaged_node,
)
from helpers.solver import solved
from karpenter.api.nodes import Taint
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

NOT_READY = taint("node.kubernetes.io/not-ready:NoSchedule")
NOT_READY_AT_ALL = taint("node.kubernetes.io/not-ready:NoExecute")
UNREACHABLE = taint("node.kubernetes.io/unreachable:NoSchedule")
CLOUD_UNINITIALIZED = taint("node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule")
READINESS = taint("readiness.k8s.io/x:NoSchedule")
STARTUP = taint("setup=pending:NoSchedule")
PASSING = [NOT_READY, NOT_READY_AT_ALL, UNREACHABLE, CLOUD_UNINITIALIZED, READINESS, STARTUP]
NAMES = [f"{t.key} {t.effect}" for t in PASSING]
GPU = {"acme/gpu-a": "2"}


@pytest.mark.case("SCH-213")
def test_somebody_elses_machine_with_room_is_used() -> None:
    answer = solved([pod("p", cpu="1")], nodes=[unmanaged_node("n")])

    assert {"n": ["p"]} == answer.existing
    assert () == answer.claims


@pytest.mark.case("SCH-214")
def test_a_machine_that_is_launching_is_used() -> None:
    answer = solved(pods(2, "p", cpu="1"), nodes=[launching_node("n", cpu="2")])

    assert {"n": ["p-0", "p-1"]} == answer.existing
    assert () == answer.claims


@pytest.mark.case("SCH-214")
def test_what_no_longer_fits_on_a_launching_machine_goes_elsewhere() -> None:
    answer = solved(pods(3, "p", cpu="1"), nodes=[launching_node("n", cpu="2")])

    assert {"n": ["p-0", "p-1"]} == answer.existing
    assert [1] == answer.loads


@pytest.mark.case("SCH-215")
@pytest.mark.parametrize("passing", PASSING, ids=NAMES)
def test_a_starting_machine_is_used_despite_a_taint_that_will_pass(passing: Taint) -> None:
    starting = managed_node(
        "n", initialized=False, taints=[passing], startup_taints=[taint("setup:NoSchedule")]
    )

    answer = solved([pod("p")], nodes=[starting])

    assert {"n": ["p"]} == answer.existing


@pytest.mark.case("SCH-215")
def test_a_starting_machine_is_not_used_despite_a_taint_that_stays() -> None:
    starting = managed_node("n", initialized=False, taints=[NOT_READY, taint("a:NoSchedule")])

    answer = solved([pod("p")], nodes=[starting])

    assert {} == answer.existing
    assert 1 == len(answer.claims)


@pytest.mark.case("SCH-216")
@pytest.mark.parametrize("returned", PASSING, ids=NAMES)
def test_the_same_taint_counts_once_the_machine_is_initialized(returned: Taint) -> None:
    ready = managed_node("n", taints=[returned], startup_taints=[STARTUP])

    answer = solved([pod("p")], nodes=[ready])

    assert {} == answer.existing
    assert 1 == len(answer.claims)


@pytest.mark.case("SCH-216")
def test_a_pod_that_tolerates_the_taint_goes_there() -> None:
    ready = managed_node("n", taints=[NOT_READY])

    answer = solved([pod("p", tolerations=[toleration(NOT_READY.key)])], nodes=[ready])

    assert {"n": ["p"]} == answer.existing


@pytest.mark.case("SCH-217")
def test_somebody_elses_machine_that_is_not_ready_is_not_used() -> None:
    answer = solved([pod("p")], nodes=[unmanaged_node("n", taints=[NOT_READY])])

    assert {} == answer.existing
    assert 1 == len(answer.claims)


@pytest.mark.case("SCH-218")
@pytest.mark.parametrize(
    ("initialized", "reported", "is_used"),
    [
        pytest.param(False, {"acme/gpu-a": "0"}, True, id="none are reported yet"),
        pytest.param(False, {}, True, id="nothing is reported yet"),
        pytest.param(True, {"acme/gpu-a": "0"}, False, id="once initialized none means none"),
        pytest.param(False, {"acme/gpu-a": "1"}, True, id="one is reported and one is enough"),
    ],
)
def test_what_a_starting_machine_was_promised_to_have(
    initialized: bool, reported: dict[str, str], is_used: bool
) -> None:
    starting = StateNode(
        node=node("n", initialized=initialized, resources=reported),
        node_claim=node_claim("n", resources=GPU),
    )

    answer = solved([pod("p", requests={"acme/gpu-a": "1"})], nodes=[starting])

    assert ({"n": ["p"]} if is_used else {}) == answer.existing


@pytest.mark.case("SCH-219")
def test_a_machine_that_is_ready_comes_before_those_that_start() -> None:
    starting = [managed_node(f"a-{n:02}", initialized=False) for n in range(99)]

    answer = solved([pod("p")], nodes=[*starting, managed_node("z")])

    assert {"z": ["p"]} == answer.existing


def test_machines_alike_are_tried_by_name() -> None:
    answer = solved([pod("p")], nodes=[managed_node("b"), managed_node("a"), managed_node("c")])

    assert {"a": ["p"]} == answer.existing


@pytest.mark.case("SCH-220")
def test_a_pod_of_a_departing_machine_gets_a_new_one() -> None:
    held = pod("p", node_name="n", cpu="1")

    answer = solved([held], nodes=[managed_node("n", pods=[held], marked=True)])

    assert {} == answer.existing
    assert ("default/p",) == answer.only.pods


@pytest.mark.case("SCH-220")
def test_a_pod_of_a_departing_machine_goes_to_one_that_stays() -> None:
    held = pod("p", node_name="leaving", cpu="1")
    nodes = [managed_node("leaving", pods=[held], marked=True), managed_node("staying")]

    answer = solved([held], nodes=nodes)

    assert {"staying": ["p"]} == answer.existing


@pytest.mark.case("SCH-220")
def test_a_departing_machine_does_not_count_against_the_limits() -> None:
    held = pod("p", node_name="n", cpu="1")

    answer = solved(
        [held],
        nodes=[managed_node("n", pods=[held], marked=True, cpu="16")],
        pools=[node_pool(limits={"cpu": "16"})],
    )

    assert ["p"] == answer.placed


@pytest.mark.case("SCH-220")
def test_pods_that_avoid_one_another_move_to_machines_of_their_own() -> None:
    held = pods(2, "p", labels=APP_T, anti_affinity=[pod_term()], node_name="n")

    answer = solved(held, nodes=[managed_node("n", pods=held, marked=True)])

    assert [1, 1] == answer.loads


@pytest.mark.case("SCH-225")
@pytest.mark.parametrize(
    ("zone", "existing"),
    [
        pytest.param("", {}, id="a machine that does not say where it is is not used"),
        pytest.param("z1", {"n": ["p"]}, id="a machine in the zone is used"),
        pytest.param("z2", {}, id="a machine in another zone is not used"),
    ],
)
def test_a_pod_that_may_go_to_one_zone_only(zone: str, existing: dict[str, list[str]]) -> None:
    answer = solved(
        [pod("p", node_selector={keys.ZONE: "z1"})], nodes=[unmanaged_node("n", zone=zone)]
    )

    assert existing == answer.existing
    assert (0 if existing else 1) == len(answer.claims)


def test_pods_that_run_take_their_room() -> None:
    held = [pod("held", cpu="12", node_name="n")]

    answer = solved([pod("a", cpu="3"), pod("b", cpu="3")], nodes=[managed_node("n", pods=held)])

    assert {"n": ["a"]} == answer.existing
    assert [1] == answer.loads


def test_an_overdrawn_machine_takes_not_even_a_pod_without_requests() -> None:
    held = [pod("held", cpu="17", node_name="n")]

    answer = solved([pod("p")], nodes=[managed_node("n", pods=held, cpu="16")])

    assert {} == answer.existing
