"""In an isolated network the provider gets by with the endpoints such a network has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.kube.errors import NotFoundError
from unit.cloud.aws.aws_bed import NODE_CLASS, AwsCloud, aws_cloud

# What private clusters have endpoints for, as boto3 names the services
REACHABLE = frozenset({"ec2", "ecr", "s3", "sts", "ssm"})
PROFILE = "made-by-hand"
RANGE = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "kubernetes"},
    "spec": {"cidrs": ["10.96.0.0/12"]},
}


@asynccontextmanager
async def isolated_cloud() -> AsyncIterator[AwsCloud]:
    """A provider that has not been started, in a network without a queue."""
    spec = {"role": None, "instanceProfile": PROFILE}
    environment = {"ISOLATED_VPC": "true"}
    async with aws_cloud(environment=environment, spec=spec, is_leading=False) as cloud:
        known = cloud.world.environment
        cloud.world.environment = {k: v for k, v in known.items() if k != "INTERRUPTION_QUEUE"}
        cloud.account.client("iam").create_instance_profile(InstanceProfileName=PROFILE)
        await cloud.memory.create(RANGE)
        cloud.make()
        cloud.world.stop()  # nobody looks at nodes here, and looking for them takes long
        yield cloud


@pytest.mark.row("S2-91")
@in_virtual_time
async def test_a_whole_life_needs_no_endpoint_a_private_cluster_lacks() -> None:
    async with isolated_cloud() as cloud:
        await cloud.provider.start()
        cloud.lead()
        await cloud.ready()
        claim = await cloud.launch(await cloud.claim())
        await cloud.provider.list()
        await cloud.provider.drift_reason(claim)
        await cloud.clock.sleep(timedelta(minutes=35).total_seconds())  # for all that looks rarely
        await cloud.provider.delete(claim)
        await cloud.clock.sleep(60.0)
        with pytest.raises(InstanceNotFoundError):
            await cloud.provider.delete(claim)
        await cloud.kube.patch(type(claim), claim.metadata.name, {"metadata": {"finalizers": []}})
        await cloud.kube.delete(type(claim), claim.metadata.name)
        await cloud.kube.delete(EC2NodeClass, NODE_CLASS)
        await cloud.clock.sleep(60.0)
        with pytest.raises(NotFoundError):
            await cloud.node_class()

    operations = {made.operation for made in cloud.calls}
    assert {"CreateFleet", "TerminateInstances", "DescribeSpotPriceHistory"} <= operations
    made = {(each.service, each.operation) for each in cloud.calls}
    assert set() == {call for call in made if call[0] not in REACHABLE}


@in_virtual_time
async def test_nodes_know_the_range_of_services_without_eks() -> None:
    async with isolated_cloud() as cloud:
        assert "10.96.0.0/12" == await cloud.provider.parts.cluster.load_service_cidr()

    assert [] == cloud.calls


@in_virtual_time
async def test_eks_is_asked_when_the_api_server_does_not_tell_the_range_of_services() -> None:
    async with isolated_cloud() as cloud:
        await cloud.memory.delete("networking.k8s.io/v1", "ServiceCIDR", None, "kubernetes")

        assert "172.20.0.0/16" == await cloud.provider.parts.cluster.load_service_cidr()

    assert ["DescribeCluster"] == [made.operation for made in cloud.calls]
