"""Subnets, security groups, reservations and placement groups: found, kept, counted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from helpers.aws_fakes import (
    DISCOVERY,
    Account,
    FakeAws,
    HandClock,
    moto_cloud,
    node_class,
    placement_group,
    reservation,
)
from karpenter.api.node_classes.ec2 import (
    CapacityReservationSelectorTerm,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
    SubnetStatus,
)
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.cloud.aws.network.placement_groups import PlacementGroups
from karpenter.cloud.aws.network.security_groups import SecurityGroups
from karpenter.cloud.aws.network.subnets import Subnets, fewest_pods
from karpenter.cloud.aws.types.labels import only
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources


@dataclass
class Place:
    aws: FakeAws
    account: Account
    clock: HandClock


@pytest.fixture
def place() -> Iterator[Place]:
    clock = HandClock()
    with moto_cloud(clock) as aws:
        yield Place(aws, Account(), clock)


def kind(name: str, pods: int, *zones: str, capacity_type: str = "spot") -> InstanceType:
    offerings = tuple(
        Offering(
            Requirements([only(labels.ZONE, zone), only(labels.CAPACITY_TYPE, capacity_type)]),
            0.1,
        )
        for zone in zones
    )
    return InstanceType(name, Requirements(), offerings, Resources(pods=pods))


# Subnets


@pytest.mark.case("AWS-30")
@pytest.mark.row("S2-26")
async def test_subnets_are_found_by_tag_with_most_free_addresses_first(place: Place) -> None:
    small = place.account.subnet("us-west-2a", "10.0.1.0/28")
    large = place.account.subnet("us-west-2b", "10.0.2.0/24")
    middle = place.account.subnet("us-west-2c", "10.0.3.0/26")
    place.account.subnet("us-west-2a", "10.0.4.0/24", {"Name": "another"})
    found = await Subnets(place.aws, place.clock).list(node_class())

    assert [large, middle, small] == [each.id for each in found]
    assert [251, 59, 11] == [each.free_addresses for each in found]
    assert ("us-west-2b", "usw2-az1") == (found[0].zone, found[0].zone_id)


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(
            {"Name": "foo-private-subnet"}, marks=pytest.mark.row("S1-36"), id="by their names"
        ),
        pytest.param(DISCOVERY, marks=pytest.mark.row("S3-05"), id="by the discovery tag"),
    ],
)
async def test_only_what_has_the_value_of_a_tag_is_selected(
    place: Place, tags: dict[str, str]
) -> None:
    others: dict[str, str] = dict.fromkeys(tags, "another")
    subnet = place.account.subnet("us-west-2a", "10.0.1.0/24", tags)
    place.account.subnet("us-west-2a", "10.0.2.0/24", others)
    place.account.subnet("us-west-2a", "10.0.3.0/24", {})
    group = place.account.security_group("nodes", tags)
    place.account.security_group("others", others)
    wanted = node_class(
        subnet_selector_terms=(SubnetSelectorTerm(tags=tags),),
        security_group_selector_terms=(SecurityGroupSelectorTerm(tags=tags),),
    )
    subnets = await Subnets(place.aws, place.clock).list(wanted)
    groups = await SecurityGroups(place.aws, place.clock).list(wanted)

    assert [subnet] == [each.id for each in subnets]
    assert [group] == [each.id for each in groups]


@pytest.mark.case("AWS-42")
async def test_a_tag_with_any_value_is_asked_for_by_key(place: Place) -> None:
    wanted = place.account.subnet("us-west-2a", "10.0.1.0/24", {"team": "blue"})
    terms = (SubnetSelectorTerm(tags={"team": "*"}),)
    found = await Subnets(place.aws, place.clock).list(node_class(subnet_selector_terms=terms))

    assert [wanted] == [each.id for each in found]
    assert [[{"Name": "tag-key", "Values": ["team"]}]] == [
        made.parameters["Filters"] for made in place.aws.made
    ]


async def test_ids_share_one_call_and_a_term_with_an_id_uses_only_that(place: Place) -> None:
    first = place.account.subnet("us-west-2a", "10.0.1.0/24", {})
    second = place.account.subnet("us-west-2b", "10.0.2.0/24", {})
    terms = (
        SubnetSelectorTerm(id=first, tags={"no": "such"}),
        SubnetSelectorTerm(id=second),
        SubnetSelectorTerm(tags=DISCOVERY),
    )
    found = await Subnets(place.aws, place.clock).list(node_class(subnet_selector_terms=terms))

    assert {first, second} == {each.id for each in found}
    assert 2 == place.aws.count("DescribeSubnets")


async def test_subnets_are_asked_for_once_a_minute_and_generation(place: Place) -> None:
    place.account.subnet("us-west-2a", "10.0.1.0/24")
    subnets = Subnets(place.aws, place.clock)
    for _ in range(3):
        await subnets.list(node_class())
    once = place.aws.count("DescribeSubnets")
    await subnets.list(node_class(generation=2))
    changed = place.aws.count("DescribeSubnets")
    place.clock.passed += 61.0
    await subnets.list(node_class())

    assert (1, 2, 3) == (once, changed, place.aws.count("DescribeSubnets"))


async def test_every_page_is_read(place: Place) -> None:
    ids = [place.account.subnet("us-west-2a", f"10.0.{n}.0/24") for n in range(3)]

    def paged(parameters: Any) -> dict[str, Any]:
        position = int(parameters.get("NextToken", "0"))
        entry = {"SubnetId": ids[position], "AvailabilityZone": "us-west-2a"}
        more = {"NextToken": str(position + 1)} if position + 1 < len(ids) else {}
        return {"Subnets": [entry], **more}

    place.aws.fakes["ec2", "DescribeSubnets"] = paged
    found = await Subnets(place.aws, place.clock).list(node_class())

    assert set(ids) == {each.id for each in found}


async def zonal(place: Place) -> tuple[Subnets, tuple[SubnetStatus, ...]]:
    """Two subnets in a zone, one of 251 addresses and one of 59, and one in another zone."""
    for zone, cidr in (("a", "10.0.1.0/24"), ("a", "10.0.2.0/26"), ("b", "10.0.3.0/24")):
        place.account.subnet(f"us-west-2{zone}", cidr)
    subnets = Subnets(place.aws, place.clock)
    found = await subnets.list(node_class())
    return subnets, tuple(each.status for each in found)


@pytest.mark.case("AWS-85")
async def test_one_subnet_is_chosen_per_zone(place: Place) -> None:
    subnets, listed = await zonal(place)
    large_a = next(each.id for each in listed if each.zone == "us-west-2a")
    chosen = subnets.choose(
        listed, fewest_pods([kind("m5.large", 29, "us-west-2a", "us-west-2b")], "spot")
    )

    assert ["us-west-2a", "us-west-2b"] == sorted(each.zone for each in chosen)
    assert large_a in {each.subnet_id for each in chosen}
    assert {29} == {each.predicted for each in chosen}


@pytest.mark.case("AWS-86")
async def test_launches_under_way_make_the_other_subnet_the_larger(place: Place) -> None:
    subnets, listed = await zonal(place)
    types = [kind("large", 737, "us-west-2a"), kind("small", 200, "us-west-2a")]

    def chosen_in_a() -> str:
        chosen = subnets.choose(listed, fewest_pods(types, "spot"))
        return next(each.subnet_id for each in chosen if each.zone == "us-west-2a")

    first, second, third = chosen_in_a(), chosen_in_a(), chosen_in_a()
    assert first != second
    assert first == third
    assert 251 - 200 - 200 == subnets.left(first)
    assert 59 - 200 == subnets.left(second)


@pytest.mark.case("AWS-87")
async def test_addresses_of_a_failed_launch_are_given_back(place: Place) -> None:
    subnets, listed = await zonal(place)
    before = [subnets.left(each.id) for each in listed]
    chosen = subnets.choose(
        listed, fewest_pods([kind("m5.large", 29, "us-west-2a", "us-west-2b")], "spot")
    )
    subnets.release(chosen)

    assert before == [subnets.left(each.id) for each in listed]


async def test_addresses_of_the_subnet_that_was_used_are_kept(place: Place) -> None:
    subnets, listed = await zonal(place)
    chosen = subnets.choose(
        listed, fewest_pods([kind("m5.large", 29, "us-west-2a", "us-west-2b")], "spot")
    )
    used, unused = sorted(chosen, key=lambda each: each.zone)
    subnets.release(chosen, used={used.subnet_id})

    assert (251 - 29, 251) == (subnets.left(used.subnet_id), subnets.left(unused.subnet_id))


async def test_a_new_count_knows_better_than_what_was_under_way(place: Place) -> None:
    subnets, listed = await zonal(place)
    chosen = subnets.choose(listed, fewest_pods([kind("m5.large", 29, "us-west-2a")], "spot"))
    place.clock.passed += 61.0
    await subnets.list(node_class())
    subnets.release(chosen)

    assert [251, 251, 59] == sorted((subnets.left(each.id) for each in listed), reverse=True)


async def test_an_old_launch_gives_nothing_back_after_a_new_count(place: Place) -> None:
    subnets, listed = await zonal(place)
    types = [kind("m5.large", 29, "us-west-2b")]
    old = subnets.choose(listed, fewest_pods(types, "spot"))
    place.clock.passed += 61.0
    await subnets.list(node_class())
    subnets.choose(listed, fewest_pods(types, "spot"))
    subnets.release(old)

    in_b = next(each.subnet_id for each in old if each.zone == "us-west-2b")
    assert 251 - 29 == subnets.left(in_b)


async def test_of_two_equal_subnets_the_one_listed_first_is_chosen(place: Place) -> None:
    for cidr in ("10.0.1.0/24", "10.0.2.0/24"):
        place.account.subnet("us-west-2a", cidr)
    subnets = Subnets(place.aws, place.clock)
    listed = tuple(each.status for each in await subnets.list(node_class()))
    chosen = subnets.choose(listed, fewest_pods([], "spot"))

    assert [listed[0].id] == [each.subnet_id for each in chosen]
    assert sorted(each.id for each in listed) == [each.id for each in listed]


async def test_what_cannot_be_had_is_not_counted_on(place: Place) -> None:
    subnets, listed = await zonal(place)
    sold_out = kind("tiny", 4, "us-west-2b")
    sold_out = sold_out.with_offerings(
        tuple(replace(each, available=False) for each in sold_out.offerings)
    )
    chosen = subnets.choose(
        listed, fewest_pods([sold_out, kind("m5.large", 29, "us-west-2b")], "spot")
    )

    assert [29] == [each.predicted for each in chosen if each.zone == "us-west-2b"]


async def test_a_subnet_without_addresses_is_not_chosen(place: Place) -> None:
    subnets, listed = await zonal(place)
    first = subnets.choose(listed, fewest_pods([], "spot"))
    in_a = next(each.subnet_id for each in first if each.zone == "us-west-2a")
    subnets.exhaust(in_a)
    second = subnets.choose(listed, fewest_pods([], "spot"))

    assert in_a not in {each.subnet_id for each in second}
    assert 0 == subnets.left(in_a)


async def test_only_offerings_of_the_capacity_type_count(place: Place) -> None:
    subnets, listed = await zonal(place)
    types = [kind("m5.large", 29, "us-west-2a", capacity_type="on-demand")]
    chosen = subnets.choose(listed, fewest_pods(types, "spot"))

    assert {0} == {each.predicted for each in chosen}


# Security groups


@pytest.mark.case("AWS-41")
async def test_a_group_found_three_ways_is_listed_once(place: Place) -> None:
    group = place.account.security_group("nodes")
    other = place.account.security_group("others", {})
    terms = (
        SecurityGroupSelectorTerm(id=group),
        SecurityGroupSelectorTerm(name="nodes"),
        SecurityGroupSelectorTerm(tags=DISCOVERY),
        SecurityGroupSelectorTerm(name="others"),
    )
    wanted = node_class(security_group_selector_terms=terms)
    found = await SecurityGroups(place.aws, place.clock).list(wanted)

    assert sorted([group, other]) == [each.id for each in found]
    assert 3 == place.aws.count("DescribeSecurityGroups")


async def test_a_group_term_with_an_id_uses_only_that(place: Place) -> None:
    group = place.account.security_group("nodes")
    place.account.security_group("others", {})
    terms = (SecurityGroupSelectorTerm(id=group, name="others"),)
    found = await SecurityGroups(place.aws, place.clock).list(
        node_class(security_group_selector_terms=terms)
    )

    assert [group] == [each.id for each in found]


async def test_no_group_is_found(place: Place) -> None:
    assert () == await SecurityGroups(place.aws, place.clock).list(node_class())


# Capacity reservations


def reserving(*terms: CapacityReservationSelectorTerm) -> Any:
    return node_class(capacity_reservation_selector_terms=terms)


@pytest.mark.case("AWS-53")
async def test_reservations_that_have_ended_are_dropped_and_blocks_end_early(
    place: Place,
) -> None:
    now = place.clock.now()
    block = {"ReservationType": "capacity-block"}
    place.aws.state.reservations = [
        reservation("cr-1", EndDate=now),
        reservation("cr-2", EndDate=now + timedelta(minutes=39), **block),
        reservation("cr-3", EndDate=now + timedelta(minutes=41), **block),
        reservation("cr-4", EndDate=now + timedelta(minutes=1)),
        reservation("cr-5"),
        reservation("cr-6", State="expired"),
    ]
    term = CapacityReservationSelectorTerm(instance_match_criteria="targeted")
    found = await CapacityReservations(place.aws, place.clock).list(reserving(term))

    assert [
        ("cr-2", "capacity-block", "expiring"),
        ("cr-3", "capacity-block", "active"),
        ("cr-4", "default", "active"),
        ("cr-5", "default", "active"),
    ] == [(each.id, each.reservation_type, each.state) for each in found]


async def test_a_block_begins_to_end_without_being_asked_for_again(place: Place) -> None:
    end = place.clock.now() + timedelta(minutes=40, seconds=30)
    place.aws.state.reservations = [
        reservation("cr-1", EndDate=end, ReservationType="capacity-block")
    ]
    reservations = CapacityReservations(place.aws, place.clock)
    wanted = reserving(CapacityReservationSelectorTerm(id="cr-1"))
    before = await reservations.list(wanted)
    place.clock.passed += 31.0
    after = await reservations.list(wanted)

    assert ("active", "expiring") == (before[0].state, after[0].state)
    assert 1 == place.aws.count("DescribeCapacityReservations")


async def test_reservations_are_found_by_tag_owner_and_id_and_missing_ids_are_passed_over(
    place: Place,
) -> None:
    tags = [{"Key": "team", "Value": "blue"}]
    place.aws.state.reservations = [
        reservation("cr-1", Tags=tags),
        reservation("cr-2", Tags=tags, OwnerId="210987654321"),
        reservation("cr-3"),
        reservation("cr-4"),
    ]
    found = await CapacityReservations(place.aws, place.clock).list(
        reserving(
            CapacityReservationSelectorTerm(tags={"team": "*"}, owner_id="210987654321"),
            CapacityReservationSelectorTerm(id="cr-3"),
            CapacityReservationSelectorTerm(id="cr-9"),
        )
    )

    assert ["cr-2", "cr-3"] == [each.id for each in found]


async def test_counts_follow_launches_until_ec2_counts_again(place: Place) -> None:
    place.aws.state.reservations = [reservation("cr-1", AvailableInstanceCount=1)]
    reservations = CapacityReservations(place.aws, place.clock)
    wanted = reserving(CapacityReservationSelectorTerm(id="cr-1"))
    counts = []
    await reservations.list(wanted)
    counts.append(reservations.available("cr-1"))
    for change in (reservations.launched, reservations.launched, reservations.terminated):
        change("cr-1")
        counts.append(reservations.available("cr-1"))
    reservations.exhaust("cr-1")
    counts.append(reservations.available("cr-1"))
    place.clock.passed += 61.0
    await reservations.list(wanted)
    counts.append(reservations.available("cr-1"))

    assert [1, 0, 0, 1, 0, 1] == counts


# Placement groups


async def test_a_placement_group_is_found_by_name_or_id(place: Place) -> None:
    place.aws.state.groups = [placement_group("pg-1", "parts", "partition", 3)]
    groups = PlacementGroups(place.aws, place.clock)
    by_name = await groups.resolve(
        node_class(placement_group_selector=PlacementGroupSelector(name="parts"))
    )
    by_id = await groups.resolve(
        node_class(placement_group_selector=PlacementGroupSelector(id="pg-1"))
    )

    assert by_name == by_id
    assert by_id is not None
    assert ("1", "2", "3") == by_id.partition_numbers


@pytest.mark.case("AWS-54")
async def test_a_placement_group_that_does_not_exist(place: Place) -> None:
    selector = PlacementGroupSelector(name="none")
    groups = PlacementGroups(place.aws, place.clock)

    assert await groups.resolve(node_class(placement_group_selector=selector)) is None
    assert await groups.resolve(node_class()) is None


async def test_a_group_stays_known_while_ec2_does_not_answer(place: Place) -> None:
    place.aws.state.groups = [placement_group("pg-1", "one")]
    wanted = node_class(placement_group_selector=PlacementGroupSelector(name="one"))
    groups = PlacementGroups(place.aws, place.clock)
    await groups.resolve(wanted)
    place.clock.passed += 61.0
    place.aws.fail("ec2", "DescribePlacementGroups", "UnauthorizedOperation")

    with pytest.raises(AwsError):
        await groups.resolve(wanted)
    known = groups.known(wanted)
    assert known is not None
    assert "pg-1" == known.id
