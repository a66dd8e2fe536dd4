"""The search serves claims in the order they are written, and finds an assignment if there is one.

Devices are found on one node that reaches everything.
"""

from collections.abc import Sequence

import pytest

from karpenter.api.devices import (
    CapacityRequestPolicy,
    DeviceConstraint,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices import search
from karpenter.scheduling.devices.allocator import ledger_of
from karpenter.scheduling.devices.inputs import SharedAttribute
from karpenter.scheduling.devices.inventory import Published, published_pools, template_pools
from karpenter.scheduling.devices.places import NodePlace
from karpenter.scheduling.devices.requests import Compiler
from karpenter.scheduling.devices.search import OutOfStepsError, Search
from karpenter.scheduling.devices.selectors import SelectorError
from unit.scheduling.devices.device_objects import (
    DRIVER,
    alike,
    claim,
    device,
    device_class,
    exactly,
    first_available,
    held,
    published,
)

CLASSES = [device_class("gpu"), device_class("nic", 'device.driver == "nic.test"')]
THREE = [device("a", {"n": 1}), device("b", {"n": 2}), device("c", {"n": 3})]
ROOTS = [device("a", {"root": 1}), device("b", {"root": 2}), device("c", {"root": 2})]
PARTS = published(
    [
        device("half-1", draws={"slices": "4", "copy": "1"}),
        device("half-2", draws={"slices": "4", "copy": "1"}),
        device("whole", {"whole": True}, draws={"slices": "8", "copy": "2"}),
    ],
    counters={"slices": "8", "copy": "2"},
)
IS_WHOLE = 'has(device.attributes["gpu.test"].whole)'
POOLED = [
    device(
        "pool",
        capacity={"memory": "10Gi", "lanes": "4"},
        policies={
            "memory": CapacityRequestPolicy(default="1Gi", valid_values=("1Gi", "4Gi", "8Gi")),
            "lanes": CapacityRequestPolicy(default="1"),
        },
        shared=True,
    )
]


def found(
    claims: Sequence[ResourceClaim],
    slices: Sequence[ResourceSlice],
    served: Sequence[ResourceClaim] = (),
    promised: Sequence[SharedAttribute] = (),
) -> list[str] | None:
    """The devices that the claims get, as "request:device" in the order they are chosen."""
    there = Published(published_pools(slices))
    own = template_pools(slices, promised) if promised else None
    place = NodePlace("n", Requirements(), Published(()) if promised else there, own)
    compiled = [Compiler(CLASSES).compiled_claim(each.spec) for each in claims]
    outcome = Search(compiled, place, ledger_of(served, there).taken).run(None)
    if outcome is None:
        return None
    return [f"{pick.option.name}:{pick.device.key.name}" for pick in outcome.picks]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([claim("c")], ["r:a"], id="the first device there is"),
        pytest.param([claim("c", exactly(count=3))], ["r:a", "r:b", "r:c"], id="several devices"),
        pytest.param([claim("c", exactly(count=4))], None, id="more than there are"),
        pytest.param([claim("c"), claim("d")], ["r:a", "r:b"], id="two claims share no device"),
        pytest.param(
            [claim("c", exactly("r", 1, 'device.attributes["gpu.test"].n > 1'))],
            ["r:b"],
            id="selectors of the request",
        ),
        pytest.param(
            [claim("c", exactly("x"), exactly("y", 1, 'device.attributes["gpu.test"].n < 2'))],
            ["x:b", "y:a"],
            id="an earlier choice is reconsidered",
        ),
        pytest.param([claim("c", exactly(device_class="nic"))], None, id="selectors of the class"),
        pytest.param(
            [claim("c", exactly(every=True))], ["r:a", "r:b", "r:c"], id="every device there is"
        ),
        pytest.param(
            [claim("c", exactly("r", 1, 'device.attributes["gpu.test"].n > 1', every=True))],
            ["r:b", "r:c"],
            id="every device that matches",
        ),
        pytest.param(
            [claim("c", exactly("r", 1, "false", every=True))], None, id="every device of none"
        ),
        pytest.param(
            [claim("c"), claim("d", exactly(every=True))], None, id="every device, one being taken"
        ),
        pytest.param(
            [claim("c", exactly(admin=True)), claim("d", exactly(every=True))],
            ["r:a", "r:a", "r:b", "r:c"],
            id="access for administration takes nothing",
        ),
    ],
)
def test_counts_and_selectors(claims: list[ResourceClaim], expected: list[str] | None) -> None:
    assert expected == found(claims, [published(THREE)])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            first_available("w", exactly("two", 2), exactly("one")),
            ["w/two:a", "w/two:b"],
            id="the first option that can be had",
        ),
        pytest.param(
            first_available("w", exactly("five", 5), exactly("one")),
            ["w/one:a"],
            id="the second when the first cannot",
        ),
        pytest.param(
            first_available("w", exactly("five", 5), exactly("all", every=True)),
            ["w/all:a", "w/all:b", "w/all:c"],
            id="an option may ask for all",
        ),
        pytest.param(
            first_available("w", exactly("five", 5), exactly("six", 6)), None, id="none of them"
        ),
    ],
)
def test_first_available(wanted: DeviceRequest, expected: list[str] | None) -> None:
    assert expected == found([claim("c", wanted)], [published(THREE)])


def test_an_option_is_given_up_when_a_later_request_needs_its_devices() -> None:
    request = first_available("w", exactly("three", 3), exactly("two", 2))

    assert ["w/two:a", "w/two:b", "r:c"] == found(
        [claim("c", request, exactly())], [published(THREE)]
    )


def test_an_option_that_came_to_nothing_leaves_no_trace() -> None:
    parts = first_available("w", exactly("three", 3), exactly("whole", 1, IS_WHOLE))
    pair = exactly("pair", 2, 'device.attributes["gpu.test"].n < 3')
    rest = first_available("w", pair, exactly("rest", 1, 'device.attributes["gpu.test"].n == 3'))
    agreeing = claim("c", rest, constraints=[alike("gpu.test/n")])

    assert ["w/whole:whole"] == found([claim("c", parts)], [PARTS])
    assert ["w/rest:c"] == found([agreeing], [published(THREE)])


@pytest.mark.parametrize(
    ("count", "constraint", "expected"),
    [
        pytest.param(2, alike("gpu.test/root"), ["r:b", "r:c"], id="devices agree"),
        pytest.param(3, alike("gpu.test/root"), None, id="too few agree"),
        pytest.param(1, alike("gpu.test/absent"), None, id="nobody has the attribute"),
        pytest.param(
            2, alike("gpu.test/root", "other"), ["r:a", "r:b"], id="other requests are meant"
        ),
        pytest.param(2, alike("gpu.test/root", "r"), ["r:b", "r:c"], id="this request is meant"),
    ],
)
def test_devices_that_must_agree(
    count: int, constraint: DeviceConstraint, expected: list[str] | None
) -> None:
    wanted = claim("c", exactly(count=count), constraints=[constraint])

    assert expected == found([wanted], [published(ROOTS)])


def test_agreement_spans_requests_and_drivers() -> None:
    nics = published([device("n", {"gpu.test/root": 2})], driver="nic.test", pool="nics")
    wanted = claim(
        "c", exactly("g"), exactly("n", device_class="nic"), constraints=[alike("gpu.test/root")]
    )

    assert ["g:b", "n:n"] == found([wanted], [published(ROOTS), nics])


def test_an_option_is_meant_by_its_own_name_or_its_request() -> None:
    options = first_available("w", exactly("two", 2), exactly("one"))
    wanted = claim("c", options, constraints=[alike("gpu.test/absent", "w/two")])

    assert ["w/one:a"] == found([wanted], [published(ROOTS)])


def test_a_whole_number_does_not_agree_with_a_truth() -> None:
    wanted = claim("c", exactly(count=2), constraints=[alike("gpu.test/x")])

    assert None is found([wanted], [published([device("a", {"x": 1}), device("b", {"x": True})])])


def test_a_promise_to_agree_is_as_good_as_a_value() -> None:
    promise = SharedAttribute("gpu.test/root", frozenset({(DRIVER, "pool", n) for n in "bc"}))
    wanted = claim("c", exactly(count=2), constraints=[alike("gpu.test/root")])

    assert ["r:b", "r:c"] == found([wanted], [published(THREE)], promised=[promise])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([1, 1], ["r:half-1", "r:half-2"], id="two halves"),
        pytest.param([3], None, id="no whole beside halves"),
        pytest.param([1, 1, 1], None, id="nothing is left"),
    ],
)
def test_partitions_share_counters(counts: list[int], expected: list[str] | None) -> None:
    claims = [claim(f"c{n}", exactly(count=count)) for n, count in enumerate(counts)]

    assert expected == found(claims, [PARTS])


def test_partitions_that_are_in_use_have_drawn_on_the_counters() -> None:
    served = claim("s", holds=[held("whole")])

    assert None is found([claim("c")], [PARTS], [served])


def test_counters_of_other_slices_of_the_pool_count() -> None:
    devices = published([device("a", draws={"x": "1"})], name="devices", count=2)
    counters = published([], name="counters", count=2, counters={"x": "1"})

    assert ["r:a"] == found([claim("c")], [devices, counters])
    assert None is found([claim("c")], [devices])


def pooled(memory: str | None = None, lanes: str | None = None) -> ResourceClaim:
    wished = {"memory": memory, "lanes": lanes}
    return claim("c", exactly(capacity={k: v for k, v in wished.items() if v}))


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([pooled(), pooled()], 2, id="defaults fit side by side"),
        pytest.param([pooled("2Gi"), pooled("2Gi")], 2, id="both are rounded up to 4Gi"),
        pytest.param([pooled("2Gi"), pooled("5Gi")], None, id="4Gi and 8Gi are more than 10Gi"),
        pytest.param([pooled("8Gi"), pooled("1Gi")], 2, id="8Gi and 1Gi are not"),
        pytest.param([pooled("9Gi")], None, id="no valid value is large enough"),
        pytest.param([pooled(lanes="3"), pooled(lanes="2")], None, id="each capacity counts"),
        pytest.param([pooled(lanes="3"), pooled(lanes="1")], 2, id="the other capacity defaults"),
        pytest.param(
            [claim("c", exactly(capacity={"nothing": "1"}))], None, id="a capacity it does not have"
        ),
        pytest.param([claim("c", exactly(count=4))], 4, id="one claim may have several shares"),
        pytest.param([claim("c", exactly(count=5))], None, id="but no more than there are lanes"),
    ],
)
def test_consumable_capacity(claims: list[ResourceClaim], expected: int | None) -> None:
    answer = found(claims, [published(POOLED)])

    assert expected == (None if answer is None else len(answer))


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [
        pytest.param({"memory": "2Gi"}, ["r:pool"], id="what is left is enough"),
        pytest.param({"gpu.test/memory": "3Gi"}, None, id="what is left is too little"),
        pytest.param({"memory": "lots"}, None, id="an unreadable share counts as everything"),
    ],
)
def test_shares_in_use_count(consumed: dict[str, str], expected: list[str] | None) -> None:
    served = claim("s", holds=[held("pool", consumed=consumed)])

    assert expected == found([pooled("8Gi")], [published(POOLED)], [served])


def test_a_device_for_one_claim_must_be_large_enough_as_a_whole() -> None:
    devices = [device("small", capacity={"m": "1Gi"}), device("large", capacity={"m": "8Gi"})]
    wanted = claim("c", exactly(capacity={"gpu.test/m": "2Gi"}))

    assert ["r:large"] == found([wanted], [published(devices)])


@pytest.mark.parametrize(
    ("taint", "tolerations", "expected"),
    [
        pytest.param("NoSchedule", [], ["r:b"], id="a taint keeps claims away"),
        pytest.param("None", [], ["r:a"], id="a taint without effect does not"),
        pytest.param(
            "NoExecute",
            [DeviceToleration(key="k", operator="Exists")],
            ["r:a"],
            id="unless it is tolerated",
        ),
        pytest.param(
            "NoSchedule",
            [DeviceToleration(key="k", value="v", effect="NoSchedule")],
            ["r:a"],
            id="or tolerated with its value",
        ),
        pytest.param(
            "NoSchedule",
            [DeviceToleration(key="k", value="w"), DeviceToleration(key="k", effect="NoExecute")],
            ["r:b"],
            id="another value or effect is no help",
        ),
    ],
)
def test_taints(
    taint: str, tolerations: list[DeviceToleration], expected: list[str] | None
) -> None:
    tainted = device("a", taints=[DeviceTaint(key="k", value="v", effect=taint)])

    answer = found(
        [claim("c", exactly(tolerations=tolerations))], [published([tainted, device("b")])]
    )

    assert expected == answer


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([published(THREE, count=2)], id="a pool that is being updated"),
        pytest.param(
            [
                published(THREE),
                published([device("x"), device("x")], driver="nic.test", pool="nics"),
            ],
            id="a pool that makes no sense, even of another driver",
        ),
    ],
)
def test_all_devices_cannot_be_told_from(slices: list[ResourceSlice]) -> None:
    assert None is found([claim("c", exactly(every=True))], slices)
    assert ["r:a"] == found([claim("c")], slices)


def test_a_claim_has_at_most_32_devices() -> None:
    many = [published([device(f"d{n:02}") for n in range(40)])]

    assert None is found([claim("c", exactly(every=True))], many)
    assert 32 == len(found([claim("c", exactly(count=32))], many) or ())


def test_a_selector_that_fails_ends_the_search() -> None:
    wanted = claim("c", exactly("r", 1, 'device.attributes["gpu.test"].nothing == 1'))

    with pytest.raises(SelectorError, match="no such key"):
        found([wanted], [published(THREE)])


def test_a_search_that_takes_too_long_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 5)

    with pytest.raises(OutOfStepsError):
        found([claim("c", exactly(count=3))], [published(THREE)])
