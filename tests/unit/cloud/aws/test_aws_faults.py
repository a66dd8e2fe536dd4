"""Whatever goes wrong with AWS is retried or told in one sentence, and nothing is left behind."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.cloud.aws.simulated.account import NODE_ROLE
from karpenter.cloud.aws.simulated.faults import Faults
from karpenter.cloud.aws.simulated.session import SimulatedSession
from karpenter.cloud.provider import (
    CloudError,
    CreateError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    RebootFailedError,
)
from karpenter.cloud.registry import ProviderError
from karpenter.model import labels
from unit.cloud.aws.aws_bed import NODE_CLASS, POOL, AwsCloud, aws_cloud

# What the life of an instance and of its node class asks of AWS, in order
CALLS_OF_A_LIFE = (
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "DescribeLaunchTemplates",
    "CreateLaunchTemplate",
    "CreateFleet",
    "CreateTags",
    "DescribeInstances",
    "TerminateInstances",
    "DeleteLaunchTemplate",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
)


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


def left_behind(cloud: AwsCloud) -> dict[str, list[Any]]:
    """Everything in the account that somebody would have to pay for or to clean up."""
    ec2, iam = cloud.account.client("ec2"), cloud.account.client("iam")
    return {
        "instances": cloud.instance_ids(),
        "volumes": ec2.describe_volumes()["Volumes"],
        "launch templates": cloud.template_names(),
        "instance profiles": iam.list_instance_profiles()["InstanceProfiles"],
    }


NOTHING: dict[str, list[Any]] = {
    "instances": [],
    "volumes": [],
    "launch templates": [],
    "instance profiles": [],
}


async def lived(cloud: AwsCloud) -> None:
    """Let three instances and the node class they are launched with come and go."""
    await cloud.ready()
    claims = [await cloud.claim(f"claim-{number}") for number in range(3)]
    instances = await asyncio.gather(*(cloud.provider.create(each) for each in claims))
    await cloud.clock.sleep(5)
    assert 3 == len({each.provider_id for each in instances}) == len(cloud.instance_ids())
    for claim in claims:
        await gone(cloud, claim)
        name = claim.metadata.name
        await cloud.kube.patch(NodeClaim, name, {"metadata": {"finalizers": []}})
        await cloud.kube.delete(NodeClaim, name)
    await cloud.kube.delete(EC2NodeClass, NODE_CLASS)
    await cloud.clock.sleep(150)


@in_virtual_time
async def test_a_life_without_faults_leaves_nothing() -> None:
    async with aws_cloud() as cloud:
        await lived(cloud)

        assert NOTHING == left_behind(cloud)
        made = [call.operation for call in cloud.calls]
        assert set() == set(CALLS_OF_A_LIFE) - set(made)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda faults, call: faults.throttle(call, times=3), id="throttled"),
        pytest.param(lambda faults, call: faults.lose_answer(call), id="its answer lost once"),
    ],
)
@in_virtual_time
async def test_a_life_in_which_every_call_is_spoilt_leaves_nothing(
    spoil: Callable[[Faults, str], object],
) -> None:
    async with aws_cloud(is_leading=False) as cloud:
        for operation in CALLS_OF_A_LIFE:
            spoil(cloud.account.faults, operation)
        cloud.lead()
        await lived(cloud)

        assert NOTHING == left_behind(cloud)


@in_virtual_time
async def test_a_profile_is_made_once_when_the_answers_about_it_are_lost() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        for operation in ("CreateInstanceProfile", "AddRoleToInstanceProfile"):
            cloud.account.faults.lose_answer(operation)
        cloud.lead()
        node_class = await cloud.ready()

        (profile,) = left_behind(cloud)["instance profiles"]
        assert node_class.status.instance_profile == profile["InstanceProfileName"]
        assert [NODE_ROLE] == [role["RoleName"] for role in profile["Roles"]]


@in_virtual_time
async def test_a_life_in_which_nothing_can_be_seen_for_ten_seconds_leaves_nothing() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.invisible_seconds = 10.0
        await lived(cloud)

        assert NOTHING == left_behind(cloud)


@in_virtual_time
async def test_a_launch_that_is_throttled_for_too_long_is_told_and_tried_again_later() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.throttle("CreateFleet", times=5)
        claim = await cloud.claim()
        with pytest.raises(CreateError) as caught:
            await cloud.provider.create(claim)
        assert "RequestLimitExceeded" == caught.value.reason
        assert "\n" not in str(caught.value)
        assert [] == cloud.instance_ids()

        instance = await cloud.provider.create(claim)

        assert [instance.provider_id.rpartition("/")[2]] == cloud.instance_ids()


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


def searches(cloud: AwsCloud, since: int = 0) -> int:
    """How often instances were looked for by the names of claims."""
    return sum(
        any(
            each["Name"] == f"tag:{ec2_labels.NODECLAIM_TAG}" for each in made.parameters["Filters"]
        )
        for made in cloud.calls[since:]
        if made.operation == "DescribeInstances" and "Filters" in made.parameters
    )


@in_virtual_time
async def test_instances_are_searched_for_only_where_there_may_be_one() -> None:
    async with aws_cloud() as cloud:
        fresh = await cloud.claim("fresh")
        await cloud.provider.create(fresh)
        assert 0 == searches(cloud)

        unlucky = await cloud.claim("unlucky")
        cloud.account.faults.fail("CreateFleet", "InvalidParameterValue")
        with pytest.raises(CreateError):
            await cloud.provider.create(unlucky)
        assert 0 == searches(cloud)
        await cloud.provider.create(unlucky)
        assert 1 == searches(cloud)

        await cloud.crash()
        cloud.make()
        cloud.lead()
        await cloud.clock.sleep(5)
        before = len(cloud.calls)
        again = await cloud.provider.create(fresh)
        assert 1 == searches(cloud, before)
        assert again.provider_id.rpartition("/")[2] in cloud.instance_ids()
        assert 2 == len(cloud.instance_ids())


@in_virtual_time
async def test_a_process_that_leads_again_searches_for_what_came_in_between() -> None:
    async with aws_cloud() as cloud:
        await cloud.crash()  # the term is over, the process is not
        theirs = await cloud.claim("theirs")
        mine = cloud.provider
        cloud.make()
        launched = await cloud.provider.create(theirs)  # by whoever led then
        cloud.provider = mine
        cloud.lead()
        found = await cloud.provider.create(theirs)
        await cloud.clock.sleep(5)

        assert launched.provider_id == found.provider_id
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_as_long_as_the_api_server_does_not_tell_claims_are_searched_for() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.lead()
        await cloud.ready()
        await cloud.crash()
        claim = await cloud.claim()
        await cloud.provider.create(claim)

        assert 1 == searches(cloud)


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


@pytest.mark.parametrize("code", ["RequestExpired", "ExpiredToken"])
@in_virtual_time
async def test_expired_credentials_are_told_in_one_sentence(code: str) -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail("CreateFleet", code, message="Request has expired.")
        claim = await cloud.claim()
        with pytest.raises(CreateError) as caught:
            await cloud.provider.create(claim)

        assert (
            f"AWS does not accept the controller's credentials: {code}: Request has expired.;"
            " renew them"
        ) == str(caught.value)
        await cloud.provider.create(claim)
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_credentials_that_expire_and_are_renewed_cost_nothing_but_time() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim())
        before = cloud.account.faults
        for operation in {call.operation for call in cloud.calls} | {"TerminateInstances"}:
            before.fail(operation, "ExpiredToken", status=403, times=10_000)
        with pytest.raises(CloudError, match="ExpiredToken"):
            await cloud.provider.create(await cloud.claim("another"))
        with pytest.raises(CloudError, match="ExpiredToken"):
            await cloud.provider.delete(claim)
        await cloud.clock.sleep(300)
        await cloud.check()
        assert 1 == len(cloud.instance_ids())

        before.clear()
        await cloud.clock.sleep(120)
        await cloud.ready()
        await gone(cloud, claim)
        await cloud.provider.create(await cloud.claim("last"))

        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_missing_permissions_are_told_in_one_sentence() -> None:
    async with aws_cloud() as cloud:
        message = "You are not authorized to perform this operation.\n  Encoded message: x"
        cloud.account.faults.fail("CreateFleet", "UnauthorizedOperation", message=message)
        with pytest.raises(CreateError, match="lacks a permission") as caught:
            await cloud.provider.create(await cloud.claim())

        assert "Unauthorized" == caught.value.reason
        assert "this operation. Encoded message: x" in str(caught.value)


@in_virtual_time
async def test_a_start_without_access_says_what_to_do() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.account.faults.fail("DescribeInstanceTypes", "UnauthorizedOperation", times=9)
        with pytest.raises(ProviderError, match="check the IAM policy"):
            await cloud.provider.start()


def move_to(cloud: AwsCloud, region: str, **environment: str) -> None:
    """Let a new process work in another region of the same account."""
    session = SimulatedSession(region, cloud.account.faults)
    cloud.account.gaps.fill(session)
    cloud.world.account = dataclasses.replace(cloud.account, session=session)
    cloud.world.environment = {**cloud.world.environment, **environment}
    cloud.make()


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"EKS_CONTROL_PLANE": "true"}, id="asking for the version"),
        pytest.param({"CLUSTER_ENDPOINT": ""}, id="asking for the endpoint"),
    ],
)
@in_virtual_time
async def test_a_start_in_the_wrong_region_says_so(environment: dict[str, str]) -> None:
    async with aws_cloud(is_leading=False) as cloud:
        move_to(cloud, "eu-west-1", **environment)
        with pytest.raises(ProviderError) as caught:
            await cloud.provider.start()

        said = "there is no EKS cluster sandbox in eu-west-1; correct CLUSTER_NAME or AWS_REGION"
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


@in_virtual_time
async def test_a_node_class_in_the_wrong_region_finds_nothing_and_makes_nothing() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        move_to(cloud, "eu-west-1")
        cloud.lead()
        await cloud.clock.sleep(30)

        conditions = {c.type: c for c in (await cloud.node_class()).status.conditions}
        found = conditions["SubnetsReady"]
        assert ("False", "SubnetsNotFound") == (found.status, found.reason)
        with pytest.raises(CloudError):
            await cloud.provider.create(await cloud.claim())
        state = left_behind(cloud)
        assert ([], [], []) == (
            state["instances"],
            state["volumes"],
            state["launch templates"],
        )


def delete_subnets(cloud: AwsCloud, *zones: str) -> None:
    for zone in zones:
        cloud.account.client("ec2").delete_subnet(SubnetId=cloud.account.subnets[zone])


@in_virtual_time
async def test_when_a_subnet_is_deleted_in_the_middle_of_a_launch_another_one_is_used() -> None:
    async with aws_cloud() as cloud:
        listed = {subnet.zone for subnet in (await cloud.node_class()).status.subnets}
        delete_subnets(cloud, "us-west-2a", "us-west-2b")
        instance = await cloud.provider.create(await cloud.claim())

        assert {"us-west-2a", "us-west-2b", "us-west-2c"} == listed
        assert "us-west-2c" == instance.labels[labels.ZONE]
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_when_all_subnets_are_deleted_in_the_middle_of_a_launch_that_is_told() -> None:
    async with aws_cloud() as cloud:
        delete_subnets(cloud, *cloud.account.subnets)
        with pytest.raises(CreateError) as caught:
            await cloud.provider.create(await cloud.claim())

        assert "InvalidSubnetID.NotFound: the subnet ID 'subnet-" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert [] == cloud.instance_ids()
        await cloud.clock.sleep(130)
        conditions = {c.type: c.reason for c in (await cloud.node_class()).status.conditions}
        assert "SubnetsNotFound" == conditions["SubnetsReady"]


@pytest.mark.case("AWS-87")
@in_virtual_time
async def test_addresses_kept_for_a_launch_that_failed_are_given_back() -> None:
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


@pytest.mark.case("AWS-118")
@in_virtual_time
async def test_instances_without_the_tags_of_the_cluster_are_never_listed() -> None:
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


@in_virtual_time
async def test_a_fleet_that_is_fulfilled_in_part_leaks_neither_instances_nor_addresses() -> None:
    async with aws_cloud() as cloud:
        subnets = cloud.provider.parts.subnets
        cloud.account.faults.most_per_fleet = 2
        claims = [await cloud.claim(f"claim-{number}") for number in range(5)]
        results = await asyncio.gather(
            *(cloud.provider.create(each) for each in claims), return_exceptions=True
        )
        had = [each.provider_id for each in results if not isinstance(each, BaseException)]
        failed = [each for each in results if isinstance(each, BaseException)]
        assert ({InsufficientCapacityError}, 3) == ({type(each) for each in failed}, len(failed))
        assert all("\n" not in str(each) for each in failed)
        assert sorted(cloud.instance_ids()) == sorted(each.rpartition("/")[2] for each in had)

        for claim in claims:
            await gone(cloud, claim)
        await cloud.clock.sleep(130)
        assert [] == cloud.instance_ids()
        counted = {
            each["SubnetId"]: each["AvailableIpAddressCount"]
            for each in cloud.account.client("ec2").describe_subnets()["Subnets"]
        }
        known = {each: subnets.left(each) for each in cloud.account.subnets.values()}
        assert known == {each: counted[each] for each in known}
