"""Batching, what is sold out, settings and drift: each on its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodeClaimStatus
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import (
    CapacityReservationStatus,
    EC2NodeClass,
    EC2NodeClassStatus,
    SecurityGroupStatus,
    SubnetStatus,
)
from karpenter.clock import running_clock
from karpenter.cloud.aws.ec2.batching import Batcher, Window
from karpenter.cloud.aws.ec2.provider_id import instance_id_of, provider_id
from karpenter.cloud.aws.instances import drift
from karpenter.cloud.aws.instances.drift import Launched
from karpenter.cloud.aws.interruption.repair_policies import REPAIR_POLICIES
from karpenter.cloud.aws.settings import AwsSettings, read_settings
from karpenter.cloud.aws.types.unavailable import Place, UnavailableOfferings
from karpenter.cloud.provider import CloudError
from karpenter.cloud.registry import ProviderError
from karpenter.cloud.repair import violations

WINDOW = Window(idle=0.1, longest=1.0, most=5)


class Echo:
    """Answers with what was asked, and remembers what came together."""

    def __init__(self, error: Exception | None = None) -> None:
        self.batches: list[list[int]] = []
        self.seen: list[tuple[str, int, float]] = []
        self._error = error

    async def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(asked))
        if self._error is not None:
            raise self._error
        return [ValueError("odd") if each < 0 else each for each in asked]

    def observe(self, name: str, count: int, seconds: float) -> None:
        self.seen.append((name, count, round(seconds, 3)))


def batcher(echo: Echo) -> Batcher[int, int]:
    return Batcher("echo", WINDOW, running_clock(), echo, echo.observe)


@in_virtual_time
async def test_requests_that_come_together_share_a_call() -> None:
    echo = Echo()
    gathered = batcher(echo)

    answers = await asyncio.gather(*(gathered.ask(number) for number in range(4)))

    assert [0, 1, 2, 3] == answers
    assert [[0, 1, 2, 3]] == echo.batches
    assert [("echo", 4, 0.1)] == echo.seen


@in_virtual_time
async def test_a_full_window_closes_at_once() -> None:
    echo = Echo()
    gathered = batcher(echo)

    await asyncio.gather(*(gathered.ask(number) for number in range(12)))

    assert [5, 5, 2] == [len(batch) for batch in echo.batches]
    assert [0.0, 0.0, 0.1] == [seconds for _, _, seconds in echo.seen]


@in_virtual_time
async def test_a_window_that_never_idles_closes_in_time() -> None:
    echo = Echo()
    clock = running_clock()
    gathered = Batcher("echo", Window(0.1, 1.0, 1000), clock, echo, echo.observe)
    tasks = []
    for number in range(30):
        tasks.append(asyncio.ensure_future(gathered.ask(number)))
        await clock.sleep(0.09)
    await asyncio.gather(*tasks)

    assert [("echo", 12, 1.0), ("echo", 12, 1.0)] == echo.seen[:2]


@in_virtual_time
async def test_requests_that_are_not_alike_do_not_share_a_call() -> None:
    echo = Echo()
    gathered = batcher(echo)

    await asyncio.gather(*(gathered.ask(number, number % 2) for number in range(4)))

    assert [[0, 2], [1, 3]] == sorted(echo.batches)


@in_virtual_time
async def test_an_error_of_the_call_is_everybodys() -> None:
    gathered = batcher(Echo(CloudError("down")))

    answers = await asyncio.gather(gathered.ask(1), gathered.ask(2), return_exceptions=True)

    assert ["down", "down"] == [str(each) for each in answers]


@in_virtual_time
async def test_an_error_of_one_request_is_its_own() -> None:
    gathered = batcher(Echo())

    answers = await asyncio.gather(gathered.ask(1), gathered.ask(-1), return_exceptions=True)

    assert 1 == answers[0]
    assert isinstance(answers[1], ValueError)


@in_virtual_time
async def test_whoever_stops_waiting_does_not_stop_the_others() -> None:
    echo = Echo()
    gathered = batcher(echo)
    impatient = asyncio.ensure_future(gathered.ask(1))
    patient = asyncio.ensure_future(gathered.ask(2))
    await asyncio.sleep(0)
    impatient.cancel()

    assert 2 == await patient
    assert [[1, 2]] == echo.batches
    await gathered.finish()


PLACE = Place("m5.large", "us-west-2a", "spot")


@pytest.mark.case("AWS-91")
@in_virtual_time
async def test_an_offering_is_hidden_for_three_minutes_and_nothing_else() -> None:
    clock = running_clock()
    sold_out = UnavailableOfferings(clock)
    sold_out.mark(PLACE)

    assert sold_out.is_unavailable(PLACE)
    assert not sold_out.is_unavailable(Place("m5.large", "us-west-2a", "on-demand"))
    assert not sold_out.is_unavailable(Place("m5.large", "us-west-2b", "spot"))
    await clock.sleep(179)
    assert sold_out.is_unavailable(PLACE)
    before = sold_out.sequence
    await clock.sleep(11)
    assert not sold_out.is_unavailable(PLACE)
    assert before < sold_out.sequence


@in_virtual_time
async def test_marking_again_makes_it_longer() -> None:
    clock = running_clock()
    sold_out = UnavailableOfferings(clock)
    sold_out.mark(PLACE)
    await clock.sleep(120)
    sold_out.mark(PLACE)
    await clock.sleep(120)

    assert sold_out.is_unavailable(PLACE)


@pytest.mark.case("AWS-92")
@in_virtual_time
async def test_a_zone_is_full_when_all_its_subnets_are() -> None:
    sold_out = UnavailableOfferings(running_clock())
    sold_out.mark_subnet("subnet-1")

    assert not sold_out.are_full(["subnet-1", "subnet-2"])
    sold_out.mark_subnet("subnet-2")
    assert sold_out.are_full(["subnet-1", "subnet-2"])
    assert not sold_out.are_full([])


@pytest.mark.case("AWS-93")
@in_virtual_time
async def test_a_capacity_type_can_be_sold_out_altogether() -> None:
    sold_out = UnavailableOfferings(running_clock())
    sold_out.mark_capacity_type("spot")

    assert sold_out.is_unavailable(Place("any.type", "any-zone", "spot"))
    assert not sold_out.is_unavailable(Place("any.type", "any-zone", "on-demand"))


@in_virtual_time
async def test_what_a_placement_group_lacks_is_there_outside_of_it() -> None:
    sold_out = UnavailableOfferings(running_clock())
    sold_out.mark(Place("m5.large", "a", "spot", "pg-1", "2"))

    assert sold_out.is_unavailable(Place("m5.large", "a", "spot", "pg-1", "2"))
    assert not sold_out.is_unavailable(Place("m5.large", "a", "spot", "pg-1", "1"))
    assert not sold_out.is_unavailable(Place("m5.large", "a", "spot"))
    sold_out.mark(Place("m5.large", "a", "spot", "pg-1"))
    assert sold_out.is_unavailable(Place("m5.large", "a", "spot", "pg-1", "1"))


@pytest.mark.case("AWS-131")
@pytest.mark.parametrize(
    ("environment", "why"),
    [
        pytest.param({}, "CLUSTER_NAME is missing", id="no cluster name"),
        pytest.param({"RESERVED_ENIS": "-1"}, "RESERVED_ENIS", id="fewer than no interfaces"),
        pytest.param({"AMI_REFRESH_INTERVAL": "30s"}, "AMI_REFRESH_INTERVAL", id="too often"),
        pytest.param(
            {"SUBNET_REFRESH_INTERVAL": "59s"}, "SUBNET_REFRESH_INTERVAL", id="subnets too often"
        ),
        pytest.param({"CLUSTER_ENDPOINT": "foo"}, "CLUSTER_ENDPOINT", id="no URL"),
        pytest.param(
            {"VM_MEMORY_OVERHEAD_PERCENT": "-0.1"}, "VM_MEMORY_OVERHEAD_PERCENT", id="negative"
        ),
    ],
)
def test_settings_that_cannot_be_right_end_the_start(environment: dict[str, str], why: str) -> None:
    given = {"CLUSTER_NAME": "demo", **environment} if environment else {}

    with pytest.raises(ProviderError, match=why):
        read_settings(given)


def test_settings_are_read_from_the_environment() -> None:
    settings = read_settings(
        {
            "CLUSTER_NAME": "demo",
            "ISOLATED_VPC": "true",
            "RESERVED_ENIS": "1",
            "VM_MEMORY_OVERHEAD_PERCENT": "0.1",
            "AMI_REFRESH_INTERVAL": "5m",
            "AWS_FEATURE_GATES": "NodeClassCEL=true,Unknown=true",
        }
    )

    assert (True, 1, 0.1, True) == (
        settings.isolated_vpc,
        settings.reserved_enis,
        settings.vm_memory_overhead_percent,
        settings.node_class_cel,
    )
    assert 300 == settings.ami_refresh_interval.total_seconds()


def test_settings_that_cannot_be_read_fall_back_to_their_defaults() -> None:
    odd = {
        "CLUSTER_NAME": "demo",
        "RESERVED_ENIS": "many",
        "VM_MEMORY_OVERHEAD_PERCENT": "nan",
        "ISOLATED_VPC": "perhaps",
        "SUBNET_REFRESH_INTERVAL": "soon",
    }

    assert AwsSettings(cluster_name="demo") == read_settings(odd)


HASHES = {
    ec2_labels.NODE_CLASS_HASH: "1",
    ec2_labels.NODE_CLASS_HASH_VERSION: "v6",
}


def claim(**annotations: str) -> NodeClaim:
    return NodeClaim(
        metadata=ObjectMeta(name="one", annotations=annotations),
        status=NodeClaimStatus(image_id="ami-1"),
    )


def node_class(annotations: dict[str, str] | None = None, **status: Any) -> EC2NodeClass:
    usual: dict[str, Any] = {
        "subnets": (SubnetStatus(id="subnet-1"),),
        "security_groups": (SecurityGroupStatus(id="sg-1"),),
        "conditions": (Condition(type="Ready", status="True"),),
    }
    return EC2NodeClass(
        metadata=ObjectMeta(name="default", annotations=annotations or {}),
        status=EC2NodeClassStatus(**(usual | status)),
    )


@pytest.mark.parametrize(
    ("mine", "its", "expected"),
    [
        pytest.param(HASHES, HASHES, "", id="equal"),
        pytest.param(
            HASHES | {ec2_labels.NODE_CLASS_HASH: "2"},
            HASHES,
            "NodeClassDrift",
            id="AWS-114 another hash",
        ),
        pytest.param(
            {ec2_labels.NODE_CLASS_HASH: "2", ec2_labels.NODE_CLASS_HASH_VERSION: "v5"},
            HASHES,
            "",
            id="AWS-115 another version of hashes says nothing",
        ),
        pytest.param({}, HASHES, "", id="a claim without a hash"),
        pytest.param(HASHES, {}, "", id="a class without a hash"),
    ],
)
def test_static_drift(mine: dict[str, str], its: dict[str, str], expected: str) -> None:
    assert expected == drift.static_drift(claim(**mine), node_class(its))


@pytest.mark.parametrize(
    ("launched", "expected"),
    [
        pytest.param(Launched(frozenset({"sg-1"}), "subnet-1"), "", id="as it should be"),
        pytest.param(
            Launched(frozenset({"sg-1", "sg-2"}), "subnet-2"),
            "SecurityGroupDrift",
            id="AWS-116 groups go before subnets",
        ),
        pytest.param(Launched(frozenset({"sg-1"}), "subnet-2"), "SubnetDrift", id="another subnet"),
    ],
)
def test_network_drift(launched: Launched, expected: str) -> None:
    assert expected == drift.network_drift(launched, node_class())


@pytest.mark.case("AWS-116")
def test_an_image_that_is_not_the_chosen_one_has_drifted() -> None:
    assert ("", "AMIDrift") == (
        drift.image_drift(claim(), "ami-1"),
        drift.image_drift(claim(), "ami-2"),
    )


def test_drift_cannot_be_told_without_facts() -> None:
    launched = Launched(frozenset({"sg-1"}), "subnet-1")

    with pytest.raises(CloudError, match="image"):
        drift.image_drift(NodeClaim(), "ami-1")
    with pytest.raises(CloudError, match="security groups"):
        drift.network_drift(launched, node_class(security_groups=()))
    with pytest.raises(CloudError, match="subnets"):
        drift.network_drift(launched, node_class(subnets=()))


def test_a_reservation_the_class_no_longer_selects_has_been_left() -> None:
    selected = node_class(capacity_reservations=(CapacityReservationStatus(id="cr-1"),))

    left = [
        drift.has_left_reservations(Launched(frozenset(), "", each), selected)
        for each in ("cr-1", "cr-2", "")
    ]

    assert [False, True, False] == left


def test_provider_ids_are_read_as_they_are_written() -> None:
    assert "i-0a1" == instance_id_of(provider_id("us-west-2a", "i-0a1"))
    assert ["", "", ""] == [
        instance_id_of(each) for each in ("", "kwok://x", "aws:///us-west-2a/vol-1")
    ]


def test_repair_policies_can_be_used() -> None:
    assert () == violations(REPAIR_POLICIES)
