"""Devices decide where pods go: rows O-226 to O-230 of the matrix, and what follows from them."""

from dataclasses import replace

import msgspec
import pytest

from builders import (
    expression,
    launching_node,
    managed_node,
    node_pool,
    pod,
    pods,
    taint,
    unmanaged_node,
)
from karpenter.api.devices import DeviceRequest, ResourceClaim
from karpenter.api.pods import Pod, PodResourceClaim, PodResourceClaimStatus
from karpenter.model import labels as keys
from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices import search
from karpenter.scheduling.plan import Why
from karpenter.scheduling.volumes import PodVolumes
from karpenter.state.nodes import StateNode
from solving import solved
from unit.scheduling.device_objects import (
    claim,
    device,
    exactly,
    first_available,
    held,
    in_zone,
    named,
    placed_with,
    published,
    user,
    with_devices,
)

ONE = with_devices("one", device("gpu-0"))
TWO = with_devices("two", device("gpu-0"), device("gpu-1"))
BARE = with_devices("bare")


def test_o_226_pods_with_devices_are_refused_by_default() -> None:
    answer = solved([user("p", "c"), pod("other")])

    assert {"p": {Why.DEVICES}} == answer.unplaced
    assert ["other"] == answer.placed
    assert "IGNORE_DRA_REQUESTS=false" in answer.details("p")[0]


def test_o_226_they_are_not_tried_on_machines_that_exist_either() -> None:
    answer = solved([user("p", "c")], nodes=[managed_node("n")])

    assert {"p": {Why.DEVICES}} == answer.unplaced


def test_o_227_one_device_serves_one_claim() -> None:
    answer = placed_with(
        [user("p", "c"), user("q", "d")], {"claims": [claim("c"), claim("d")]}, types=[ONE, BARE]
    )

    assert [1, 1] == answer.loads
    assert ["one", "one"] == answer.types
    assert ["gpu.test"] * 2 == [c.annotations[keys.REQUESTED_DRA_DRIVERS] for c in answer.claims]


def test_o_228_two_devices_serve_two_claims() -> None:
    answer = placed_with(
        [user("p", "c"), user("q", "d")], {"claims": [claim("c"), claim("d")]}, types=[TWO]
    )

    assert [2] == answer.loads


def test_o_229_a_claim_that_does_not_exist_is_waited_for() -> None:
    before = placed_with([user("p", "c"), pod("other")], {}, types=[ONE])
    after = placed_with([user("p", "c")], {"claims": [claim("c")]}, types=[ONE])

    assert {"p": {Why.DEVICES}} == before.unplaced
    assert ["ResourceClaim default/c, which the pod calls c, does not exist"] == before.details("p")
    assert ["other"] == before.placed
    assert ["p"] == after.placed


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        pytest.param(
            claim("c"),
            "its claim c: request r needs 1 of device class gpu; no instance type has any that match",
            id="O-230 no type has the device",
        ),
        pytest.param(
            claim("c", exactly(device_class="tpu")),
            "its claim c: request r asks for device class tpu, which does not exist",
            id="O-230 the class does not exist",
        ),
    ],
)
def test_devices_that_nobody_has(wanted: ResourceClaim, detail: str) -> None:
    answer = placed_with([user("p", "c")], {"claims": [wanted]}, types=[BARE])

    assert {"p": {Why.DEVICES}} == answer.unplaced
    assert [detail] == answer.details("p")


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        pytest.param(
            exactly(count=3), "no instance type has more than 2 that match", id="too few devices"
        ),
        pytest.param(
            exactly("r", 1, 'device.attributes["gpu.test"].nothing == 1'),
            "no such key: nothing",
            id="a selector fails",
        ),
    ],
)
def test_the_reason_names_the_nearest_miss(wanted: DeviceRequest, detail: str) -> None:
    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c", wanted)]},
        types=[ONE, TWO],
    )

    assert detail in answer.details("p")[0]


def test_types_that_cannot_serve_are_left_out_and_daemons_of_size_still_count() -> None:
    small = with_devices("small", device("gpu-0"), cpu="2")
    answer = placed_with([user("p", "c", cpu="3")], {"claims": [claim("c")]}, types=[small, ONE])

    assert ("one",) == answer.only.instance_types


def test_pods_without_devices_join_and_leave_no_trace() -> None:
    answer = placed_with(
        [user("p", "c", cpu="1"), *pods(2, cpu="0.5")], {"claims": [claim("c")]}, types=[ONE, BARE]
    )

    assert [3] == answer.loads


def test_alternatives_are_taken_type_by_type() -> None:
    wish = first_available("w", exactly("pair", 2), exactly("single"))

    answer = placed_with([user("p", "c")], {"claims": [claim("c", wish)]}, types=[ONE, TWO, BARE])

    assert {"one", "two"} == set(answer.only.instance_types)


def test_types_that_need_another_driver_are_left_out() -> None:
    """A node waits for the drivers on its claim, so they must not depend on its type."""
    other = with_devices("other", device("x"), driver="npu.test", cpu="8")

    answer = placed_with([user("p", "c")], {"claims": [claim("c")]}, types=[ONE, other])

    assert ("one",) == answer.only.instance_types
    assert "gpu.test" == answer.only.annotations[keys.REQUESTED_DRA_DRIVERS]


def test_drivers_are_listed_in_order() -> None:
    both = with_devices("both", device("gpu-0"))
    more = with_devices("both", device("x"), driver="a.test").device_templates
    types = [replace(both, device_templates=both.device_templates + more)]
    wanted = claim("c", exactly("g"), exactly("x", 1, 'device.driver == "a.test"'))

    answer = placed_with([user("p", "c")], {"claims": [wanted]}, types=types)

    assert "a.test,gpu.test" == answer.only.annotations[keys.REQUESTED_DRA_DRIVERS]


def test_pods_that_share_a_claim_share_the_node() -> None:
    """Neither gets another claim, even when the node is full."""
    wanted = [user(name, "c", cpu="2") for name in ("p", "q", "r")]

    answer = placed_with(wanted, {"claims": [claim("c")]}, types=[ONE])

    assert [1] == answer.loads
    assert ["its claim c has devices of a node where other pods go"] * 2 == [
        detail for name in answer.unplaced for detail in answer.details(name)
    ]


def generated(name: str, made: str) -> Pod:
    """A pod with a claim that was made from a template."""
    entry = PodResourceClaim(name="gpu", resource_claim_template_name="t")
    each = pod(name, resource_claims=[entry])
    entries = (PodResourceClaimStatus(name="gpu", resource_claim_name=made),)
    status = msgspec.structs.replace(each.status, resource_claim_statuses=entries)
    return msgspec.structs.replace(each, status=status)


def test_a_claim_made_from_a_template_is_each_pod_s_own() -> None:
    numbers = range(4)

    answer = placed_with(
        [generated(f"p{n}", f"c{n}") for n in numbers],
        {"claims": [claim(f"c{n}") for n in numbers]},
        types=[TWO],
    )

    assert [2, 2] == answer.loads


def test_pods_of_one_template_are_not_alike_when_their_claims_are_not() -> None:
    claims = [claim("c1", exactly(count=9)), claim("c2")]

    answer = placed_with(
        [generated(f"p{n}", f"c{n}") for n in range(3)], {"claims": claims}, types=[TWO]
    )

    assert ["p2"] == answer.placed
    assert ["p0", "p1"] == sorted(answer.unplaced)


def test_devices_of_an_initialized_node_are_those_it_publishes() -> None:
    nodes = [managed_node("n1", instance_type="two")]
    slices = [published([device("gpu-0")], node="n1")]
    claims = [claim("c"), claim("d")]

    answer = placed_with(
        [user("p", "c"), user("q", "d")],
        {"claims": claims, "slices": slices},
        nodes=nodes,
        types=[TWO],
    )

    assert {"n1": ["p"]} == answer.existing
    assert [1] == answer.loads


def test_devices_of_a_starting_node_are_those_its_type_promises() -> None:
    """What it has published so far is not counted on top."""
    nodes = [managed_node("n1", instance_type="one", initialized=False)]
    slices = [published([device("gpu-0")], node="n1")]
    claims = [claim("c"), claim("d")]

    answer = placed_with(
        [user("p", "c"), user("q", "d")],
        {"claims": claims, "slices": slices},
        nodes=nodes,
        types=[ONE],
    )

    assert {"n1": ["p"]} == answer.existing
    assert [1] == answer.loads


def test_a_starting_node_s_device_that_is_in_use_is_not_promised_again() -> None:
    nodes = [managed_node("n1", instance_type="one", initialized=False)]
    slices = [published([device("gpu-0")], node="n1")]
    served = claim("s", holds=[held()], used_by=["running"])

    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c"), served], "slices": slices},
        nodes=nodes,
        types=[ONE],
    )

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
    nodes = [managed_node("n1")]
    slices = [published([device("gpu-0")], node="n1")]
    served = claim("s", holds=[held()], used_by=["running"])

    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c"), served], "slices": slices},
        nodes=nodes,
        types=[ONE],
    )

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


def test_a_search_that_takes_too_long_is_given_up_and_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 1)

    answer = placed_with(
        [user("p", "c"), pod("other")], {"claims": [claim("c", exactly(count=2))]}, types=[TWO]
    )

    assert ["other"] == answer.placed
    assert "took too long" in answer.details("p")[0]


def test_preferences_are_given_up_for_devices() -> None:
    preferred = [(1, [expression(keys.INSTANCE_TYPE, "In", "bare")])]

    answer = placed_with(
        [user("p", "c", preferred=preferred)], {"claims": [claim("c")]}, types=[ONE, BARE]
    )

    assert ("one",) == answer.only.instance_types


def test_taints_come_before_devices_among_reasons() -> None:
    answer = placed_with(
        [user("p", "c")],
        {"claims": [claim("c")]},
        types=[ONE],
        pools=[node_pool(taints=[taint("k=v:NoSchedule")])],
    )

    assert {"p": {Why.UNTOLERATED_TAINT}} == answer.unplaced
