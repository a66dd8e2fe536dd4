"""Devices decide where pods go: SCH-226 to SCH-230, and what follows from them."""

from dataclasses import replace

import msgspec
import pytest

from helpers.builders import (
    expression,
    managed_node,
    node_pool,
    pod,
    pods,
    taint,
)
from helpers.solver import solved
from karpenter.api.devices import DeviceRequest, ResourceClaim
from karpenter.api.pods import Pod, PodResourceClaim, PodResourceClaimStatus
from karpenter.model import labels as keys
from karpenter.scheduling.devices import search
from karpenter.scheduling.plan import Why
from unit.scheduling.devices.device_objects import (
    BARE,
    ONE,
    TWO,
    claim,
    device,
    device_class,
    exactly,
    first_available,
    placed_with,
    published,
    user,
    with_devices,
)


@pytest.mark.case("SCH-226")
def test_pods_with_devices_are_refused_by_default() -> None:
    answer = solved([user("p", "c"), pod("other")])

    assert {"p": {Why.DEVICES}} == answer.unplaced
    assert ["other"] == answer.placed
    assert "IGNORE_DRA_REQUESTS=false" in answer.details("p")[0]


@pytest.mark.case("SCH-226")
def test_they_are_not_tried_on_machines_that_exist_either() -> None:
    answer = solved([user("p", "c")], nodes=[managed_node("n")])

    assert {"p": {Why.DEVICES}} == answer.unplaced


@pytest.mark.case("SCH-227")
def test_one_device_serves_one_claim() -> None:
    answer = placed_with(
        [user("p", "c"), user("q", "d")], {"claims": [claim("c"), claim("d")]}, types=[ONE, BARE]
    )

    assert [1, 1] == answer.loads
    assert ["one", "one"] == answer.types
    assert ["gpu.test"] * 2 == [c.annotations[keys.REQUESTED_DRA_DRIVERS] for c in answer.claims]


@pytest.mark.case("SCH-228")
def test_two_devices_serve_two_claims() -> None:
    answer = placed_with(
        [user("p", "c"), user("q", "d")], {"claims": [claim("c"), claim("d")]}, types=[TWO]
    )

    assert [2] == answer.loads


@pytest.mark.case("SCH-229")
def test_a_claim_that_does_not_exist_is_waited_for() -> None:
    before = placed_with([user("p", "c"), pod("other")], {}, types=[ONE])
    after = placed_with([user("p", "c")], {"claims": [claim("c")]}, types=[ONE])

    assert {"p": {Why.DEVICES}} == before.unplaced
    assert ["ResourceClaim default/c, which the pod calls c, does not exist"] == before.details("p")
    assert ["other"] == before.placed
    assert ["p"] == after.placed


@pytest.mark.case("SCH-230")
@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        pytest.param(
            claim("c"),
            "its claim c: request r needs 1 of device class gpu; no instance type has any that match",
            id="no type has the device",
        ),
        pytest.param(
            claim("c", exactly(device_class="tpu")),
            "its claim c: request r asks for device class tpu, which does not exist",
            id="the class does not exist",
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


def test_a_type_must_have_both_the_devices_and_the_room() -> None:
    small = with_devices("small", device("gpu-0"), cpu="2")
    answer = placed_with([user("p", "c", cpu="3")], {"claims": [claim("c")]}, types=[small, ONE])

    assert ("one",) == answer.only.instance_types


def test_pods_without_devices_join_and_leave_no_trace() -> None:
    answer = placed_with(
        [user("p", "c", cpu="1"), *pods(2, cpu="0.5")], {"claims": [claim("c")]}, types=[ONE, BARE]
    )

    assert [3] == answer.loads


def test_alternatives_are_taken_type_by_type() -> None:
    request = first_available("w", exactly("pair", 2), exactly("single"))

    answer = placed_with(
        [user("p", "c")], {"claims": [claim("c", request)]}, types=[ONE, TWO, BARE]
    )

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


def test_a_search_that_takes_too_long_is_given_up_and_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 1)

    answer = placed_with(
        [user("p", "c"), pod("other")], {"claims": [claim("c", exactly(count=2))]}, types=[TWO]
    )

    assert ["other"] == answer.placed
    assert "took too long" in answer.details("p")[0]


def test_the_order_of_the_input_does_not_matter() -> None:
    wanted = [user(f"p{n}", f"c{n}") for n in range(5)]
    claims = [claim(f"c{n}", exactly(count=1 + n % 2)) for n in range(5)]
    slices = [published([device(f"net-{zone}")], zone=zone, pool=zone) for zone in ("z1", "z2")]
    classes = [device_class(), device_class("other", "false")]

    forwards = placed_with(
        wanted, {"claims": claims, "slices": slices, "classes": classes}, types=[ONE, TWO]
    )
    backwards = placed_with(
        wanted[::-1],
        {"claims": claims[::-1], "slices": slices[::-1], "classes": classes[::-1]},
        types=[ONE, TWO],
    )

    assert forwards.plan == backwards.plan


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
