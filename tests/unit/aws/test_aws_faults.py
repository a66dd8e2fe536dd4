"""Whatever goes wrong with AWS is retried or told in one sentence, and nothing is left behind."""

import asyncio

import pytest

from clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.aws.errors import AwsError
from karpenter.cloud.provider import (
    CloudError,
    CreateError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    RebootFailedError,
)
from karpenter.cloud.registry import ProviderError
from karpenter.model import labels
from unit.aws.aws_bed import POOL, AwsCloud, aws_cloud


async def gone(cloud: AwsCloud, claim: NodeClaim) -> None:
    """Delete a claim's instance until it is gone."""
    for _ in range(30):
        try:
            await cloud.provider.delete(claim)
        except InstanceNotFoundError:
            return
        except CloudError:
            await cloud.clock.sleep(5)
    raise AssertionError("the instance never went")


@in_virtual_time
async def test_throttled_launches_are_retried() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.throttle("CreateFleet", times=3)
        instance = await cloud.provider.create(await cloud.claim())

        assert [instance.provider_id.rpartition("/")[2]] == cloud.instance_ids()


@in_virtual_time
async def test_a_lost_answer_launches_nothing_twice() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.lose_answer("CreateFleet", times=2)
        await cloud.provider.create(await cloud.claim())

        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_when_no_answer_comes_at_all_the_next_attempt_finds_the_instance() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.lose_answer("CreateFleet", times=5)
        claim = await cloud.claim()
        with pytest.raises(CreateError):
            await cloud.provider.create(claim)
        assert 1 == len(cloud.instance_ids())

        instance = await cloud.provider.create(claim)

        assert [instance.provider_id.rpartition("/")[2]] == cloud.instance_ids()


@in_virtual_time
async def test_a_fleet_of_many_whose_answer_is_lost_is_not_launched_twice() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.lose_answer("CreateFleet", times=5)
        claims = [await cloud.claim(f"claim-{number}") for number in range(4)]
        failed = await asyncio.gather(
            *(cloud.provider.create(each) for each in claims), return_exceptions=True
        )
        assert all(isinstance(each, CreateError) for each in failed)

        instances = await asyncio.gather(*(cloud.provider.create(each) for each in claims))

        assert 4 == len({each.provider_id for each in instances}) == len(cloud.instance_ids())


@in_virtual_time
async def test_an_instance_that_cannot_be_seen_yet_is_neither_lost_nor_launched_again() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.invisible_seconds = 10.0
        claim = await cloud.launch(await cloud.claim())
        found = await cloud.provider.get(claim.status.provider_id)
        listed = await cloud.provider.list()
        again = await cloud.provider.create(claim)

        assert claim.status.provider_id == found.provider_id == again.provider_id
        assert [claim.status.provider_id] == [each.provider_id for each in listed]
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_an_instance_that_cannot_be_seen_yet_is_terminated_all_the_same() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.invisible_seconds = 10.0
        claim = await cloud.launch(await cloud.claim())

        await gone(cloud, claim)

        assert [] == cloud.instance_ids()


@in_virtual_time
async def test_a_restart_while_an_instance_cannot_be_seen_does_not_launch_another() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.invisible_seconds = 10.0
        claim = await cloud.claim()
        first = await cloud.provider.create(claim)
        await cloud.crash()
        cloud.make()
        cloud.lead()
        second = await cloud.provider.create(claim)

        assert first.provider_id == second.provider_id
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_expired_credentials_are_told_in_one_sentence() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail("CreateFleet", "RequestExpired", message="renew them", times=1)
        claim = await cloud.claim()
        with pytest.raises(CreateError, match="renew them") as caught:
            await cloud.provider.create(claim)

        assert "\n" not in str(caught.value)
        await cloud.provider.create(claim)
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_missing_permissions_are_told_in_one_sentence() -> None:
    async with aws_cloud() as cloud:
        message = "You are not authorized to perform this operation"
        cloud.account.faults.fail("CreateFleet", "UnauthorizedOperation", message=message)
        with pytest.raises(CreateError, match="lacks a permission") as caught:
            await cloud.provider.create(await cloud.claim())

        assert "Unauthorized" == caught.value.reason


@in_virtual_time
async def test_a_start_without_access_says_what_to_do() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.account.faults.fail("DescribeInstanceTypes", "UnauthorizedOperation", times=9)
        with pytest.raises(ProviderError, match="check the IAM policy"):
            await cloud.provider.start()


@in_virtual_time
async def test_a_start_in_the_wrong_region_says_so() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.account.client("eks").delete_cluster(name=cloud.account.cluster)
        with pytest.raises(ProviderError, match=r"provider aws cannot start: .*DescribeCluster"):
            await cloud.provider.start()


@in_virtual_time
async def test_a_subnet_deleted_in_the_middle_of_a_launch_is_told() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail(
            "CreateFleet", "InvalidSubnetID.NotFound", message="subnet-1 does not exist"
        )
        with pytest.raises(CreateError, match="subnet-1 does not exist"):
            await cloud.provider.create(await cloud.claim())

        assert [] == cloud.instance_ids()


@in_virtual_time
async def test_87_addresses_kept_for_a_launch_that_failed_are_given_back() -> None:
    async with aws_cloud() as cloud:
        subnets = cloud.provider.parts.subnets
        before = {each: subnets.left(each) for each in cloud.account.subnets.values()}
        cloud.account.faults.fail("CreateFleet", "InvalidAMIID.NotFound")
        with pytest.raises(CreateError):
            await cloud.provider.create(await cloud.claim())

        assert before == {each: subnets.left(each) for each in before}


@in_virtual_time
async def test_one_bad_id_does_not_spoil_the_termination_of_others() -> None:
    async with aws_cloud() as cloud:
        claims = [await cloud.launch(await cloud.claim(f"claim-{n}")) for n in range(3)]
        vanished = claims[1].status.provider_id.rpartition("/")[2]
        cloud.account.client("ec2").terminate_instances(InstanceIds=[vanished])

        results = await asyncio.gather(
            *(cloud.provider.delete(each) for each in claims), return_exceptions=True
        )
        for claim in claims:
            await gone(cloud, claim)

        assert [] == cloud.instance_ids()
        assert [None, None] == [results[0], results[2]]


@in_virtual_time
async def test_terminations_that_are_refused_are_counted_and_tried_again() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim())
        cloud.account.faults.fail("TerminateInstances", "OperationNotPermitted", times=2)
        with pytest.raises(AwsError):
            await cloud.provider.delete(claim)

        await gone(cloud, claim)

        assert [] == cloud.instance_ids()


@in_virtual_time
async def test_a_claim_that_dies_while_it_is_launched_leaves_nothing() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.claim()
        launch = asyncio.ensure_future(cloud.provider.create(claim))
        await asyncio.sleep(0)
        launch.cancel()

        await gone(cloud, claim)

        assert [] == cloud.instance_ids()


@pytest.mark.row("S2-23", "S2-40")
@in_virtual_time
async def test_118_instances_without_the_tags_of_the_cluster_are_never_listed() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim())
        instance_id = claim.status.provider_id.rpartition("/")[2]
        cloud.account.client("ec2").delete_tags(
            Resources=[instance_id], Tags=[{"Key": labels.NODEPOOL, "Value": POOL}]
        )
        await cloud.clock.sleep(120)

        assert [] == list(await cloud.provider.list())
        assert [instance_id] == cloud.instance_ids()


@in_virtual_time
async def test_a_restart_that_is_forbidden_is_given_up() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim())
        cloud.account.faults.fail("RebootInstances", "UnauthorizedOperation")
        with pytest.raises(RebootFailedError):
            await cloud.provider.reboot(claim, "operation")


@in_virtual_time
async def test_the_same_restart_is_asked_for_once() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim())
        for operation in ("one", "one", "two"):
            await cloud.provider.reboot(claim, operation)

        assert 2 == cloud.count("RebootInstances")


@in_virtual_time
async def test_quotas_are_insufficient_capacity() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail("CreateFleet", "MaxFleetCountExceeded")
        with pytest.raises(InsufficientCapacityError):
            await cloud.provider.create(await cloud.claim())


@pytest.mark.row("S1-06", "S3-02", "S2-41")
@in_virtual_time
async def test_no_call_goes_to_auto_scaling() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim())
        await gone(cloud, claim)
        await cloud.clock.sleep(200)

        services = {made.service for made in cloud.calls}
        assert services <= {"ec2", "iam", "eks", "ssm", "pricing", "sqs"}
