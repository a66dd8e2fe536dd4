"""Launches: what EC2 is asked, what is learned from its errors, and that nothing is left behind."""

import asyncio
import base64
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.simulated.faults import SoldOut
from karpenter.cloud.provider import (
    CloudError,
    CreateError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from karpenter.model import labels
from karpenter.settings import Settings, parse_gates
from unit.cloud.aws.aws_bed import NODE_CLASS, POOL, AwsCloud, aws_cloud

ON_DEMAND = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
SPOT = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}


def only_type(name: str) -> dict[str, Any]:
    return {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [name]}


async def refused(cloud: AwsCloud, claim: NodeClaim, kind: type[CloudError]) -> CloudError:
    with pytest.raises(kind) as caught:
        await cloud.provider.create(claim)
    return caught.value


@pytest.mark.case("AWS-78")
@pytest.mark.row("S1-01", "S3-13", "S3-26", "S2-98")
@in_virtual_time
async def test_spot_is_preferred() -> None:
    async with aws_cloud() as cloud:
        instance = await cloud.provider.create(await cloud.claim())

        request = cloud.last("CreateFleet")
        assert "instant" == request["Type"]
        assert "spot" == instance.labels[labels.CAPACITY_TYPE]
        assert {"AllocationStrategy": "price-capacity-optimized"} == request["SpotOptions"]


@pytest.mark.case("AWS-79")
@pytest.mark.row("S2-11", "S0-51")
@in_virtual_time
async def test_on_demand_takes_the_place_of_spot_that_is_sold_out() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.sold_out.append(SoldOut(capacity_type="spot"))
        await refused(cloud, await cloud.claim("one"), InsufficientCapacityError)

        instance = await cloud.provider.create(await cloud.claim("two"))

        assert "on-demand" == instance.labels[labels.CAPACITY_TYPE]
        assert {"AllocationStrategy": "lowest-price"} == cloud.last("CreateFleet")[
            "OnDemandOptions"
        ]


@pytest.mark.case("AWS-80")
@in_virtual_time
async def test_prices_of_the_user_decide_when_there_are_any() -> None:
    async with aws_cloud() as cloud:
        annotations = {labels.PRICE_OVERLAY_APPLIED: "true"}
        await cloud.provider.create(await cloud.claim(annotations=annotations))

        options = cloud.last("CreateFleet")["SpotOptions"]
        assert {"AllocationStrategy": "capacity-optimized-prioritized"} == options


@pytest.mark.case("AWS-85")
@in_virtual_time
async def test_one_subnet_per_zone_the_one_with_most_addresses() -> None:
    async with aws_cloud() as cloud:
        ec2 = cloud.account.client("ec2")
        known = ec2.describe_subnets(SubnetIds=[cloud.account.subnets["us-west-2a"]])
        vpc = known["Subnets"][0]["VpcId"]
        tags = [{"Key": ec2_labels.DISCOVERY_TAG, "Value": cloud.account.cluster}]
        ec2.create_subnet(
            VpcId=vpc,
            CidrBlock="10.0.192.0/24",
            AvailabilityZone="us-west-2a",
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
        )
        await cloud.clock.sleep(130)
        await cloud.provider.create(await cloud.claim())

        overrides = [
            each
            for config in cloud.last("CreateFleet")["LaunchTemplateConfigs"]
            for each in config["Overrides"]
        ]
        used = {each["AvailabilityZone"]: each["SubnetId"] for each in overrides}
        assert cloud.account.subnets == used


@pytest.mark.case("AWS-88")
@pytest.mark.row("S0-53")
@in_virtual_time
async def test_identical_launches_share_a_fleet() -> None:
    async with aws_cloud() as cloud:
        claims = [await cloud.claim(f"claim-{number}") for number in range(5)]
        instances = await asyncio.gather(*(cloud.provider.create(each) for each in claims))

        assert 1 == cloud.count("CreateFleet")
        target = cloud.last("CreateFleet")["TargetCapacitySpecification"]
        assert 5 == target["TotalTargetCapacity"]
        assert 5 == len({each.provider_id for each in instances}) == len(cloud.instance_ids())


@pytest.mark.case("AWS-89")
@in_virtual_time
async def test_a_fleet_that_is_fulfilled_in_part() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.most_per_fleet = 3
        claims = [await cloud.claim(f"claim-{number}") for number in range(5)]
        results = await asyncio.gather(
            *(cloud.provider.create(each) for each in claims), return_exceptions=True
        )

        failed = [each for each in results if isinstance(each, InsufficientCapacityError)]
        assert (3, 2) == (len(cloud.instance_ids()), len(failed))


@in_virtual_time
async def test_500_launches_need_one_fleet_and_few_other_calls() -> None:
    async with aws_cloud() as cloud:
        claims = [await cloud.claim(f"claim-{number:03}") for number in range(500)]
        before = len(cloud.calls)
        instances = await asyncio.gather(*(cloud.provider.create(each) for each in claims))

        assert 500 == len({each.provider_id for each in instances})
        assert 1 == cloud.count("CreateFleet", before)
        assert 0 == cloud.count("DescribeInstances", before)
        assert 2 >= cloud.count("CreateLaunchTemplate", before)


@in_virtual_time
async def test_500_terminations_need_few_calls() -> None:
    async with aws_cloud() as cloud:
        claims = [await cloud.claim(f"claim-{number:03}") for number in range(500)]
        await asyncio.gather(*(cloud.provider.create(each) for each in claims))
        before = len(cloud.calls)
        await asyncio.gather(*(cloud.provider.delete(each) for each in claims))

        assert 1 == cloud.count("TerminateInstances", before)
        assert 1 == cloud.count("DescribeInstances", before)
        assert [] == cloud.instance_ids()


@pytest.mark.case("AWS-93")
@pytest.mark.row("S2-46")
@in_virtual_time
async def test_without_the_role_for_spot_on_demand_still_works() -> None:
    async with aws_cloud() as cloud:
        code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
        cloud.account.faults.sold_out.append(SoldOut(capacity_type="spot", code=code))
        await refused(cloud, await cloud.claim("one"), InsufficientCapacityError)
        instance = await cloud.provider.create(await cloud.claim("two"))
        await cloud.clock.sleep(1)

        assert "on-demand" == instance.labels[labels.CAPACITY_TYPE]
        ((kind, type_, _, said),) = await cloud.told("SpotServiceLinkedRoleCreationFailure")
        assert ("NodeClaim", "Warning") == (kind, type_)
        assert said.startswith(f'Attempted to launch a spot instance but failed due to "{code}": ')


@pytest.mark.case("AWS-94")
@in_virtual_time
async def test_a_template_that_was_deleted_behind_our_back_is_made_again() -> None:
    async with aws_cloud() as cloud:
        await cloud.provider.create(await cloud.claim("one"))
        for name in cloud.template_names():
            cloud.account.client("ec2").delete_launch_template(LaunchTemplateName=name)

        await cloud.provider.create(await cloud.claim("two"))

        assert 2 == len(cloud.instance_ids())


@pytest.mark.case("AWS-95")
@pytest.mark.row("S2-06")
@in_virtual_time
async def test_templates_nobody_uses_are_deleted() -> None:
    async with aws_cloud() as cloud:
        await cloud.provider.create(await cloud.claim())
        assert cloud.template_names()

        await cloud.clock.sleep(300)

        assert [] == cloud.template_names()


@pytest.mark.case("AWS-95")
@in_virtual_time
async def test_templates_of_a_process_that_died_are_deleted_too() -> None:
    async with aws_cloud() as cloud:
        await cloud.provider.create(await cloud.claim())
        await cloud.crash()
        cloud.make()
        cloud.lead()
        await cloud.clock.sleep(300)

        assert [] == cloud.template_names()


@pytest.mark.case("AWS-97")
@pytest.mark.row("S1-37", "S2-38")
@in_virtual_time
async def test_everything_is_tagged() -> None:
    async with aws_cloud(spec={"tags": {"Name": "mine", "team": "blue"}}) as cloud:
        await cloud.provider.create(await cloud.claim("one"))

        expected = {
            "Name": "mine",
            "team": "blue",
            f"kubernetes.io/cluster/{cloud.account.cluster}": "owned",
            labels.NODEPOOL: POOL,
            ec2_labels.EKS_CLUSTER_NAME_TAG: cloud.account.cluster,
            ec2_labels.NODE_CLASS: NODE_CLASS,
        }
        fleet = cloud.last("CreateFleet")["TagSpecifications"]
        template = cloud.last("CreateLaunchTemplate")
        tagged = [
            *fleet,
            *template["TagSpecifications"],
            *template["LaunchTemplateData"]["TagSpecifications"],
        ]
        assert {
            "instance",
            "volume",
            "fleet",
            "launch-template",
            "network-interface",
            "spot-instances-request",
        } == {each["ResourceType"] for each in tagged}
        for each in tagged:
            tags = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
            assert expected == {key: tags[key] for key in expected}


@pytest.mark.case("AWS-100")
@in_virtual_time
async def test_the_context_is_passed_on_unless_min_values_were_relaxed() -> None:
    async with aws_cloud(spec={"context": "ctx"}) as cloud:
        await cloud.provider.create(await cloud.claim("one"))
        assert "ctx" == cloud.last("CreateFleet")["Context"]

        relaxed = {labels.MIN_VALUES_RELAXED: "true"}
        await cloud.provider.create(await cloud.claim("two", annotations=relaxed))
        assert "Context" not in cloud.last("CreateFleet")


def reservation(count: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-1",
        "InstanceType": "m5.large",
        "AvailabilityZone": "us-west-2a",
        "OwnerId": "123456789012",
        "State": "active",
        "InstanceMatchCriteria": "targeted",
        "AvailableInstanceCount": count,
        **more,
    }


RESERVED_CLASS = {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}


async def reserve(cloud: AwsCloud, count: int = 1, **more: Any) -> None:
    cloud.account.gaps.reservations.append(reservation(count, **more))
    cloud.account.fleets.reservations["cr-1"] = count
    await cloud.change_class(**RESERVED_CLASS)
    await cloud.clock.sleep(70)


@pytest.mark.case("AWS-101")
@in_virtual_time
async def test_a_reservation_is_used_first_and_then_on_demand() -> None:
    async with aws_cloud() as cloud:
        await reserve(cloud)
        values = ["reserved", "on-demand"]
        takes = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": values}
        claim: dict[str, Any] = {"requirements": [only_type("m5.large"), takes]}
        first = await cloud.provider.create(await cloud.claim("one", **claim))
        templates = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]
        second = await cloud.provider.create(await cloud.claim("two", **claim))

        assert {
            labels.CAPACITY_TYPE: "reserved",
            ec2_labels.CAPACITY_RESERVATION_ID: "cr-1",
            ec2_labels.CAPACITY_RESERVATION_TYPE: "default",
            ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE: "false",
        }.items() <= first.labels.items()
        assert {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
        } == templates["CapacityReservationSpecification"]
        assert "on-demand" == second.labels[labels.CAPACITY_TYPE]
        assert ec2_labels.CAPACITY_RESERVATION_ID not in second.labels
        preference = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]
        assert {"CapacityReservationPreference": "none"} == preference[
            "CapacityReservationSpecification"
        ]


@pytest.mark.case("AWS-102")
@in_virtual_time
async def test_without_the_gate_reservations_are_not_used() -> None:
    settings = Settings(feature_gates=parse_gates("ReservedCapacity=false"))
    async with aws_cloud(settings=settings) as cloud:
        instance = await cloud.provider.create(await cloud.claim())

        template = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]
        assert "CapacityReservationSpecification" not in template
        assert "reserved" != instance.labels[labels.CAPACITY_TYPE]


@pytest.mark.case("AWS-103")
@in_virtual_time
async def test_a_reservation_that_is_used_up_after_all() -> None:
    async with aws_cloud() as cloud:
        await reserve(cloud)
        cloud.account.fleets.reservations["cr-1"] = 0
        takes = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
        claim = await cloud.claim(requirements=[only_type("m5.large"), takes])

        await refused(cloud, claim, InsufficientCapacityError)

        assert 0 == cloud.provider.parts.reservations.available("cr-1")
        assert [] == cloud.instance_ids()


@in_virtual_time
async def test_a_place_in_a_reservation_is_free_again_when_its_instance_is_gone() -> None:
    async with aws_cloud() as cloud:
        await reserve(cloud)
        takes = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
        claim = await cloud.launch(await cloud.claim(requirements=[takes]))
        assert 0 == cloud.provider.parts.reservations.available("cr-1")

        await cloud.provider.delete(claim)
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)

        assert 1 == cloud.provider.parts.reservations.available("cr-1")


@pytest.mark.row("S1-22")
@in_virtual_time
async def test_user_data_carries_labels_taints_and_kubelet_settings() -> None:
    kubelet = {"clusterDNS": ["10.0.1.100"], "maxPods": 20, "systemReserved": {"cpu": "100m"}}
    async with aws_cloud(spec={"kubelet": kubelet}) as cloud:
        claim = await cloud.claim(
            pool_labels={"team": "blue"},
            taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
            startupTaints=[{"key": "cni", "effect": "NoExecute"}],
        )
        await cloud.provider.create(claim)

        encoded = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]["UserData"]
        text = base64.b64decode(encoded).decode()
        for part in (
            "10.0.1.100",
            "maxPods: 20",
            "cpu: 100m",
            "team=blue",
            "key: dedicated",
            "key: cni",
            "karpenter.sh/unregistered",
            "karpenter.sh/do-not-sync-taints=true",
        ):
            assert part in text


@pytest.mark.case("AWS-31")
@in_virtual_time
async def test_a_class_that_was_changed_is_looked_at_first() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "observedGeneration": 0,
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        body = {"status": {"conditions": [condition]}}
        await cloud.kube.patch(
            type(await cloud.node_class()), NODE_CLASS, body, subresource="status"
        )

        await refused(cloud, await cloud.claim(), NodeClassNotReadyError)


@pytest.mark.case("AWS-32")
@in_virtual_time
async def test_a_class_nobody_has_looked_at_is_waited_for() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        error = await refused(cloud, await cloud.claim(), CreateError)

        assert isinstance(error, CreateError)
        assert "NodeClassReadinessUnknown" == error.reason


@in_virtual_time
async def test_a_class_that_does_not_exist_is_insufficient_capacity() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.claim(node_class="nowhere")
        await refused(cloud, claim, InsufficientCapacityError)
        await cloud.clock.sleep(1)

        said = "Failed resolving NodeClass: there is no EC2NodeClass nowhere"
        assert [("NodeClaim", "Warning", "FailedResolvingNodeClass", said)] == await cloud.told(
            "FailedResolvingNodeClass"
        )


@in_virtual_time
async def test_user_data_that_cannot_be_merged_is_a_sentence_on_the_claim() -> None:
    async with aws_cloud() as cloud:
        parts = cloud.provider.parts
        found = await cloud.node_class()
        bad = {"spec": {"userData": "Content-Type: text/plain\n\nhello"}}
        await cloud.kube.patch(type(found), NODE_CLASS, bad)
        await cloud.clock.sleep(2)
        stored = await cloud.node_class()

        reasons = {c.type: c.reason for c in stored.status.conditions}
        assert "True" not in {
            c.status for c in stored.status.conditions if c.type == "ValidationSucceeded"
        }, reasons
        assert parts.view.node_classes.get(NODE_CLASS) is not None
