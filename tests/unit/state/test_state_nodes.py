"""A machine is described by its NodeClaim while it starts and by its Node once it is ready."""

from datetime import timedelta

import pytest

from helpers.builders import (
    NOW,
    condition,
    daemon_pod,
    daemon_set,
    launching_node,
    managed_node,
    node,
    node_claim,
    pod,
    taint,
    unmanaged_node,
)
from karpenter.api.meta import Condition
from karpenter.api.nodes import Taint
from karpenter.model import labels
from karpenter.model.resources import Resources
from karpenter.model.taints import format_taint
from karpenter.state.nodes import StateNode, nomination_window

CUSTOM = taint("team=a:NoSchedule")
REBOOTING = taint("karpenter.sh/rebooting:NoSchedule")


# Which object speaks


@pytest.mark.case("SCH-213")
def test_an_unmanaged_node_is_ready_and_takes_pods_as_it_is() -> None:
    machine = unmanaged_node("old", cpu="4", taints=[CUSTOM])

    assert machine.is_registered
    assert machine.is_initialized
    assert not machine.is_managed
    assert not machine.is_deleting
    assert "" == machine.node_pool
    assert (CUSTOM,) == machine.taints
    assert 4000 == machine.allocatable.cpu


@pytest.mark.parametrize(
    ("told", "is_ready"),
    [
        pytest.param([condition("Ready")], True, id="a Node that says so"),
        pytest.param([condition("DiskPressure"), condition("Ready")], True, id="whatever else"),
        pytest.param([condition("Ready", "False")], False, id="a Node that denies it"),
        pytest.param([condition("Ready", "Unknown")], False, id="a Node nobody hears of"),
        pytest.param([condition("DiskPressure")], False, id="another condition that holds"),
        pytest.param([], False, id="a Node that says nothing"),
    ],
)
def test_which_machines_are_ready(told: list[Condition], is_ready: bool) -> None:
    assert is_ready == managed_node("n", conditions=told).is_ready


def test_a_machine_without_a_node_is_not_ready() -> None:
    assert not launching_node("n").is_ready


@pytest.mark.case("SCH-214")
def test_a_launching_machine_is_what_its_claim_promises() -> None:
    machine = launching_node("claim-1", cpu="4", labels={"tier": "web"}, taints=[CUSTOM])

    assert "claim-1" == machine.name == machine.hostname
    assert "web" == machine.labels["tier"]
    assert (CUSTOM,) == machine.taints
    assert 4000 == machine.allocatable.cpu == machine.capacity.cpu
    assert not machine.is_registered


def test_the_claim_speaks_until_the_node_is_registered() -> None:
    machine = StateNode(
        node=node("real", registered=False, initialized=False, labels={"from": "node"}),
        node_claim=node_claim("claim", labels={"from": "claim"}, annotations={"a": "claim"}),
    )

    assert ("claim", "claim") == (machine.name, machine.hostname)
    assert "claim" == machine.labels["from"]
    assert {"a": "claim"} == machine.annotations


def test_the_node_speaks_once_it_is_registered() -> None:
    machine = StateNode(
        node=node("real", initialized=False, labels={"from": "node"}, annotations={"a": "node"}),
        node_claim=node_claim("claim", labels={"from": "claim"}, taints=[CUSTOM]),
    )

    assert ("real", "real") == (machine.name, machine.hostname)
    assert "node" == machine.labels["from"]
    assert {"a": "node"} == machine.annotations
    assert () == machine.taints


def test_the_hostname_label_comes_before_the_name() -> None:
    machine = unmanaged_node("node-1", labels={})
    labelled = StateNode(node=None, node_claim=node_claim("c", labels={labels.HOSTNAME: "host"}))

    assert "node-1" == machine.hostname
    assert "host" == labelled.hostname


# Sizes


@pytest.mark.case("SCH-218")
def test_a_resource_reported_as_zero_is_taken_from_the_claim_until_initialized() -> None:
    starting = StateNode(
        node=node("n", initialized=False, cpu="8", resources={"acme/gpu-a": "0"}),
        node_claim=node_claim("n", cpu="16", resources={"acme/gpu-a": "2", "acme/net": "1"}),
    )

    assert 8000 == starting.allocatable.cpu
    assert 2 == starting.allocatable["acme/gpu-a"]
    assert 1 == starting.allocatable["acme/net"]
    assert starting.allocatable == starting.capacity


def test_an_initialized_node_is_as_large_as_it_says() -> None:
    machine = StateNode(
        node=node("n", cpu="8"), node_claim=node_claim("n", cpu="16", resources={"acme/x": "1"})
    )

    assert 8000 == machine.allocatable.cpu
    assert 0 == machine.allocatable["acme/x"]


# Taints

STARTING = (
    "node.kubernetes.io/not-ready:NoSchedule",
    "node.kubernetes.io/not-ready:NoExecute",
    "node.kubernetes.io/unreachable:NoSchedule",
    "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
    "karpenter.sh/unregistered:NoExecute",
    "readiness.k8s.io/network:NoSchedule",
    "example.com/agent=starting:NoSchedule",
)
STARTUP = (taint("example.com/agent=expected:NoSchedule"),)  # compared by key and effect


@pytest.mark.case("SCH-215")
@pytest.mark.parametrize("text", STARTING)
def test_taints_of_a_starting_machine_keep_nobody_away(text: str) -> None:
    machine = managed_node(initialized=False, taints=[taint(text)], startup_taints=STARTUP)

    assert () == machine.taints


@pytest.mark.case("SCH-216")
@pytest.mark.parametrize("text", STARTING)
def test_the_same_taints_count_once_the_machine_is_initialized(text: str) -> None:
    machine = managed_node(taints=[taint(text)], startup_taints=STARTUP)

    assert [text] == [format_taint(each) for each in machine.taints]


@pytest.mark.case("SCH-217")
@pytest.mark.parametrize("text", STARTING)
def test_the_same_taints_count_on_an_unmanaged_node(text: str) -> None:
    machine = unmanaged_node(taints=[taint(text)])

    assert [text] == [format_taint(each) for each in machine.taints]


@pytest.mark.parametrize(
    "text",
    [
        "node.kubernetes.io/unreachable:NoExecute",
        "example.com/agent=starting:NoExecute",
        "x:NoSchedule",
    ],
)
def test_a_taint_that_does_not_belong_to_starting_counts_from_the_beginning(text: str) -> None:
    machine = managed_node(initialized=False, taints=[taint(text)], startup_taints=STARTUP)

    assert [text] == [format_taint(each) for each in machine.taints]


@pytest.mark.parametrize(
    ("status", "counting", "rebooting"),
    [
        pytest.param("True", (CUSTOM,), True, id="V15-S31 during a reboot its taint passes by"),
        pytest.param("False", (REBOOTING, CUSTOM), False, id="V15-S32 after it, both count"),
        pytest.param("", (REBOOTING, CUSTOM), False, id="without one, both count"),
    ],
)
def test_reboots(status: str, counting: tuple[Taint, ...], rebooting: bool) -> None:
    conditions = [condition("Rebooting", status)] if status else []
    machine = StateNode(
        node=node("n", taints=[REBOOTING, CUSTOM]),
        node_claim=node_claim("n", conditions=conditions),
    )

    assert counting == machine.taints
    assert rebooting is machine.is_rebooting


def test_startup_taints_pass_by_again_during_a_reboot() -> None:
    machine = StateNode(
        node=node("n", taints=[taint(STARTING[0]), taint(STARTING[-1])]),
        node_claim=node_claim(
            "n", startup_taints=STARTUP, conditions=[condition("Rebooting", "True")]
        ),
    )

    assert () == machine.taints


# Machines on their way out


@pytest.mark.parametrize(
    ("machine", "deleting"),
    [
        pytest.param(managed_node(), False, id="a healthy machine stays"),
        pytest.param(managed_node(marked=True), True, id="marked by a disruption"),
        pytest.param(unmanaged_node(deleted=NOW), True, id="an unmanaged node being deleted"),
        pytest.param(launching_node(deleted=NOW), True, id="a claim being deleted"),
        pytest.param(
            launching_node(conditions=[condition("InstanceTerminating")]),
            True,
            id="an instance being terminated",
        ),
        pytest.param(
            launching_node(conditions=[condition("InstanceTerminating", "False")]),
            False,
            id="an instance that is not being terminated",
        ),
        pytest.param(
            StateNode(node=node("n", deleted=NOW), node_claim=node_claim("n")),
            False,
            id="of a managed machine only the claim says so",
        ),
    ],
)
def test_deleting(machine: StateNode, deleting: bool) -> None:
    assert deleting is machine.is_deleting


# Nominations


@pytest.mark.parametrize(
    ("after", "nominated"),
    [
        pytest.param(10, True, id="SCH-224 still at 10 seconds"),
        pytest.param(20, False, id="no longer when the window ends"),
        pytest.param(21, False, id="SCH-224 not at 21 seconds"),
    ],
)
def test_nomination(after: int, nominated: bool) -> None:
    until = NOW + nomination_window(timedelta(seconds=10))
    machine = managed_node(nominated_until=until)

    assert nominated is machine.is_nominated(NOW + timedelta(seconds=after))


def test_a_machine_that_was_promised_nothing_is_not_nominated() -> None:
    assert not managed_node().is_nominated(NOW)


@pytest.mark.parametrize(("batch_max", "window"), [(1, 10), (5, 10), (10, 20), (60, 120)])
def test_the_nomination_window_follows_the_longest_batch(batch_max: int, window: int) -> None:
    found = nomination_window(timedelta(seconds=batch_max))

    assert timedelta(seconds=window) == found


# Usage


def test_pods_and_daemons_take_room() -> None:
    agent = daemon_set("agent")
    machine = managed_node(
        "n",
        pods=[
            pod("a", cpu="1", node_name="n"),
            pod("b", cpu="500m", node_name="n", deleted=NOW),
            daemon_pod(agent, "n", cpu="250m"),
        ],
    )

    assert Resources.from_wire({"cpu": "1750m", "pods": 3}) == machine.requested
    assert Resources.from_wire({"cpu": "250m", "pods": 1}) == machine.requested_by_daemons
