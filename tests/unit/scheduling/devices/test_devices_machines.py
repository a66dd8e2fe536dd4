"""Devices that are there already: in machines, across the cluster, and in the hands of other pods."""

import pytest

from helpers.builders import (
    launching_node,
    managed_node,
    unmanaged_node,
)
from helpers.solver import Answer
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.model.requirements import Requirements
from karpenter.scheduling.plan import Why
from karpenter.scheduling.problem import PodVolumes
from karpenter.state.nodes import StateNode
from unit.scheduling.devices.device_objects import (
    BARE,
    ONE,
    TWO,
    claim,
    device,
    exactly,
    held,
    in_zone,
    named,
    placed_with,
    published,
    user,
)


def beside_a_used_device(node: StateNode) -> Answer:
    """Where a pod goes that wants a device, when the only one of the node ``n1`` is in use."""
    slices = [published([device("gpu-0")], node="n1")]
    served = claim("s", holds=[held()], used_by=["running"])
    return placed_with(
        [user("p", "c")],
        {"claims": [claim("c"), served], "slices": slices},
        nodes=[node],
        types=[ONE],
    )


def two_users(nodes: list[StateNode], kind: InstanceType) -> Answer:
    """Where two pods go that want a device each, when the node ``n1`` publishes one."""
    return placed_with(
        [user("p", "c"), user("q", "d")],
        {
            "claims": [claim("c"), claim("d")],
            "slices": [published([device("gpu-0")], node="n1")],
        },
        nodes=nodes,
        types=[kind],
    )


def test_devices_of_an_initialized_node_are_those_it_publishes() -> None:
    nodes = [managed_node("n1", instance_type="two")]

    answer = two_users(nodes, TWO)

    assert {"n1": ["p"]} == answer.existing
    assert [1] == answer.loads


def test_devices_of_a_starting_node_are_those_its_type_promises() -> None:
    """What it has published so far is not counted on top."""
    nodes = [managed_node("n1", instance_type="one", initialized=False)]

    answer = two_users(nodes, ONE)

    assert {"n1": ["p"]} == answer.existing
    assert [1] == answer.loads


def test_a_starting_node_s_device_that_is_in_use_is_not_promised_again() -> None:
    answer = beside_a_used_device(managed_node("n1", instance_type="one", initialized=False))

    assert {} == answer.existing


def test_a_launching_node_has_the_devices_of_its_type() -> None:
    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c")]},
        nodes=[launching_node("n1", instance_type="one")],
        types=[ONE],
    )

    assert {"n1": ["p"]} == answer.existing


def test_pods_that_share_a_claim_stay_on_the_machine_that_serves_it() -> None:
    nodes = [unmanaged_node("n1", cpu="1"), unmanaged_node("n2", cpu="1")]
    slices = [published([device("gpu-0")], node=n, pool=n) for n in ("n1", "n2")]

    answer = placed_with(
        [user("p", "c", cpu="0.6"), user("q", "c", cpu="0.6")],
        {"claims": [claim("c")], "slices": slices},
        nodes=nodes,
        types=[ONE],
    )

    assert {"n1": ["p"]} == answer.existing
    assert {"q": {Why.DEVICES}} == answer.unplaced


def test_devices_in_use_are_gone() -> None:
    answer = beside_a_used_device(managed_node("n1"))

    assert {} == answer.existing
    assert [1] == answer.loads


def test_devices_that_an_administrator_looks_at_are_not() -> None:
    served = claim("s", holds=[held(admin=True)], used_by=["running"])
    slices = [published([device("gpu-0")], node="n1")]

    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c"), served], "slices": slices},
        nodes=[managed_node("n1")],
        types=[ONE],
    )

    assert {"n1": ["p"]} == answer.existing


def test_devices_of_the_cluster_come_before_those_of_new_nodes() -> None:
    slices = [published([device("net-0")], zone="z2")]

    answer = placed_with(
        [user("p", "c")], {"claims": [claim("c")], "slices": slices}, types=[ONE, BARE]
    )

    assert frozenset({"z2"}) == answer.only.requirements[keys.ZONE].values
    assert {"one", "bare"} == set(answer.only.instance_types)
    assert keys.REQUESTED_DRA_DRIVERS not in answer.only.annotations


def test_devices_of_the_cluster_run_out() -> None:
    slices = [published([device("net-0")], zone="z2")]
    claims = [claim("c"), claim("d")]

    answer = placed_with(
        [user("p", "c"), user("q", "d")], {"claims": claims, "slices": slices}, types=[ONE]
    )

    assert [2] == answer.loads
    assert "gpu.test" == answer.only.annotations[keys.REQUESTED_DRA_DRIVERS]


def test_devices_that_the_pod_cannot_reach_do_not_help() -> None:
    slices = [published([device("net-0")], zone="z2")]

    answer = placed_with(
        [user("p", "c", node_selector={keys.ZONE: "z1"})],
        {"claims": [claim("c")], "slices": slices},
        types=[BARE],
    )

    assert {"p": {Why.DEVICES}} == answer.unplaced


def test_pods_that_share_devices_of_the_cluster_go_where_they_are_reached() -> None:
    slices = [published([device("net-0")], zone="z2")]
    wanted = [user(name, "c", cpu="2") for name in ("p", "q")]

    answer = placed_with(
        wanted, {"claims": [claim("c")], "slices": slices}, types=[BARE], nodes=[managed_node("n1")]
    )

    assert [1, 1] == answer.loads
    assert {"z2": 2} == answer.pods_in_zones


def test_machines_from_which_shared_devices_cannot_be_reached_are_passed_over() -> None:
    nodes = [managed_node("n1", zone="z2", cpu="2"), managed_node("n2", zone="z1")]
    slices = [published([device("net-0")], zone="z2")]
    wanted = [user(name, "c", cpu="2") for name in ("p", "q")]

    answer = placed_with(
        wanted, {"claims": [claim("c")], "slices": slices}, types=[BARE], nodes=nodes
    )

    assert {"n1": ["p"]} == answer.existing
    assert {"z2": 1} == answer.pods_in_zones


@pytest.mark.parametrize("nodes", [[], [managed_node("n", instance_type="one", initialized=False)]])
def test_all_devices_cannot_be_told_while_the_cluster_s_are_updated(nodes: list[StateNode]) -> None:
    answer = placed_with(
        [user("p", "c")],
        {
            "claims": [claim("c", exactly(every=True))],
            "slices": [published([device("net-0")], count=2)],
        },
        types=[ONE],
        nodes=nodes,
    )

    assert ["request r asks for all devices, but pool pool of gpu.test is being updated"] == [
        detail.removeprefix("its claim c: ") for detail in answer.details("p")
    ]


def test_volumes_and_devices_must_be_reached_from_one_node() -> None:
    zones = tuple(Requirements.from_labels({keys.ZONE: zone}) for zone in ("z1", "z2"))

    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c")], "slices": [published([device("net-0")], zone="z2")]},
        types=[BARE],
        volumes={"p": PodVolumes(alternatives=zones)},
    )

    assert {"z2": 1} == answer.pods_in_zones


def test_a_claim_that_has_devices_only_says_where() -> None:
    served = claim("c", holds=[held("anything")], reachable=in_zone("z3"), used_by=["running"])

    answer = placed_with([user("p", "c"), user("q", "c")], {"claims": [served]}, types=[BARE])

    assert {"z3": 2} == answer.pods_in_zones


@pytest.mark.parametrize(
    ("node", "existing"),
    [
        pytest.param("n1", {"n1": ["p"]}, id="the node is there"),
        pytest.param("n2", {}, id="the node is not there"),
    ],
)
def test_a_claim_that_has_devices_in_a_node(node: str, existing: dict[str, list[str]]) -> None:
    served = claim("c", holds=[held()], reachable=named(node), used_by=["running"])

    answer = placed_with(
        [user("p", "c")], {"claims": [served]}, nodes=[managed_node("n1")], types=[ONE]
    )

    assert existing == answer.existing
    assert not answer.claims


def test_devices_of_departing_pods_are_free() -> None:
    leaving = user("p", "c", node_name="old")
    nodes = [managed_node("old", marked=True, pods=[leaving]), managed_node("n1")]
    slices = [published([device("net-0")])]
    served = claim("c", holds=[held("net-0")], reachable=named("old"), used_by=["p"])

    answer = placed_with(
        [leaving], {"claims": [served], "slices": slices}, nodes=nodes, types=[BARE]
    )

    assert {"n1": ["p"]} == answer.existing


def test_of_a_shared_device_only_the_departing_share_is_free() -> None:
    leaving = user("p", "c", node_name="old")
    nodes = [managed_node("old", marked=True, pods=[leaving]), managed_node("n1")]
    net = device("net-0", capacity={"m": "8"}, shared=True)
    claims = [
        claim(
            "c",
            exactly(capacity={"m": "4"}),
            holds=[held("net-0", consumed={"m": "4"})],
            used_by=["p"],
        ),
        claim("s", holds=[held("net-0", consumed={"m": "4"})], used_by=["running"]),
        claim("d", exactly(capacity={"m": "1"})),
    ]

    answer = placed_with(
        [leaving, user("q", "d")],
        {"claims": claims, "slices": [published([net])]},
        nodes=nodes,
        types=[BARE],
    )

    assert {"n1": ["p"]} == answer.existing
    assert {"q": {Why.DEVICES}} == answer.unplaced
