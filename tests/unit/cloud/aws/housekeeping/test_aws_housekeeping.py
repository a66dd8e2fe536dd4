"""What the provider does by itself: tags, drift, reservations that end, zones to keep away from."""

import re
from datetime import timedelta
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.api.nodes import Node
from karpenter.cloud.provider import CloudError, InsufficientCapacityError
from karpenter.cloud.registry import ProviderError
from karpenter.model import labels
from unit.cloud.aws.aws_bed import NODE_CLASS, POOL, AwsCloud, aws_cloud
from unit.cloud.aws.launch.test_aws_launch import reserve


async def named(cloud: AwsCloud, name: str, **claim: Any) -> NodeClaim:
    """A launched claim whose node has come."""
    launched = await cloud.launch(await cloud.claim(name, **claim))
    body = {"status": {"nodeName": f"{name}.internal"}}
    await cloud.kube.patch(NodeClaim, name, body, subresource="status")
    node = {
        "metadata": {"name": f"{name}.internal", "labels": dict(launched.metadata.labels)},
        "spec": {"providerID": launched.status.provider_id},
    }
    await cloud.kube.create(Node, node)
    await cloud.clock.sleep(5)
    return await cloud.kube.get(NodeClaim, name)


def tags_of(cloud: AwsCloud) -> dict[str, str]:
    (entry,) = cloud.account.running()
    return {tag["Key"]: tag["Value"] for tag in entry["Tags"]}


@pytest.mark.case("AWS-119")
@pytest.mark.row("S2-39")
@in_virtual_time
async def test_instances_are_tagged_once_their_nodes_have_names() -> None:
    async with aws_cloud() as cloud:
        claim = await named(cloud, "one")

        held = tags_of(cloud)
        assert ("one.internal", "one", cloud.account.cluster) == (
            held["Name"],
            held[ec2_labels.NODECLAIM_TAG],
            held[ec2_labels.EKS_CLUSTER_NAME_TAG],
        )
        assert "true" == claim.metadata.annotations[ec2_labels.TAGGED]
        assert "true" == claim.metadata.annotations[ec2_labels.CLUSTER_NAME_TAGGED]
        before = cloud.count("CreateTags")
        await cloud.clock.sleep(60)
        assert before == cloud.count("CreateTags")


@pytest.mark.case("AWS-119")
@in_virtual_time
async def test_a_name_the_user_gave_is_kept() -> None:
    async with aws_cloud(spec={"tags": {"Name": "mine"}}) as cloud:
        await named(cloud, "one")

        assert "mine" == tags_of(cloud)["Name"]


@pytest.mark.case("AWS-119")
@in_virtual_time
async def test_a_claim_without_a_node_is_left_alone() -> None:
    async with aws_cloud() as cloud:
        await cloud.launch(await cloud.claim("one"))
        await cloud.clock.sleep(60)

        assert 0 == cloud.count("CreateTags")


@in_virtual_time
async def test_tagging_that_fails_is_tried_again() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail("CreateTags", "UnauthorizedOperation", times=2)
        await named(cloud, "one")
        await cloud.clock.sleep(60)

        assert "one.internal" == tags_of(cloud)["Name"]


@pytest.mark.case("AWS-114")
@in_virtual_time
async def test_a_change_of_the_class_is_drift_and_a_change_of_selectors_is_not() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        assert "" == await cloud.provider.drift_reason(claim)

        selectors = [{"id": each} for each in cloud.account.subnets.values()]
        await cloud.change_class(subnetSelectorTerms=selectors)
        assert "" == await cloud.provider.drift_reason(claim)

        await cloud.change_class(userData="#!/bin/bash\necho hi\n")
        assert "NodeClassDrift" == await cloud.provider.drift_reason(claim)


@pytest.mark.case("AWS-116")
@in_virtual_time
async def test_newer_images_are_drift() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        cloud.account.gaps.image_generation = 2
        await cloud.crash()  # a new process remembers no parameters
        cloud.make()
        cloud.lead()
        await cloud.clock.sleep(5)

        assert "AMIDrift" == await cloud.provider.drift_reason(claim)


@pytest.mark.case("AWS-116")
@in_virtual_time
async def test_other_security_groups_are_drift() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        instance_id = claim.status.provider_id.rpartition("/")[2]
        cloud.account.fleets.overlay(instance_id, SecurityGroups=[{"GroupId": "sg-other"}])
        await cloud.provider.list()

        assert "SecurityGroupDrift" == await cloud.provider.drift_reason(claim)


@pytest.mark.row("S2-72")
@in_virtual_time
async def test_a_subnet_that_is_no_longer_selected_is_drift() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        zone = claim.metadata.labels[labels.ZONE]
        others = [{"id": s} for z, s in cloud.account.subnets.items() if z != zone]
        await cloud.change_class(subnetSelectorTerms=others)
        await cloud.clock.sleep(70)

        assert "SubnetDrift" == await cloud.provider.drift_reason(claim)


@in_virtual_time
async def test_another_placement_group_is_drift() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        labelled = {"metadata": {"labels": {ec2_labels.PLACEMENT_GROUP_ID: "pg-gone"}}}
        changed = await cloud.kube.patch(NodeClaim, "one", labelled)

        assert "" == await cloud.provider.drift_reason(claim)
        assert "PlacementGroupDrift" == await cloud.provider.drift_reason(changed)


@in_virtual_time
async def test_a_claim_whose_pool_is_gone_does_not_drift() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        await cloud.change_class(userData="echo other")
        assert "NodeClassDrift" == await cloud.provider.drift_reason(claim)
        await cloud.kube.delete(NodePool, POOL)
        await cloud.clock.sleep(1)

        assert "" == await cloud.provider.drift_reason(claim)
        # and the same where the mirrors are not filled yet
        await cloud.crash()
        cloud.make()
        assert "" == await cloud.provider.drift_reason(claim)


@in_virtual_time
async def test_claims_without_pool_or_class_do_not_drift() -> None:
    async with aws_cloud() as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        poolless = await cloud.kube.patch(
            NodeClaim, "one", {"metadata": {"labels": {labels.NODEPOOL: None}}}
        )

        assert "" == await cloud.provider.drift_reason(poolless)
        await cloud.kube.delete(EC2NodeClass, NODE_CLASS)
        await cloud.clock.sleep(1)
        assert "" == await cloud.provider.drift_reason(claim)


@pytest.mark.case("AWS-130")
@in_virtual_time
async def test_claims_go_forty_minutes_before_their_capacity_block_ends() -> None:
    async with aws_cloud() as cloud:
        end = cloud.clock.now() + timedelta(minutes=50)
        await reserve(cloud, ReservationType="capacity-block", EndDate=end)
        takes = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
        claim = await cloud.launch(await cloud.claim("one", requirements=[takes]))
        assert "capacity-block" == claim.metadata.labels[ec2_labels.CAPACITY_RESERVATION_TYPE]

        await cloud.clock.sleep(7 * 60)
        stored = await cloud.kube.get(NodeClaim, "one")
        assert stored.metadata.deletion_timestamp is None
        await cloud.clock.sleep(3 * 60)
        stored = await cloud.kube.get(NodeClaim, "one")
        assert stored.metadata.deletion_timestamp is not None


@in_virtual_time
async def test_an_instance_that_outlives_its_reservation_is_on_demand() -> None:
    async with aws_cloud() as cloud:
        await reserve(cloud)
        takes = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}
        claim = await named(cloud, "one", requirements=[takes])
        instance_id = claim.status.provider_id.rpartition("/")[2]
        cloud.account.fleets.overlay(
            instance_id, CapacityReservationId=None, CapacityReservationSpecification=None
        )
        await cloud.provider.list()
        await cloud.clock.sleep(70)

        stored = await cloud.kube.get(NodeClaim, "one")
        node = await cloud.kube.get(Node, "one.internal")
        for held in (stored.metadata.labels, node.metadata.labels):
            assert "on-demand" == held[labels.CAPACITY_TYPE]
            assert not any("capacity-reservation" in key for key in held)


GAUGES = "karpenter_cloudprovider_instance_type_"
SHIFT = {"ENABLE_ZONAL_SHIFT": "true"}


def shift(cloud: AwsCloud, zone_id: str, minutes: float) -> dict[str, Any]:
    return {
        "appliedStatus": "APPLIED",
        "awayFrom": zone_id,
        "expiryTime": cloud.clock.now() + timedelta(minutes=minutes),
    }


@pytest.mark.case("AWS-136")
@in_virtual_time
async def test_a_zone_that_is_shifted_away_from_is_left_alone_until_it_is_over() -> None:
    async with aws_cloud(environment=SHIFT) as cloud:
        claim = await cloud.launch(await cloud.claim("one"))
        zone, zone_id = (claim.metadata.labels[k] for k in (labels.ZONE, ec2_labels.ZONE_ID))
        cloud.account.gaps.shifts.append(shift(cloud, zone_id, 10))
        await cloud.clock.sleep(31)

        with pytest.raises(CloudError, match="shifted away"):
            await cloud.provider.delete(claim)
        assert 1 == len(cloud.instance_ids())
        there = {"key": labels.ZONE, "operator": "In", "values": [zone]}
        with pytest.raises(InsufficientCapacityError):
            await cloud.provider.create(await cloud.claim("two", requirements=[there]))
        said = f"offerings in zone {zone} ({zone_id}) are unavailable for this NodePool"
        assert [
            ("NodePool", "Warning", "ZonalShiftActive", f"Zonal shift detected: {said}")
        ] == await cloud.told("ZonalShiftActive")

        await cloud.clock.sleep(601)
        await cloud.provider.create(await cloud.claim("three", requirements=[there]))
        await cloud.provider.delete(claim)
        assert 1 == len(cloud.instance_ids())


@in_virtual_time
async def test_a_shift_that_is_cancelled_is_over_at_once() -> None:
    async with aws_cloud(environment=SHIFT) as cloud:
        cloud.account.gaps.shifts.append(shift(cloud, "usw2-az1", 600))
        cloud.account.gaps.shifts.append(shift(cloud, "usw2-az2", 600))
        await cloud.clock.sleep(31)
        assert {"usw2-az1", "usw2-az2"} == cloud.provider.parts.shifts.shifted()

        del cloud.account.gaps.shifts[0]
        await cloud.clock.sleep(31)

        assert {"usw2-az2"} == cloud.provider.parts.shifts.shifted()
        ((kind, type_, _, said),) = await cloud.told("ZonalShiftCleared")
        assert ("NodePool", "Normal") == (kind, type_)
        assert re.fullmatch(
            r"Zonal shift cleared: offerings in zone \S+ \(usw2-az1\) are restored for this NodePool",
            said,
        )


@in_virtual_time
async def test_shifts_that_cannot_be_read_end_the_start() -> None:
    async with aws_cloud(environment=SHIFT, is_leading=False) as cloud:
        cloud.account.faults.fail("GetManagedResource", "AccessDeniedException", times=9)
        with pytest.raises(ProviderError, match="ENABLE_ZONAL_SHIFT"):
            await cloud.provider.start()


@in_virtual_time
async def test_gauges_show_what_can_be_had() -> None:
    async with aws_cloud() as cloud:
        await cloud.clock.sleep(61)

        base = cloud.provider.parts.base
        lines = base.telemetry.exposition().decode().splitlines()
        shown = dict(line.removeprefix(GAUGES).rsplit(" ", 1) for line in lines)
        place = 'instance_type="m5.large",zone="us-west-2a"'
        assert "1" == shown[f'offering_available{{capacity_type="spot",{place}}}']
        assert "0" == shown[f'offering_available{{capacity_type="reserved",{place}}}']
        price = float(shown[f'offering_price_estimate{{capacity_type="spot",{place}}}'])
        assert 0.0 < price < 0.096
        assert "2" == shown['cpu_cores{instance_type="m5.large"}']
        assert str(8 * 2**30) == shown['memory_bytes{instance_type="m5.large"}']
        size = base.metrics.userdata_bytes.labels(NODE_CLASS)._value.get()
        assert 100 < size < 16384


PARTITIONED = {
    "GroupId": "pg-1",
    "GroupName": "mine",
    "Strategy": "partition",
    "State": "available",
    "PartitionCount": 2,
}


@in_virtual_time
async def test_a_node_learns_its_partition_before_pods_may_come() -> None:
    async with aws_cloud() as cloud:
        cloud.account.gaps.groups.append(PARTITIONED)
        await cloud.change_class(placementGroupSelector={"id": "pg-1"})
        claim = await cloud.launch(await cloud.claim("one"))
        (hook,) = cloud.provider.registration_hooks
        waits = await hook(claim, Node())
        instance_id = claim.status.provider_id.rpartition("/")[2]
        placement = {"AvailabilityZone": claim.metadata.labels[labels.ZONE], "GroupId": "pg-1"}
        cloud.account.fleets.overlay(instance_id, Placement={**placement, "PartitionNumber": 2})
        goes_on = await hook(claim, Node())

        assert "pg-1" == claim.metadata.labels[ec2_labels.PLACEMENT_GROUP_ID]
        assert "" == claim.metadata.labels[ec2_labels.PLACEMENT_GROUP_PARTITION]
        assert not waits.is_ready
        assert goes_on.is_ready
        assert {ec2_labels.PLACEMENT_GROUP_PARTITION: "2"} == goes_on.labels


@pytest.mark.case("AWS-104")
@in_virtual_time
async def test_a_partition_that_is_asked_for_is_launched_into() -> None:
    async with aws_cloud() as cloud:
        cloud.account.gaps.groups.append(PARTITIONED)
        await cloud.change_class(placementGroupSelector={"id": "pg-1"})
        values = ["2", "1"]
        asked = {"key": ec2_labels.PLACEMENT_GROUP_PARTITION, "operator": "In", "values": values}
        claim = await cloud.launch(await cloud.claim("one", requirements=[asked]))

        template = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]
        assert {"Tenancy": "default", "GroupId": "pg-1", "PartitionNumber": 1} == template[
            "Placement"
        ]
        assert "1" == claim.metadata.labels[ec2_labels.PLACEMENT_GROUP_PARTITION]
        (hook,) = cloud.provider.registration_hooks
        assert (await hook(claim, Node())).is_ready
