"""Which types a node class can have where, at what price, and what rules them out."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from helpers.aws_fakes import FakeAws, HandClock, moto_cloud, node_class, placement_group
from helpers.builders import NOW
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import (
    AMIStatus,
    CapacityReservationStatus,
    ConnectionTracking,
    CPUOptions,
    EC2NodeClass,
    EC2NodeClassStatus,
    NetworkInterface,
    PlacementGroupSelector,
    SubnetStatus,
)
from karpenter.clock import Clock, run_virtual
from karpenter.cloud.aws.launch.filters import Wanted, compatible_available
from karpenter.cloud.aws.network.placement_groups import PlacementGroups
from karpenter.cloud.aws.node_class.conditions import SUBNETS as SUBNETS_READY
from karpenter.cloud.aws.node_class.conditions import with_condition
from karpenter.cloud.aws.prices.pricing import Pricing
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.simulated.moto_gaps import described_types
from karpenter.cloud.aws.types.catalogue import CatalogueError
from karpenter.cloud.aws.types.instance_types import InstanceTypes, NoTypesError
from karpenter.cloud.aws.types.labels import only
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.aws.types.unavailable import Place, UnavailableOfferings
from karpenter.cloud.contract import type_problems
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirement import Requirement, requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

TOO_SMALL = ["nano", "micro", "small", "medium", "large"]
SUBNETS = tuple(
    SubnetStatus(id=f"subnet-{zone}", zone=f"us-west-2{zone}", zone_id=f"usw2-az{number}")
    for number, zone in enumerate("abc", start=1)
)
IMAGES = (AMIStatus(id="ami-1"),)


class Shop:
    """The instance types of a region, and everything they depend on."""

    def __init__(self, aws: FakeAws, clock: Clock, **options: Any) -> None:
        self.aws = aws
        self.unavailable = UnavailableOfferings(clock)
        self.pricing = Pricing(aws, clock)
        self.reservations = CapacityReservations(aws, clock)
        self.shifted: frozenset[str] = frozenset()
        self.types = InstanceTypes(
            aws,
            clock,
            AwsSettings(cluster_name="demo"),
            pricing=self.pricing,
            unavailable=self.unavailable,
            reservations=self.reservations,
            groups=PlacementGroups(aws, clock),
            shifted_zone_ids=lambda: self.shifted,
            **options,
        )

    async def list(self, wanted: EC2NodeClass) -> dict[str, InstanceType]:
        return {kind.name: kind for kind in await self.types.list(wanted)}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def shop(clock: HandClock) -> Iterator[Shop]:
    with moto_cloud(clock) as aws:
        aws.state.types = frozenset(
            {"m5.large", "m5.metal", "a1.large", "t2.large", "c6g.large", "p4d.24xlarge"}
            | {"m8i.large", "c5.large"}
        )
        yield Shop(aws, clock)


def found(*, subnets: tuple[SubnetStatus, ...] = SUBNETS, **spec: Any) -> EC2NodeClass:
    """A node class that has been looked at."""
    status = EC2NodeClassStatus(subnets=subnets, amis=IMAGES)
    return msgspec.structs.replace(node_class(**spec), status=status)


def offering(kind: InstanceType, zone: str, capacity_type: str) -> Offering:
    return next(
        each
        for each in kind.offerings
        if (each.zone, each.capacity_type) == (f"us-west-2{zone}", capacity_type)
    )


def can_be_had(kind: InstanceType) -> bool:
    return any(each.available for each in kind.offerings)


@pytest.mark.case("AWS-77")
async def test_zones_without_a_subnet_are_shown_and_cannot_be_had(shop: Shop) -> None:
    await shop.types.refresh()
    kind = (await shop.list(found()))["m5.large"]

    assert offering(kind, "a", "on-demand").available
    assert not offering(kind, "d", "on-demand").available
    assert {"us-west-2a", "us-west-2b", "us-west-2c"} == kind.requirements[labels.ZONE].values
    assert {"usw2-az1", "usw2-az2", "usw2-az3"} == kind.requirements[ec2_labels.ZONE_ID].values


async def test_the_whole_catalogue_is_well_formed(clock: HandClock) -> None:
    with moto_cloud(clock) as aws:
        shop = Shop(aws, clock)
        await shop.types.refresh()
        everywhere = (*SUBNETS, SubnetStatus(id="subnet-d", zone="us-west-2d", zone_id="usw2-az4"))
        types = await shop.types.list(found(subnets=everywhere))

    zones = {name: entry.zones for name, entry in shop.types.catalogue.entries.items()}
    assert 1258 == len(types)
    sold = [kind for kind in types if len(zones[kind.name]) == 4]
    assert len(sold) > 500
    assert [] == [problem for kind in sold for problem in type_problems(kind)]


async def test_nothing_is_worked_out_twice(shop: Shop) -> None:
    await shop.types.refresh()
    wanted = found()

    assert await shop.types.list(wanted) is await shop.types.list(wanted)


@pytest.mark.case("AWS-91")
async def test_what_is_sold_out_is_hidden_for_three_minutes(shop: Shop, clock: HandClock) -> None:
    await shop.types.refresh()
    wanted = found()
    before = await shop.list(wanted)
    shop.unavailable.mark(Place("m5.large", "us-west-2a", "spot"))
    marked = await shop.list(wanted)
    clock.passed += 200.0
    later = await shop.list(wanted)

    assert offering(before["m5.large"], "a", "spot").available
    assert not offering(marked["m5.large"], "a", "spot").available
    assert offering(marked["m5.large"], "a", "on-demand").available
    assert offering(marked["m5.large"], "b", "spot").available
    assert marked["c5.large"] is before["c5.large"]
    assert offering(later["m5.large"], "a", "spot").available


@pytest.mark.case("AWS-92")
async def test_a_zone_is_closed_when_all_its_subnets_are_full(shop: Shop) -> None:
    await shop.types.refresh()
    second = SubnetStatus(id="subnet-a2", zone="us-west-2a", zone_id="usw2-az1")
    wanted = found(subnets=(*SUBNETS, second))
    shop.unavailable.mark_subnet("subnet-a")
    one_full = await shop.list(wanted)
    shop.unavailable.mark_subnet("subnet-a2")
    both_full = await shop.list(wanted)

    assert offering(one_full["m5.large"], "a", "spot").available
    assert not offering(both_full["m5.large"], "a", "spot").available
    assert offering(both_full["m5.large"], "b", "spot").available


@pytest.mark.case("AWS-93")
async def test_a_capacity_type_that_cannot_be_had_is_closed_everywhere(shop: Shop) -> None:
    await shop.types.refresh()
    shop.unavailable.mark_capacity_type("spot")
    types = await shop.list(found())

    offerings = [each for kind in types.values() for each in kind.offerings]
    assert not any(each.available for each in offerings if each.capacity_type == "spot")
    assert any(each.available for each in offerings if each.capacity_type == "on-demand")


@pytest.mark.case("AWS-136")
async def test_zones_shifted_away_from_are_closed(shop: Shop) -> None:
    await shop.types.refresh()
    shop.shifted = frozenset({"usw2-az1"})
    shifted = await shop.list(found())
    shop.shifted = frozenset()
    cleared = await shop.list(found())

    assert not offering(shifted["m5.large"], "a", "on-demand").available
    assert offering(shifted["m5.large"], "b", "on-demand").available
    assert offering(cleared["m5.large"], "a", "on-demand").available


@pytest.mark.parametrize(
    ("spec", "possible", "impossible"),
    [
        pytest.param({"ami_family": "AL2023"}, "m5.large", "a1.large", id="AWS-68 a1 with AL2023"),
        pytest.param({"ami_family": "AL2"}, "a1.large", None, id="AWS-68 a1 with AL2"),
        pytest.param(
            {"cpu_options": CPUOptions(nested_virtualization="enabled")},
            "m8i.large",
            "m5.large",
            id="AWS-69 nested virtualization",
        ),
        pytest.param(
            {"connection_tracking": ConnectionTracking(udp_timeout=45)},
            "m5.large",
            "m5.metal",
            id="AWS-70 connection tracking and metal",
        ),
        pytest.param(
            {"connection_tracking": ConnectionTracking(udp_timeout=45)},
            "m5.large",
            "t2.large",
            id="AWS-70 connection tracking and Xen",
        ),
        pytest.param(
            {
                "network_interfaces": (
                    NetworkInterface(interface_type="interface"),
                    NetworkInterface(network_card_index=1, interface_type="interface"),
                )
            },
            "p4d.24xlarge",
            "m5.large",
            id="a second network card",
        ),
        pytest.param(
            {
                "network_interfaces": (
                    NetworkInterface(interface_type="interface"),
                    NetworkInterface(device_index=1, interface_type="efa-only"),
                )
            },
            "p4d.24xlarge",
            "m5.large",
            id="EFA",
        ),
        pytest.param(
            {
                "network_interfaces": (
                    NetworkInterface(interface_type="interface"),
                    NetworkInterface(device_index=3, interface_type="interface"),
                )
            },
            "m5.metal",
            "m5.large",
            id="a fourth interface",
        ),
    ],
)
async def test_types_a_node_class_rules_out_are_shown_and_cannot_be_had(
    shop: Shop, spec: dict[str, Any], possible: str, impossible: str | None
) -> None:
    await shop.types.refresh()
    types = await shop.list(found(**spec))

    assert can_be_had(types[possible])
    assert impossible is None or not can_be_had(types[impossible])


async def test_partitions_multiply_offerings(shop: Shop) -> None:
    shop.aws.state.groups = [placement_group("pg-1", "parts", "partition", 3)]
    await shop.types.refresh()
    selector = PlacementGroupSelector(name="parts")
    kind = (await shop.list(found(placement_group_selector=selector)))["m5.large"]
    plain = (await shop.list(found()))["m5.large"]

    assert 3 * len(plain.offerings) == len(kind.offerings)
    assert {"pg-1"} == kind.requirements[ec2_labels.PLACEMENT_GROUP_ID].values
    assert {"1", "2", "3"} == kind.requirements[ec2_labels.PLACEMENT_GROUP_PARTITION].values
    assert set() == plain.requirements[ec2_labels.PLACEMENT_GROUP_ID].values


async def test_what_a_group_is_sold_out_of_others_still_have(shop: Shop) -> None:
    shop.aws.state.groups = [placement_group("pg-1", "parts", "partition", 2)]
    await shop.types.refresh()
    shop.unavailable.mark(Place("m5.large", "us-west-2a", "spot", "pg-1", "2"))
    grouped = await shop.list(found(placement_group_selector=PlacementGroupSelector(name="parts")))
    plain = await shop.list(found())

    partitions = [
        (each.requirements[ec2_labels.PLACEMENT_GROUP_PARTITION].any(), each.available)
        for each in grouped["m5.large"].offerings
        if (each.zone, each.capacity_type) == ("us-west-2a", "spot")
    ]
    assert [("1", True), ("2", False)] == partitions
    assert offering(plain["m5.large"], "a", "spot").available


def reserved_class(state: str = "active") -> EC2NodeClass:
    wanted = found()
    reservation = CapacityReservationStatus(
        id="cr-1", availability_zone="us-west-2a", instance_type="m5.large", state=state
    )
    status = msgspec.structs.replace(wanted.status, capacity_reservations=(reservation,))
    return msgspec.structs.replace(wanted, status=status)


@pytest.mark.case("AWS-76")
async def test_a_reservation_is_an_offering_that_costs_next_to_nothing(shop: Shop) -> None:
    await shop.types.refresh()
    shop.reservations.terminated("cr-1")
    kind = (await shop.list(reserved_class()))["m5.large"]
    reserved = offering(kind, "a", "reserved")

    assert 9.6e-9 == pytest.approx(reserved.price, abs=0)
    assert (True, "cr-1", 1) == (
        reserved.available,
        reserved.reservation_id,
        reserved.reservation_capacity,
    )
    assert {"cr-1"} == reserved.requirements[ec2_labels.CAPACITY_RESERVATION_ID].values
    on_demand = offering(kind, "a", "on-demand").requirements
    assert set() == on_demand[ec2_labels.CAPACITY_RESERVATION_ID].values
    assert {"on-demand", "spot", "reserved"} == kind.requirements[labels.CAPACITY_TYPE].values


async def test_a_reservation_that_is_used_up_or_ends_cannot_be_had(shop: Shop) -> None:
    await shop.types.refresh()
    shop.reservations.terminated("cr-1")
    before = await shop.list(reserved_class())
    ending = await shop.list(reserved_class("expiring"))
    shop.reservations.launched("cr-1")
    after = await shop.list(reserved_class())

    assert offering(before["m5.large"], "a", "reserved").is_launchable
    assert not offering(ending["m5.large"], "a", "reserved").available
    used_up = offering(after["m5.large"], "a", "reserved")
    assert not used_up.is_launchable
    # healthy all the same: a node that is terminated first makes room on it
    assert (True, 0) == (used_up.available, used_up.reservation_capacity)


async def test_without_the_gate_there_are_no_reservations(clock: HandClock) -> None:
    with moto_cloud(clock) as aws:
        aws.state.types = frozenset({"m5.large"})
        shop = Shop(aws, clock, uses_reservations=False)
        await shop.types.refresh()
        kind = (await shop.list(reserved_class()))["m5.large"]

    assert {"on-demand", "spot"} == {each.capacity_type for each in kind.offerings}
    assert {"on-demand", "spot"} == kind.requirements[labels.CAPACITY_TYPE].values


@pytest.mark.case("AWS-67")
async def test_the_least_memory_ever_seen_counts(shop: Shop) -> None:
    await shop.types.refresh()
    wanted = found()
    for mebibytes in (7700, 7600, 7800):
        shop.types.memory.learn("m5.large", IMAGES, mebibytes * 2**20)
    learned = (await shop.list(wanted))["m5.large"]
    other = msgspec.structs.replace(wanted.status, amis=(AMIStatus(id="ami-2"),))
    unlearned = (await shop.list(msgspec.structs.replace(wanted, status=other)))["m5.large"]

    assert 7600 * 2**20 == learned.capacity.memory
    assert 7577 * 2**20 == unlearned.capacity.memory


async def test_memory_is_forgotten_after_sixty_days(shop: Shop, clock: HandClock) -> None:
    shop.types.memory.learn("m5.large", IMAGES, 7600 * 2**20)
    clock.passed += 61 * 86400.0

    assert shop.types.memory.of("m5.large", IMAGES) is None


async def test_nothing_can_be_listed_before_it_is_known(shop: Shop) -> None:
    with pytest.raises(NoTypesError, match="no instance types found"):
        await shop.types.list(found())
    await shop.types.refresh()
    with pytest.raises(NoTypesError, match=r"no subnets found .* discovery has not run yet"):
        await shop.types.list(found(subnets=()))
    looked = with_condition(found(subnets=()), SUBNETS_READY, "False", "SubnetsNotFound", now=NOW)
    with pytest.raises(NoTypesError, match=r"no subnets found for node class default$"):
        await shop.types.list(looked)


async def test_a_region_that_sells_nothing_is_an_error(shop: Shop) -> None:
    shop.aws.state.types = frozenset({"none.such"})

    with pytest.raises(CatalogueError, match="lists no instance types in us-west-2"):
        await shop.types.refresh()


@cache
def everything() -> tuple[InstanceType, ...]:
    """All types of the region, as a node class with subnets everywhere has them."""

    async def listed() -> tuple[InstanceType, ...]:
        clock = HandClock()
        with moto_cloud(clock) as aws:
            shop = Shop(aws, clock)
            await shop.types.refresh()
            more = SubnetStatus(id="subnet-d", zone="us-west-2d", zone_id="usw2-az4")
            return await shop.types.list(found(subnets=(*SUBNETS, more)))

    return run_virtual(listed())


def that_suit(*requirements: Requirement) -> set[str]:
    """The types a claim could become."""
    wanted = Wanted(
        Requirements(requirements),
        Resources(cpu=1),
        (labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN),
    )
    return {kind.name for kind in compatible_available(everything(), wanted)}


@pytest.mark.parametrize(
    ("asked", "judge"),
    [
        pytest.param(
            requirement(ec2_labels.INSTANCE_CATEGORY, "In", ["c", "m", "r"]),
            lambda name, entry: re.match(r"[cmr][0-9]", name) is not None,
            marks=pytest.mark.row("S1-16"),
            id="a category",
        ),
        pytest.param(
            requirement(ec2_labels.INSTANCE_CPU, "In", ["4", "8", "16", "32"]),
            lambda name, entry: entry["VCpuInfo"]["DefaultVCpus"] in (4, 8, 16, 32),
            marks=pytest.mark.row("S1-17"),
            id="a number of processors",
        ),
        pytest.param(
            requirement(ec2_labels.INSTANCE_HYPERVISOR, "In", ["nitro"]),
            lambda name, entry: entry.get("Hypervisor") == "nitro",
            marks=pytest.mark.row("S1-18"),
            id="a hypervisor",
        ),
        pytest.param(
            requirement(ec2_labels.INSTANCE_GENERATION, "Gt", ["2"]),
            lambda name, entry: (
                re.match(r"[a-z]+(?:-[0-9]+tb)?([3-9]|[1-9][0-9]+)", name) is not None
            ),
            marks=pytest.mark.row("S1-19"),
            id="a generation",
        ),
        pytest.param(
            requirement(ec2_labels.INSTANCE_SIZE, "NotIn", TOO_SMALL),
            lambda name, entry: "xlarge" in name or "metal" in name,
            marks=pytest.mark.row("S2-60"),
            id="sizes that are too small",
        ),
    ],
)
def test_pools_choose_types_by_requirement(
    asked: Requirement, judge: Callable[[str, Any], bool]
) -> None:
    sold = that_suit()

    expected = {name for name in sold if judge(name, described_types()[name])}
    assert 100 < len(expected) < len(sold)
    assert expected == that_suit(asked)


@pytest.mark.case("AWS-59")
async def test_windows_types_of_another_architecture_are_never_launched(shop: Shop) -> None:
    await shop.types.refresh()
    types = (await shop.list(found(ami_family="Windows2022"))).values()
    for system in ("windows", "linux"):
        asked = Requirements([only(labels.OS, system)])
        wanted = Wanted(asked, Resources(cpu=100), (labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN))
        left = {kind.name for kind in compatible_available(list(types), wanted)}

        assert ("m5.large" in left) == (system == "windows")
        assert "c6g.large" not in left
    assert "c6g.large" in {kind.name for kind in types}


@pytest.mark.case("AWS-73")
async def test_a_zone_without_a_spot_price_cannot_be_had(shop: Shop, clock: HandClock) -> None:
    await shop.types.refresh()
    before = await shop.list(found())
    shop.aws.state.spot_prices = {("m5.large", "us-west-2a"): 0.04}
    await shop.pricing.refresh_spot()
    clock.passed += 301.0
    after = await shop.list(found())

    assert offering(before["m5.large"], "b", "spot").available
    assert offering(after["m5.large"], "a", "spot").available
    assert not offering(after["m5.large"], "b", "spot").available
    assert offering(after["m5.large"], "b", "on-demand").available
