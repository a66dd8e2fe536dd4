"""The provider is made from its environment, or the start ends with one sentence."""

import random
from collections.abc import Mapping

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import running_clock
from karpenter.cloud.aws.provider import AwsProvider, make_provider
from karpenter.cloud.aws.simulated.account import simulated_account
from karpenter.cloud.provider import CloudError
from karpenter.cloud.registry import ProviderContext, ProviderError
from karpenter.kube.client import Client
from karpenter.settings import Settings
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.store.store import Store
from unit.cloud.aws.aws_bed import aws_cloud


def made(environment: Mapping[str, str]) -> AwsProvider:
    clock = running_clock()
    backend = Backend(Store(), Registry(), clock, Identity(7))
    kube = Client(MemoryTransport(Api(backend)), clock)
    rng = random.Random(1)
    with simulated_account(clock):
        return make_provider(ProviderContext(kube, clock, Settings(), environment, rng))


@in_virtual_time
async def test_the_provider_serves_ec2_node_classes() -> None:
    provider = made({"CLUSTER_NAME": "demo", "AWS_REGION": "us-west-2"})

    assert "aws" == provider.facts.name
    assert (("karpenter.k8s.aws", "EC2NodeClass"),) == provider.facts.node_classes
    assert ec2_labels.WELL_KNOWN <= provider.facts.well_known_labels
    assert ec2_labels.CAPACITY_RESERVATION_ID == provider.facts.reservation_id_label


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        pytest.param({"AWS_REGION": "us-west-2"}, "CLUSTER_NAME", id="AWS-131 no cluster"),
        pytest.param(
            {"CLUSTER_NAME": "demo", "AWS_REGION": "us-nowhere-1"}, "AWS_REGION", id="no region"
        ),
    ],
)
@in_virtual_time
async def test_a_provider_that_cannot_be_made(environment: dict[str, str], why: str) -> None:
    with pytest.raises(ProviderError, match=why):
        made(environment)


@pytest.mark.parametrize(
    ("of_eks", "version"),
    [
        pytest.param("false", "1.35", id="the API server tells its version"),
        pytest.param("true", "1.33", id="EKS tells the version"),
    ],
)
@in_virtual_time
async def test_versions(of_eks: str, version: str) -> None:
    clock = running_clock()
    backend = Backend(Store(), Registry(), clock, Identity(7))
    kube = Client(MemoryTransport(Api(backend)), clock)
    environment = {
        "CLUSTER_NAME": "sandbox",
        "AWS_REGION": "us-west-2",
        "EKS_CONTROL_PLANE": of_eks,
    }
    with simulated_account(clock, kubernetes="1.33"):
        context = ProviderContext(kube, clock, Settings(), environment, random.Random(1))
        provider = make_provider(context)

        assert version == await provider.parts.version.get()


@in_virtual_time
async def test_a_provider_that_does_not_lead_answers_too() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        assert [] == list(await cloud.provider.list())


@in_virtual_time
async def test_before_the_start_succeeds_every_question_says_why_not() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.account.faults.fail("DescribeInstanceTypes", "UnauthorizedOperation", times=1)
        with pytest.raises(CloudError, match="IAM policy"):
            await cloud.provider.list()

        assert [] == list(await cloud.provider.list())
