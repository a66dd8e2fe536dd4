"""A launch asks for what is compatible, can be had, is cheap, and is nothing special."""

import pytest

from karpenter.cloud.aws.launch.filters import Wanted, launchable
from karpenter.cloud.provider import InsufficientCapacityError
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from unit.cloud.aws.aws_types import ZONES, capacity_types, kind, offering, wanted

GPU = {"nvidia.com/gpu": 1}


def names(types: list[InstanceType]) -> list[str]:
    return [each.name for each in types]


def prices(types: list[InstanceType]) -> list[float]:
    return [each.price for found in types for each in found.offerings]


@pytest.mark.case("AWS-81")
def test_the_sixty_cheapest_types_are_left_cheapest_first() -> None:
    types = [kind(f"m5.{n:03}", offering(price=200.0 - n)) for n in range(100)]

    left = launchable(types, wanted())

    assert 60 == len(left)
    assert sorted(prices(left)) == prices(left)
    assert "m5.099" == left[0].name


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(wanted((labels.ARCH, "In", ["arm64"])), id="another architecture"),
        pytest.param(wanted(requests={"cpu": "3"}), id="too small"),
        pytest.param(wanted(requests={"nvidia.com/gpu": "1"}), id="lacks a device"),
        pytest.param(wanted((labels.ZONE, "In", [ZONES[1]])), id="another zone"),
        pytest.param(wanted(capacity_types("spot")), id="another capacity type"),
    ],
)
def test_what_does_not_suit_the_claim_is_not_asked_for(asked: Wanted) -> None:
    with pytest.raises(InsufficientCapacityError, match="compatible-available"):
        launchable([kind("m5.large", offering())], asked)


def test_resources_no_type_has_a_say_about_are_no_obstacle() -> None:
    asked = wanted(requests={"example.com/overlaid": "1"})

    assert ["m5.large"] == names(launchable([kind("m5.large")], asked))


def test_what_is_sold_out_is_not_asked_for() -> None:
    types = [kind("m5.large", offering(available=False), offering(zone=ZONES[1]))]

    left = launchable(types, wanted())

    assert [ZONES[1]] == [each.zone for each in left[0].offerings]


@pytest.mark.case("AWS-83")
def test_bare_metal_and_devices_are_left_out_for_generic_pods() -> None:
    types = [
        kind("m5.metal", offering(price=0.1)),
        kind("g4dn.xlarge", offering(price=0.2), capacity=GPU),
        kind("m5.large", offering(price=1)),
    ]

    assert ["m5.large"] == names(launchable(types, wanted()))


@pytest.mark.case("AWS-83")
def test_devices_are_kept_when_there_is_nothing_else() -> None:
    types = [kind("g4dn.xlarge", capacity=GPU)]

    assert ["g4dn.xlarge"] == names(launchable(types, wanted()))


@pytest.mark.case("AWS-83")
def test_devices_are_kept_when_a_choice_is_asked_for() -> None:
    types = [kind("g4dn.xlarge", capacity=GPU), kind("m5.large")]
    asked = wanted((labels.INSTANCE_TYPE, "Exists", []), min_values={labels.INSTANCE_TYPE: 2})

    assert {"g4dn.xlarge", "m5.large"} == set(names(launchable(types, asked)))


@pytest.mark.case("AWS-84")
def test_spot_that_is_dearer_than_on_demand_is_left_out() -> None:
    types = [
        kind("a.large", offering("spot", price=0.5), offering(price=1.0)),
        kind("b.large", offering("spot", price=1.1), offering(price=2.0)),
    ]

    left = launchable(types, wanted())

    assert [0.5, 1.0, 2.0] == prices(left)


@pytest.mark.case("AWS-84")
def test_without_on_demand_every_spot_offering_is_kept() -> None:
    types = [kind("a.large", offering("spot", price=5.0), offering(price=1.0))]

    assert [5.0] == prices(launchable(types, wanted(capacity_types("spot"))))


@pytest.mark.case("AWS-82")
@pytest.mark.parametrize("best_effort", [False, True], ids=["Strict refuses", "BestEffort goes on"])
def test_min_values_that_cannot_be_had(best_effort: bool) -> None:
    asked = wanted(
        (labels.INSTANCE_TYPE, "Exists", []),
        min_values={labels.INSTANCE_TYPE: 2},
        best_effort=best_effort,
    )

    if best_effort:
        assert ["m5.large"] == names(launchable([kind("m5.large")], asked))
        return
    with pytest.raises(InsufficientCapacityError, match="minValues"):
        launchable([kind("m5.large")], asked)


def test_reservations_go_before_everything_else() -> None:
    types = [
        kind("a.large", offering(price=0.1)),
        kind("b.large", offering("reserved", price=1e-8, reservation="cr-1"), offering()),
    ]

    left = launchable(types, wanted())

    assert ["b.large"] == names(left)
    assert ["reserved"] == [each.capacity_type for each in left[0].offerings]


def test_reservations_are_left_alone_when_the_claim_does_not_take_them() -> None:
    types = [kind("b.large", offering("reserved", reservation="cr-1"), offering())]

    left = launchable(types, wanted(capacity_types("on-demand")))

    assert ["on-demand"] == [each.capacity_type for each in left[0].offerings]


def test_a_reservation_without_room_is_no_reason_to_drop_others() -> None:
    types = [kind("b.large", offering("reserved", reservation="cr-1", room=0), offering())]

    left = launchable(types, wanted())

    assert ["on-demand"] == [each.capacity_type for each in left[0].offerings]


def test_of_reservations_in_a_zone_the_roomiest_is_used() -> None:
    few = offering("reserved", reservation="cr-1", room=1)
    many = offering("reserved", reservation="cr-2", room=5)
    elsewhere = offering("reserved", zone=ZONES[1], reservation="cr-3")

    (left,) = launchable([kind("a.large", few, many, elsewhere)], wanted())

    assert ["cr-2", "cr-3"] == [each.reservation_id for each in left.offerings]


def test_a_fleet_asks_for_one_sort_of_reservation() -> None:
    block = offering("reserved", reservation="cr-1", kind="capacity-block", price=2e-8)
    default = offering("reserved", reservation="cr-2", price=3e-8)
    lent = offering("reserved", reservation="cr-3", interruptible=True, price=1e-8)

    (left,) = launchable([kind("a.large", block, default, lent)], wanted())

    assert ["cr-3"] == [each.reservation_id for each in left.offerings]


def test_equally_cheap_sorts_of_reservations_are_settled_in_order() -> None:
    block = offering("reserved", reservation="cr-1", kind="capacity-block")
    default = offering("reserved", reservation="cr-2")

    (left,) = launchable([kind("a.large", block, default)], wanted())

    assert ["cr-2"] == [each.reservation_id for each in left.offerings]


def test_of_capacity_blocks_a_single_one_is_asked_for() -> None:
    types = [
        kind("a.large", offering("reserved", reservation="cr-1", kind="capacity-block", price=2)),
        kind("b.large", offering("reserved", reservation="cr-2", kind="capacity-block", price=1)),
    ]

    left = launchable(types, wanted())

    assert ["b.large"] == names(left)


@pytest.mark.case("OPT-27")
def test_nothing_is_asked_for_above_the_price_that_was_planned() -> None:
    types = [
        kind("m5.large", offering("spot", price=0.10)),
        kind("m6i.large", offering("spot", price=0.30)),
    ]

    assert ["m5.large"] == names(launchable(types, wanted(ceiling=0.105)))
    with pytest.raises(
        InsufficientCapacityError,
        match=r"price ceiling of \$0.105 per hour; the cheapest of 1 instance types costs \$0.3",
    ):
        launchable(types[1:], wanted(ceiling=0.105))
