"""What changes after a launch, case by case: images, hashes, profiles, queues, reservations."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from helpers.small_objects import old_pool
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.interruption.status_poller import problems
from karpenter.cloud.aws.node_class.drift_hash import VERSION
from karpenter.cloud.aws.simulated.account import NODE_ROLE
from karpenter.cloud.aws.simulated.simulated_aws import announcement
from karpenter.cloud.provider import CloudError, CreateError, NodeClassNotReadyError
from karpenter.conversion.convert import convert_all
from karpenter.model import labels
from unit.cloud.aws.aws_bed import NODE_CLASS, POOL, AwsCloud, aws_cloud
from unit.cloud.aws.interruption.test_aws_interruption import (
    about,
    instance_id,
    is_going,
    received,
    waiting,
)
from unit.cloud.aws.interruption.test_aws_messages import ec2
from unit.cloud.aws.launch.test_aws_launch import reserve

HASHES = (ec2_labels.NODE_CLASS_HASH, ec2_labels.NODE_CLASS_HASH_VERSION)


async def settled(cloud: AwsCloud, kind: str) -> str:
    """The reason of a condition of the node class."""
    conditions = (await cloud.node_class()).status.conditions
    return next((each.reason for each in conditions if each.type == kind), "")


@pytest.mark.case("AWS-49")
@in_virtual_time
async def test_a_deprecated_image_is_replaced_within_half_an_hour() -> None:
    async with aws_cloud() as cloud:
        await cloud.lead_with("providers.ssm.invalidation")
        claim = await cloud.launch(await cloud.claim("one"))
        old = cloud.account.gaps.images[claim.status.image_id]
        cloud.account.gaps.image_generation = 2
        await cloud.clock.sleep(600)
        kept = await cloud.provider.drift_reason(claim)
        gone = cloud.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000Z")
        old["DeprecationTime"] = gone
        await cloud.clock.sleep(30 * 60)
        replaced = await cloud.provider.drift_reason(claim)

        assert ("", "AMIDrift") == (kept, replaced)


@pytest.mark.case("AWS-50", "AWS-52")
@in_virtual_time
async def test_a_profile_lives_an_hour_longer_than_its_role_and_as_long_as_its_claims() -> None:
    async with aws_cloud() as cloud:
        await cloud.lead_with("instanceprofile.garbagecollection")
        iam = cloud.account.client("iam")
        for role in ("RoleB", "RoleC"):
            iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        first = (await cloud.ready()).status.instance_profile
        claim = await cloud.launch(await cloud.claim("one"))
        second = (await cloud.change_class(role="RoleB")).status.instance_profile
        third = (await cloud.change_class(role="RoleC")).status.instance_profile

        def profiles() -> set[str]:
            listed = iam.list_instance_profiles()["InstanceProfiles"]
            return {each["InstanceProfileName"] for each in listed}

        assert first == claim.metadata.annotations[ec2_labels.INSTANCE_PROFILE_NAME]
        await cloud.clock.sleep(3540)
        assert {first, second, third} == profiles()
        await cloud.clock.sleep(1860)
        assert {first, third} == profiles()
        await cloud.kube.patch(NodeClaim, "one", {"metadata": {"finalizers": []}})
        await cloud.kube.delete(NodeClaim, "one")
        await cloud.clock.sleep(1800)
        assert {third} == profiles()
        (role,) = iam.get_instance_profile(InstanceProfileName=third)["InstanceProfile"]["Roles"]
        assert "RoleC" == role["RoleName"] != NODE_ROLE


@pytest.mark.case("AWS-115")
@in_virtual_time
async def test_another_version_of_hashes_is_no_drift_and_is_stamped_anew() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        await cloud.crash()
        old = {"metadata": {"annotations": dict(zip(HASHES, ("1", "v5"), strict=True))}}
        claim = await cloud.kube.patch(NodeClaim, "one", old)
        cloud.make()
        before = await cloud.provider.drift_reason(claim)
        await cloud.kube.patch(EC2NodeClass, NODE_CLASS, old)
        cloud.lead()
        await cloud.clock.sleep(10)
        stamped = await cloud.kube.get(NodeClaim, "one")
        held = (await cloud.node_class()).metadata.annotations

        assert "" == before
        assert VERSION == stamped.metadata.annotations[ec2_labels.NODE_CLASS_HASH_VERSION]
        assert [held[key] for key in HASHES] == [stamped.metadata.annotations[k] for k in HASHES]
        assert "1" != held[ec2_labels.NODE_CLASS_HASH]
        assert "" == await cloud.provider.drift_reason(stamped)


@pytest.mark.case("AWS-116")
@in_virtual_time
async def test_another_group_is_drift_and_another_image_goes_before_it() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        client = cloud.account.client("ec2")
        known = client.describe_security_groups(GroupIds=[cloud.account.security_group])
        tags = [{"Key": ec2_labels.DISCOVERY_TAG, "Value": cloud.account.cluster}]
        client.create_security_group(
            VpcId=known["SecurityGroups"][0]["VpcId"],
            GroupName="another",
            Description="another",
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
        )
        await cloud.clock.sleep(310)
        groups = await cloud.provider.drift_reason(claim)
        await cloud.change_class(
            amiFamily="AL2023", amiSelectorTerms=[{"id": other_image(cloud, claim)}]
        )
        both = await cloud.provider.drift_reason(claim)

        assert 2 == len((await cloud.node_class()).status.security_groups)
        assert ("SecurityGroupDrift", "AMIDrift") == (groups, both)


def other_image(cloud: AwsCloud, claim: NodeClaim) -> str:
    """An image of the same architecture that the claim has not booted."""
    return next(
        name
        for name, image in sorted(cloud.account.gaps.images.items())
        if name != claim.status.image_id and image["Architecture"] == "x86_64"
    )


@pytest.mark.case("AWS-125")
@in_virtual_time
async def test_a_claim_that_could_not_be_deleted_is_deleted_when_the_message_comes_back() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.transport.broken.add("DELETE")
        cloud.account.send(announcement("spot", instance_id(claim), cloud.clock))
        await cloud.clock.sleep(10)
        assert not await is_going(cloud, "one")
        assert (1, 1.0) == (waiting(cloud), received(cloud, "spot_interrupted"))

        cloud.transport.broken.clear()
        await cloud.clock.sleep(5)
        assert not await is_going(cloud, "one")
        await cloud.clock.sleep(10)

        assert await is_going(cloud, "one")
        assert (0, 2.0) == (waiting(cloud), received(cloud, "spot_interrupted"))


@pytest.mark.case("AWS-127")
@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        pytest.param(119, [], id="not yet"),
        pytest.param(121, ["system_status"], id="for too long"),
    ],
)
@in_virtual_time
async def test_how_long_a_check_may_fail(seconds: int, found: list[str]) -> None:
    async with aws_cloud(is_leading=False) as cloud:
        now = cloud.clock.now()
        since = now - timedelta(seconds=seconds)
        detail = {"Name": "reachability", "Status": "failed", "ImpairedSince": since}
        status = {"SystemStatus": {"Status": "impaired", "Details": [detail]}}

        assert found == list(problems(status, now))


@pytest.mark.case("AWS-129")
@in_virtual_time
async def test_a_reservation_that_is_taken_back_counts_as_used_up() -> None:
    async with aws_cloud() as cloud:
        await reserve(cloud, count=3, Interruptible=True)
        takes = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
        claim = await cloud.launch(await cloud.claim("one", requirements=[takes]))
        counts = cloud.provider.parts.reservations
        assert 2 == counts.available("cr-1")

        text = ec2("EC2 Capacity Reservation Instance Interruption Warning")
        cloud.account.send(about(text, claim))
        await cloud.clock.sleep(5)

        assert await is_going(cloud, "one")
        assert (0, 0) == (counts.available("cr-1"), waiting(cloud))
        with pytest.raises(CloudError):
            await cloud.provider.create(await cloud.claim("two", requirements=[takes]))


UBUNTU: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "old"},
    "spec": {
        "amiFamily": "Ubuntu",
        "role": NODE_ROLE,
        "subnetSelectorTerms": [{"tags": {ec2_labels.DISCOVERY_TAG: "sandbox"}}],
        "securityGroupSelectorTerms": [{"tags": {ec2_labels.DISCOVERY_TAG: "sandbox"}}],
    },
}


@pytest.mark.case("AWS-135")
@in_virtual_time
async def test_ubuntu_without_images_is_converted_and_never_launched() -> None:
    async with aws_cloud() as cloud:
        ((converted,),) = (each.objects for each in convert_all([UBUNTU]).results)
        await cloud.kube.create(EC2NodeClass, converted)
        await cloud.clock.sleep(30)
        stored = await cloud.node_class("old")
        conditions = {each.type: (each.status, each.reason) for each in stored.status.conditions}
        claim = await cloud.claim("one", node_class="old")

        assert "AL2" == stored.spec.ami_family
        assert ("False", "AMINotFound") == conditions["AMIsReady"]
        with pytest.raises(NodeClassNotReadyError):
            await cloud.provider.create(claim)
        assert [] == cloud.instance_ids()


V1BETA1_POOL = old_pool(
    "old", kubelet={"systemReserved": {"cpu": "100m", "memory": "100Mi"}, "maxPods": 20}
)


@pytest.mark.row("S2-63")
@in_virtual_time
async def test_kubelet_settings_of_a_v1beta1_pool_overrule_those_of_its_class() -> None:
    async with aws_cloud(spec={"kubelet": {"maxPods": 50}}) as cloud:
        ((converted,),) = (each.objects for each in convert_all([V1BETA1_POOL]).results)
        await cloud.kube.create(NodePool, converted)
        await cloud.clock.sleep(1)
        offered = {}
        for name in (POOL, "old"):
            pool = await cloud.kube.get(NodePool, name)
            types = await cloud.provider.instance_types(pool)
            offered[name] = next(kind for kind in types if kind.name == "m5.large")
        kind = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}
        claim = await cloud.claim("one", requirements=[kind], pool_labels={labels.NODEPOOL: "old"})
        instance = await cloud.provider.create(claim)

        today, old = offered[POOL], offered["old"]
        assert (50, 20) == (today.capacity.pods, old.capacity.pods)
        assert 100 == today.allocatable.cpu - old.allocatable.cpu
        assert 100 * 2**20 == today.allocatable.memory - old.allocatable.memory
        assert "20" == instance.capacity["pods"]
        encoded = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]["UserData"]
        text = base64.b64decode(encoded).decode()
        assert all(part in text for part in ("maxPods: 20", "cpu: 100m", "memory: 100Mi"))


@in_virtual_time
async def test_kubelet_settings_that_cannot_be_read_are_told() -> None:
    async with aws_cloud() as cloud:
        body = {"metadata": {"annotations": {labels.KEPT_KUBELET: "nonsense"}}}
        pool = await cloud.kube.patch(NodePool, POOL, body)
        await cloud.clock.sleep(1)

        with pytest.raises(CloudError, match="holds no kubelet configuration"):
            await cloud.provider.instance_types(pool)
        with pytest.raises(CreateError, match="holds no kubelet configuration"):
            await cloud.provider.create(await cloud.claim())
        assert [] == cloud.instance_ids()


@in_virtual_time
async def test_profiles_that_may_not_be_listed_are_not_asked_for_over_and_over() -> None:
    async with aws_cloud() as cloud:
        await cloud.lead_with("instanceprofile.garbagecollection")
        cloud.account.faults.fail("ListInstanceProfiles", "AccessDenied", status=403, times=10_000)
        before = cloud.count("ListInstanceProfiles")
        await cloud.clock.sleep(timedelta(hours=2).total_seconds())

        assert 2 <= cloud.count("ListInstanceProfiles") - before <= 5
