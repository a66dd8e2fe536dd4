"""A node class is found ready or not, and why; what it leaves goes with it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.aws_fakes import (
    CLUSTER,
    DISCOVERY,
    ROLE,
    Account,
    FakeAws,
    moto_cloud,
    placement_group,
)
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.api.nodes import Node
from karpenter.clock import Clock, running_clock
from karpenter.cloud.aws.assembly import Foundation, Parts, assemble
from karpenter.cloud.aws.ec2.errors import AwsUnauthorizedError
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.cloud.aws.network.versions import eks_version
from karpenter.cloud.aws.node_class.controller import NodeClassController
from karpenter.cloud.aws.node_class.drift_hash import VERSION
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.workers import memory_discovery, node_class_controller
from karpenter.cloud.provider import CloudError
from karpenter.kube.client import Client
from karpenter.kube.errors import NotFoundError
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter_sandbox.client import Client as MemoryClient
from karpenter_sandbox.server.api import Api
from karpenter_sandbox.server.transport import MemoryTransport
from unit.cloud.aws.aws_bed import served_kinds

NAME = "default"
CRDS = (
    "ec2nodeclasses.karpenter.k8s.aws",
    "nodeclaims.karpenter.sh",
    "nodepools.karpenter.sh",
)
SELECTOR = [{"tags": dict(DISCOVERY)}]
USUAL = {
    "role": ROLE,
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": SELECTOR,
    "securityGroupSelectorTerms": SELECTOR,
}
FEW = frozenset({"m5.large", "m5.xlarge", "g4dn.xlarge", "c6g.large"})


class Bench:
    """A controller of node classes that works when it is told to."""

    def __init__(
        self, aws: FakeAws, account: Account, memory: MemoryClient, kube: Client, parts: Parts
    ) -> None:
        self.aws = aws
        self.account = account
        self.memory = memory
        self.kube = kube
        self.parts = parts
        self.controller: NodeClassController = node_class_controller(parts)

    @property
    def clock(self) -> Clock:
        return self.parts.base.clock

    async def create(self, **spec: Any) -> None:
        body = {key: value for key, value in {**USUAL, **spec}.items() if value is not None}
        await self.kube.create(EC2NodeClass, {"metadata": {"name": NAME}, "spec": body})
        await self.settle()

    async def settle(self) -> None:
        await self.clock.sleep(0.1)

    async def reconcile(self) -> float | None:
        """Let the controller look once."""
        wait = await self.controller.reconcile(NAME)
        await self.settle()
        return wait

    async def node_class(self) -> EC2NodeClass:
        return await self.kube.get(EC2NodeClass, NAME)

    async def stored(self) -> dict[str, Any]:
        """The node class as the API server has it."""
        found: dict[str, Any] = await self.memory.get(
            "karpenter.k8s.aws/v1", "EC2NodeClass", None, NAME
        )
        return found

    async def condition(self, kind: str) -> tuple[str, str]:
        """The status and the reason of a condition."""
        found = next(
            (each for each in (await self.node_class()).status.conditions if each.type == kind),
            None,
        )
        return ("", "") if found is None else (found.status, found.reason)

    async def claim(self, name: str, **metadata: Any) -> NodeClaim:
        reference = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": NAME}
        body = {
            "metadata": {"name": name, **metadata},
            "spec": {
                "nodeClassRef": reference,
                "requirements": [{"key": labels.ARCH, "operator": "In", "values": ["amd64"]}],
            },
        }
        made = await self.kube.create(NodeClaim, body)
        await self.settle()
        return made

    def dry_runs(self) -> int:
        return sum(bool(made.parameters.get("DryRun")) for made in self.aws.made)


@asynccontextmanager
async def bench(
    settings: Mapping[str, Any] | None = None, core: Settings | None = None, **spec: Any
) -> AsyncIterator[Bench]:
    """An account with everything in it, and a node class nobody has looked at yet."""
    clock = running_clock()
    backend, memory = await served_kinds(clock)
    kube = Client(MemoryTransport(Api(backend)), clock)
    with moto_cloud(clock) as aws:
        aws.state.types = FEW
        account = Account().fill()
        parts = assemble(
            Foundation(
                calls=aws,
                kube=kube,
                clock=clock,
                rng=random.Random(1),
                core=core or Settings(),
                settings=AwsSettings(
                    **{
                        "cluster_name": CLUSTER,
                        "cluster_endpoint": "https://demo",
                        "cluster_ca_bundle": "Zm9v",
                        **(settings or {}),
                    }
                ),
                metrics=AwsMetrics(),
                version_source=eks_version(aws, CLUSTER),
            )
        )
        following = asyncio.ensure_future(parts.view.run())
        try:
            await parts.view.synced()
            await parts.types.refresh()
            made = Bench(aws, account, memory, kube, parts)
            await made.create(**spec)
            yield made
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@pytest.mark.row("S2-26")
@in_virtual_time
async def test_a_node_class_that_finds_everything_is_ready() -> None:
    async with bench() as run:
        wait = await run.reconcile()
        node_class = await run.node_class()

    kinds = [each.type for each in node_class.status.conditions]
    assert {"True"} == {each.status for each in node_class.status.conditions}
    assert "Ready" == kinds[-1]
    assert {1} == {each.observed_generation for each in node_class.status.conditions}
    assert "CapacityReservationsReady" in kinds
    assert (3, 1, 5) == (
        len(node_class.status.subnets),
        len(node_class.status.security_groups),
        len(node_class.status.amis),
    )
    assert node_class.status.instance_profile.startswith("demo_")
    assert (ec2_labels.TERMINATION,) == node_class.metadata.finalizers
    assert 60.0 == wait


@in_virtual_time
async def test_nothing_is_written_when_nothing_changes() -> None:
    async with bench() as run:
        await run.reconcile()
        before = await run.node_class()
        await run.clock.sleep(600.0)
        await run.reconcile()
        after = await run.node_class()

    assert before.metadata.resource_version == after.metadata.resource_version


@pytest.mark.row("S2-72")
@in_virtual_time
async def test_a_subnet_that_is_tagged_later_is_found_within_a_minute() -> None:
    async with bench() as run:
        untagged = run.account.subnet("us-west-2a", "10.0.9.0/24", {})
        await run.reconcile()
        before = {each.id for each in (await run.node_class()).status.subnets}
        run.account.ec2.create_tags(
            Resources=[untagged], Tags=[{"Key": k, "Value": v} for k, v in DISCOVERY.items()]
        )
        for subnet_id in before:
            run.account.ec2.delete_tags(
                Resources=[subnet_id], Tags=[{"Key": next(iter(DISCOVERY))}]
            )
        await run.clock.sleep(60.0)
        await run.reconcile()
        after = {each.id for each in (await run.node_class()).status.subnets}

    assert 3 == len(before)
    assert {untagged} == after


@pytest.mark.case("AWS-30")
@in_virtual_time
async def test_subnets_are_listed_with_most_free_addresses_first() -> None:
    terms = [{"tags": {"size": "*"}}]
    async with bench(subnetSelectorTerms=terms) as run:
        sizes = {"10": "10.0.10.0/28", "200": "10.0.11.0/24", "50": "10.0.12.0/26"}
        made = {
            name: run.account.subnet("us-west-2a", cidr, {"size": name})
            for name, cidr in sizes.items()
        }
        await run.reconcile()
        listed = [each["id"] for each in (await run.stored())["status"]["subnets"]]

    assert [made["200"], made["50"], made["10"]] == listed


@in_virtual_time
async def test_images_are_listed_with_what_they_are_for() -> None:
    async with bench() as run:
        await run.reconcile()
        node_class = await run.node_class()

    keys = {tuple(each.key for each in image.requirements) for image in node_class.status.amis}
    assert (labels.ARCH, ec2_labels.INSTANCE_GPU_COUNT) in keys
    assert all(sorted(each, key=lambda key: (len(key), key)) == list(each) for each in keys)


@pytest.mark.parametrize(
    ("spec", "kind", "reason", "field"),
    [
        pytest.param(
            {"subnetSelectorTerms": [{"tags": {"no": "such"}}]},
            "SubnetsReady",
            "SubnetsNotFound",
            "subnets",
            id="AWS-29 no subnet",
        ),
        pytest.param(
            {"securityGroupSelectorTerms": [{"name": "none"}]},
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            "securityGroups",
            id="no security group",
        ),
        pytest.param(
            {"amiSelectorTerms": [{"name": "none"}], "amiFamily": "AL2023"},
            "AMIsReady",
            "AMINotFound",
            "amis",
            id="no image",
        ),
    ],
)
def test_what_is_not_found_makes_a_class_not_ready(
    spec: dict[str, Any], kind: str, reason: str, field: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with bench() as found:
            await found.reconcile()
            await found.kube.patch(EC2NodeClass, NAME, {"spec": spec})
            await found.settle()
            await found.reconcile()

            assert ("False", reason) == await found.condition(kind)
            assert ("False", "UnhealthyDependents") == await found.condition("Ready")
            assert ("False", "DependenciesNotReady") == await found.condition("ValidationSucceeded")
            assert field not in (await found.stored())["status"]

    run()


@pytest.mark.case("AWS-33")
@pytest.mark.parametrize(
    ("version", "alias", "reason"),
    [
        pytest.param("1.33", "al2@latest", "UnsupportedAlias", id="al2 on 1.33"),
        pytest.param("1.34", "windows2025@latest", "UnsupportedAlias", id="windows on 1.34"),
        pytest.param("1.35", "windows2025@latest", None, id="windows on 1.35"),
    ],
)
def test_aliases_a_version_has_images_for(version: str, alias: str, reason: str | None) -> None:
    @in_virtual_time
    async def run() -> None:
        async with bench(amiSelectorTerms=[{"alias": alias}]) as found:
            found.account.image("ami-w", "windows")
            windows = f"Windows_Server-2025-English-Core-EKS_Optimized-{version}"
            parameter = f"/aws/service/ami-windows-latest/{windows}/image_id"
            found.account.parameter(parameter, "ami-w")

            async def told() -> str:
                return version

            found.parts.version._source = told
            await found.reconcile()

            expected = ("True", "AMIsReady") if reason is None else ("False", reason)
            assert expected == await found.condition("AMIsReady")
            assert ("True" if reason is None else "False") == (await found.condition("Ready"))[0]

    run()


@pytest.mark.case("AWS-43")
@in_virtual_time
async def test_an_alias_nothing_is_published_for_is_not_ready_and_tried_again() -> None:
    async with bench(amiSelectorTerms=[{"alias": "bottlerocket@latest"}]) as run:
        with pytest.raises(CloudError, match="no image is published"):
            await run.reconcile()

        assert ("Unknown", "AwaitingReconciliation") == await run.condition("AMIsReady")
        assert ("True", "SubnetsReady") == await run.condition("SubnetsReady")
        assert ("Unknown", "ReconcilingDependents") == await run.condition("Ready")


@pytest.mark.case("AWS-54")
@in_virtual_time
async def test_a_placement_group_that_is_missing_or_cannot_be_asked_for() -> None:
    async with bench(placementGroupSelector={"name": "one"}) as run:
        await run.reconcile()
        missing = await run.condition("PlacementGroupReady")
        run.aws.state.groups = [placement_group("pg-1", "one")]
        await run.clock.sleep(61.0)
        await run.reconcile()
        found = await run.condition("PlacementGroupReady")
        await run.clock.sleep(61.0)
        run.aws.fail("ec2", "DescribePlacementGroups", "UnauthorizedOperation")
        await run.reconcile()
        failed = await run.condition("PlacementGroupReady")

    assert ("False", "PlacementGroupNotFound") == missing
    assert "True" == found[0]
    assert ("False", "PlacementGroupResolutionFailed") == failed


@pytest.mark.parametrize(
    ("kubelet", "family", "reason"),
    [
        pytest.param(
            {"evictionSoft": {"memory.available": "1Gi"}},
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-17 a threshold without a grace period",
        ),
        pytest.param(
            {
                "evictionSoft": {"memory.available": "1Gi"},
                "evictionSoftGracePeriod": {"memory.available": "1x"},
            },
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-18 a grace period that is none",
        ),
        pytest.param(
            {"evictionHard": {"foo": "1Gi"}},
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-19 an unknown signal",
        ),
        pytest.param(
            {"evictionHard": {"memory.available": "101%"}},
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-19 more than everything",
        ),
        pytest.param(
            {"evictionHard": {"memory.available": "-1Gi"}},
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-19 less than nothing",
        ),
        pytest.param(
            {"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80},
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-20 high is not above low",
        ),
        pytest.param(
            {"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]},
            "AL2023",
            "InvalidKubeletConfiguration",
            id="AWS-21 taints",
        ),
        pytest.param(
            {"fooBar": 1}, "AL2023", "InvalidKubeletConfiguration", id="AWS-22 an unknown key"
        ),
        pytest.param(
            {"registryPullQPS": 10},
            "AL2",
            "UnsupportedKubeletConfiguration",
            id="AWS-23 what AL2 cannot pass on",
        ),
        pytest.param({"registryPullQPS": 10}, "AL2023", None, id="AWS-23 what AL2023 can pass on"),
        pytest.param(
            {"podsPerCore": 2},
            "Bottlerocket",
            "UnsupportedKubeletConfiguration",
            id="AWS-24 podsPerCore on Bottlerocket",
        ),
        pytest.param(
            {"clusterDNS": ["10.0.0.1", "10.0.0.2"]},
            "AL2",
            "UnsupportedKubeletConfiguration",
            id="AWS-24 two DNS servers on AL2",
        ),
        pytest.param(
            {"clusterDNS": ["10.0.0.1", "10.0.0.2"]},
            "AL2023",
            None,
            id="AWS-24 two DNS servers on AL2023",
        ),
        pytest.param(
            {"maxPods": "vcpus * 10"},
            "AL2023",
            "KubeletExpressionsDisabled",
            id="AWS-25 an expression without the gate",
        ),
    ],
)
def test_kubelet_settings(kubelet: dict[str, Any], family: str, reason: str | None) -> None:
    @in_virtual_time
    async def run() -> None:
        terms = [{"name": "amazon-eks-node-al2023-*"}]
        async with bench(amiSelectorTerms=terms, amiFamily=family, kubelet=kubelet) as found:
            await found.reconcile()
            expected = ("True", "ValidationSucceeded") if reason is None else ("False", reason)

            assert expected == await found.condition("ValidationSucceeded")
            assert ("True" if reason is None else "False") == (await found.condition("Ready"))[0]

    run()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        pytest.param("vcpus +", "KubeletExpressionInvalid", id="AWS-26 half an expression"),
        pytest.param("vcpus - 4", "KubeletExpressionEvaluationFailed", id="AWS-27 below nothing"),
        pytest.param("vcpus * 10", "ValidationSucceeded", id="an expression that works"),
    ],
)
def test_expressions_with_the_gate(expression: str, reason: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with bench({"node_class_cel": True}, kubelet={"maxPods": expression}) as found:
            await found.reconcile()

            assert reason == (await found.condition("ValidationSucceeded"))[1]

    run()


@pytest.mark.case("AWS-34")
@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ],
    ids=str,
)
def test_a_launch_that_would_not_be_allowed(operation: str, reason: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with bench() as found:
            subnets = 3 if operation == "RunInstances" else 1
            found.aws.fail("ec2", operation, "UnauthorizedOperation", status=403, times=subnets)
            await found.reconcile()
            refused = await found.condition("ValidationSucceeded")
            made = found.aws.count(operation)
            await found.clock.sleep(1700.0)
            await found.reconcile()
            again = found.aws.count(operation)
            await found.clock.sleep(200.0)
            await found.reconcile()

            assert ("False", reason) == refused
            assert made == again
            assert ("True", "ValidationSucceeded") == await found.condition("ValidationSucceeded")

    run()


@pytest.mark.case("AWS-35")
@in_virtual_time
async def test_a_busy_ec2_says_nothing_about_a_class() -> None:
    async with bench() as run:
        run.aws.fail("ec2", "CreateFleet", "RequestLimitExceeded", status=503)
        wait = await run.reconcile()
        busy = await run.condition("ValidationSucceeded")
        await run.reconcile()
        after = await run.condition("ValidationSucceeded")

    assert 10.0 == wait
    assert ("Unknown", "AwaitingReconciliation") == busy
    assert "True" == after[0]
    fleets = [made for made in run.aws.made if made.operation == "CreateFleet"]
    assert [1, 1] == [made.attempts for made in fleets]


@pytest.mark.case("AWS-36")
@in_virtual_time
async def test_one_subnet_that_works_is_enough() -> None:
    async with bench() as run:
        run.aws.fail("ec2", "RunInstances", "UnauthorizedOperation", status=403)
        await run.reconcile()

        assert "True" == (await run.condition("ValidationSucceeded"))[0]
        assert 2 == run.aws.count("RunInstances")


@in_virtual_time
async def test_if_no_subnet_works_the_first_one_says_why() -> None:
    async with bench() as run:
        run.aws.fail("ec2", "RunInstances", "UnauthorizedOperation", status=403)
        run.aws.fail("ec2", "RunInstances", "InvalidParameterValue", "another reason", times=2)
        await run.reconcile()

        assert ("False", "RunInstancesAuthCheckFailed") == await run.condition(
            "ValidationSucceeded"
        )


@in_virtual_time
async def test_a_busy_ec2_says_nothing_though_other_subnets_were_refused() -> None:
    async with bench() as run:
        run.aws.fail("ec2", "RunInstances", "UnauthorizedOperation", status=403, times=2)
        run.aws.fail("ec2", "RunInstances", "RequestLimitExceeded", status=503)
        wait = await run.reconcile()

        assert 10.0 == wait
        assert ("Unknown", "AwaitingReconciliation") == await run.condition("ValidationSucceeded")


@pytest.mark.parametrize("is_turned", [False, True])
def test_the_order_of_subnets_decides_nothing(is_turned: bool) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with bench() as run:
            ids = sorted(
                each["SubnetId"]
                for each in run.account.ec2.describe_subnets(
                    Filters=[{"Name": "tag-key", "Values": list(DISCOVERY)}]
                )["Subnets"]
            )
            free = dict(zip(ids, (10, 20, 30) if is_turned else (30, 20, 10), strict=True))
            with_addresses(run, free)
            for subnet, code in zip(
                ids, ("UnauthorizedOperation", "Strange", "Stranger"), strict=True
            ):
                run.aws.fail("ec2", "RunInstances", code, when=launching_into(subnet), times=9)
            await run.reconcile()
            order = [each.id for each in (await run.node_class()).status.subnets]
            assert order == sorted(ids, key=free.__getitem__, reverse=True)
            assert ("False", "RunInstancesAuthCheckFailed") == await run.condition(
                "ValidationSucceeded"
            )
            # pods come and go, and what EC2 said still counts
            made = run.dry_runs()
            with_addresses(run, {each: 60 - left for each, left in free.items()})
            await run.clock.sleep(90.0)
            await run.reconcile()
            turned = [each.id for each in (await run.node_class()).status.subnets]
            assert order[::-1] == turned
            assert made == run.dry_runs()

    run_it()


def with_addresses(run: Bench, free: Mapping[str, int]) -> None:
    """Let subnets have so many addresses left."""
    described = run.account.ec2.describe_subnets

    def describe(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = described(**{key: parameters[key] for key in ("Filters",) if key in parameters})
        for subnet in answer["Subnets"]:
            subnet["AvailableIpAddressCount"] = free[subnet["SubnetId"]]
        return dict(answer)

    run.aws.fakes["ec2", "DescribeSubnets"] = describe


def launching_into(subnet: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda parameters: parameters["NetworkInterfaces"][0]["SubnetId"] == subnet


@pytest.mark.case("AWS-37")
@in_virtual_time
async def test_dry_runs_can_be_turned_off() -> None:
    async with bench({"disable_dry_run": True}) as run:
        await run.reconcile()

        assert "True" == (await run.condition("ValidationSucceeded"))[0]
        assert 0 == run.dry_runs()
        assert 0 == run.aws.count("CreateLaunchTemplate")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"role": None, "instanceProfile": "theirs"},
            ("False", "InstanceProfileNotFound"),
            id="AWS-38 a profile that is named",
        ),
        pytest.param({}, ("Unknown", "AwaitingReconciliation"), id="a profile of ours"),
    ],
)
def test_a_profile_ec2_does_not_know(spec: dict[str, Any], expected: tuple[str, str]) -> None:
    @in_virtual_time
    async def run() -> None:
        async with bench(**spec) as found:
            message = "Value (theirs) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            found.aws.fail("ec2", "RunInstances", "InvalidParameterValue", message, times=3)
            await found.reconcile()
            refused = await found.condition("ValidationSucceeded")
            await found.reconcile()

            assert expected == refused
            assert "True" == (await found.condition("ValidationSucceeded"))[0]

    run()


@in_virtual_time
async def test_a_role_that_does_not_exist_is_named_in_a_condition_until_it_does() -> None:
    async with bench(role="NoSuchRole") as run:
        await run.reconcile()
        held = {each.type: each for each in (await run.node_class()).status.conditions}
        ready = held["InstanceProfileReady"]

        assert ("False", "RoleNotFound") == (ready.status, ready.reason)
        expected = "the role NoSuchRole does not exist; create it, or name another in spec.role"
        assert expected == ready.message
        assert "False" == held["Ready"].status

        run.account.role("NoSuchRole")
        await run.clock.sleep(61)
        await run.reconcile()
        assert "True" == (await run.condition("InstanceProfileReady"))[0]


@in_virtual_time
async def test_user_data_that_is_too_large() -> None:
    async with bench() as run:
        message = "User data is limited to 16384 bytes"
        run.aws.fail("ec2", "RunInstances", "InvalidParameterValue", message, times=3)
        await run.reconcile()

        assert ("False", "UserDataSizeLimitExceeded") == await run.condition("ValidationSucceeded")


@in_virtual_time
async def test_addresses_of_services_that_cannot_be_found() -> None:
    async with bench() as run:
        run.aws.fail("eks", "DescribeCluster", "AccessDeniedException", status=403, times=9)
        run.parts.version._known = "1.31"
        await run.reconcile()

        assert ("False", "ClusterCIDRResolutionFailed") == await run.condition(
            "ValidationSucceeded"
        )


@in_virtual_time
async def test_the_rehearsal_uses_a_type_its_pools_would_use() -> None:
    async with bench() as run:
        spec = {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": ec2_labels.DOMAIN,
                        "kind": "EC2NodeClass",
                        "name": NAME,
                    },
                    "requirements": [
                        {"key": labels.ARCH, "operator": "In", "values": ["arm64"]},
                        {
                            "key": ec2_labels.INSTANCE_TENANCY,
                            "operator": "In",
                            "values": ["dedicated"],
                        },
                    ],
                }
            }
        }
        await run.kube.create(NodePool, {"metadata": {"name": "arm"}, "spec": spec})
        await run.settle()
        await run.reconcile()
        by_operation = {made.operation: made.parameters for made in run.aws.made}

    overrides = by_operation["CreateFleet"]["LaunchTemplateConfigs"][0]["Overrides"]
    assert {"c6g.large"} == {each["InstanceType"] for each in overrides}
    assert 3 == len(overrides)
    data = by_operation["CreateLaunchTemplate"]["LaunchTemplateData"]
    assert "dedicated" == data["Placement"]["Tenancy"]


def pool_of(*requirements: Mapping[str, Any]) -> dict[str, Any]:
    reference = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": NAME}
    template = {"spec": {"nodeClassRef": reference, "requirements": list(requirements)}}
    return {"metadata": {"name": "general"}, "spec": {"template": template}}


def last(run: Bench, operation: str) -> Mapping[str, Any]:
    return [made for made in run.aws.made if made.operation == operation][-1].parameters


@in_virtual_time
async def test_a_pool_that_says_nothing_of_tenancy_is_rehearsed_on_shared_hardware() -> None:
    async with bench() as run:
        await run.kube.create(NodePool, pool_of())
        await run.settle()
        await run.reconcile()

        data = last(run, "CreateLaunchTemplate")["LaunchTemplateData"]
        assert "default" == data["Placement"]["Tenancy"]


@in_virtual_time
async def test_every_network_interface_of_the_class_is_rehearsed_with_its_tags() -> None:
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    async with bench(networkInterfaces=interfaces, ipPrefixCount=2) as run:
        # that of the cheapest price does not have such interfaces
        run.aws.state.types = frozenset({"m5.large", "p4d.24xlarge"})
        await run.parts.types.refresh()
        await run.kube.create(NodePool, pool_of())
        await run.settle()
        await run.reconcile()

        request = last(run, "RunInstances")
        assert "p4d.24xlarge" == request["InstanceType"]
        assert [(0, 0, "interface", 2), (0, 1, "efa-only", None), (1, 1, "efa-only", None)] == [
            (
                each["NetworkCardIndex"],
                each["DeviceIndex"],
                each["InterfaceType"],
                each.get("Ipv4PrefixCount"),
            )
            for each in request["NetworkInterfaces"]
        ]
        assert 1 == len({each["SubnetId"] for each in request["NetworkInterfaces"]})
        assert all(each["Groups"] for each in request["NetworkInterfaces"])
        tagged = {each["ResourceType"]: each["Tags"] for each in request["TagSpecifications"]}
        assert {"instance", "volume", "network-interface"} == set(tagged)
        assert tagged["instance"] == tagged["network-interface"]


@pytest.mark.case("AWS-39")
@in_virtual_time
async def test_a_class_that_is_deleted_waits_for_its_claims_and_leaves_nothing() -> None:
    async with bench() as run:
        await run.reconcile()
        await run.claim("one")
        profile = (await run.node_class()).status.instance_profile
        await run.kube.delete(EC2NodeClass, NAME)
        await run.settle()
        wait = await run.reconcile()
        waiting = await run.node_class()
        event = run.parts.recorder._queue[-1].event
        await run.kube.delete(NodeClaim, "one")
        await run.settle()
        await run.reconcile()
        templates = run.account.ec2.describe_launch_templates()["LaunchTemplates"]
        profiles = run.account.iam.list_instance_profiles()["InstanceProfiles"]

        assert profile
        assert 600.0 == wait
        assert (ec2_labels.TERMINATION,) == waiting.metadata.finalizers
        assert ("Normal", "WaitingOnNodeClaimTermination") == (event.type, event.reason)
        assert "Waiting on NodeClaim termination for one" == event.message
        assert ([], []) == (templates, profiles)
        with pytest.raises(NotFoundError):
            await run.node_class()


@in_virtual_time
async def test_a_class_goes_though_profiles_may_not_be_listed_and_says_what_may_be_left() -> None:
    async with bench() as run:
        await run.reconcile()
        run.aws.fail("iam", "ListInstanceProfiles", "AccessDenied", status=403, times=99)
        await run.kube.delete(EC2NodeClass, NAME)
        await run.settle()
        await run.reconcile()
        told = [entry.event for entry in run.parts.recorder._queue]

        assert [] == run.account.iam.list_instance_profiles()["InstanceProfiles"]
        assert [] == run.account.ec2.describe_launch_templates()["LaunchTemplates"]
        with pytest.raises(NotFoundError):
            await run.node_class()
        assert "InstanceProfilesNotListed" == told[-1].reason
        assert "iam:ListInstanceProfiles" in told[-1].message


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("iam", "GetInstanceProfile"),
        ("iam", "RemoveRoleFromInstanceProfile"),
        ("iam", "DeleteInstanceProfile"),
        ("ec2", "DescribeLaunchTemplates"),
        ("ec2", "DeleteLaunchTemplate"),
    ],
)
def test_a_class_that_cannot_be_deleted_names_the_permission(service: str, operation: str) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with bench() as run:
            await run.reconcile()
            run.aws.fail(service, operation, "UnauthorizedOperation", status=403, times=99)
            await run.kube.delete(EC2NodeClass, NAME)
            await run.settle()
            with pytest.raises(AwsUnauthorizedError):
                await run.reconcile()
            await run.settle()
            assert ("False", "DeletionBlocked") == await run.condition("Ready")
            conditions = (await run.node_class()).status.conditions
            assert f"grant the controller {service}:{operation}" in conditions[-1].message
            # once it is granted, the class goes
            run.aws.clear()
            await run.reconcile()
            with pytest.raises(NotFoundError):
                await run.node_class()

    run_it()


@pytest.mark.case("AWS-40")
@in_virtual_time
async def test_an_isolated_class_goes_without_iam() -> None:
    isolated = {"isolated_vpc": True}
    async with bench(isolated, role=None, instanceProfile="theirs") as run:
        await run.reconcile()
        await run.kube.delete(EC2NodeClass, NAME)
        await run.settle()
        await run.reconcile()

        assert "iam" not in run.aws.services()
        assert "pricing" not in run.aws.services()
        with pytest.raises(NotFoundError):
            await run.node_class()


@pytest.mark.case("AWS-114")
@in_virtual_time
async def test_a_change_of_the_spec_changes_the_hash_on_the_class_alone() -> None:
    async with bench() as run:
        await run.reconcile()
        before = (await run.node_class()).metadata.annotations
        stamp = {
            key: before[key]
            for key in (ec2_labels.NODE_CLASS_HASH, ec2_labels.NODE_CLASS_HASH_VERSION)
        }
        await run.claim("one", annotations=stamp)
        await run.kube.patch(EC2NodeClass, NAME, {"spec": {"userData": "echo hello"}})
        await run.settle()
        await run.reconcile()
        after = (await run.node_class()).metadata.annotations
        claim = await run.kube.get(NodeClaim, "one")

    assert VERSION == after[ec2_labels.NODE_CLASS_HASH_VERSION]
    assert before[ec2_labels.NODE_CLASS_HASH] != after[ec2_labels.NODE_CLASS_HASH]
    assert (
        before[ec2_labels.NODE_CLASS_HASH] == claim.metadata.annotations[ec2_labels.NODE_CLASS_HASH]
    )


@pytest.mark.case("AWS-115")
@in_virtual_time
async def test_claims_with_a_hash_of_another_kind_get_a_new_one_unless_they_have_drifted() -> None:
    async with bench() as run:
        old = {ec2_labels.NODE_CLASS_HASH: "1", ec2_labels.NODE_CLASS_HASH_VERSION: "v4"}
        await run.claim("fresh", annotations=old)
        await run.claim("drifted", annotations=old)
        condition = {
            "type": "Drifted",
            "status": "True",
            "reason": "Drifted",
            "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        body = {"status": {"conditions": [condition]}}
        await run.kube.patch(NodeClaim, "drifted", body, subresource="status")
        await run.settle()
        await run.reconcile()
        stamp = (await run.node_class()).metadata.annotations[ec2_labels.NODE_CLASS_HASH]
        hashes = {}
        for name in ("fresh", "drifted"):
            held = (await run.kube.get(NodeClaim, name)).metadata.annotations
            hashes[name] = (
                held[ec2_labels.NODE_CLASS_HASH],
                held[ec2_labels.NODE_CLASS_HASH_VERSION],
            )

    assert {"fresh": (stamp, VERSION), "drifted": ("1", VERSION)} == hashes


@in_virtual_time
async def test_the_controller_looks_after_classes_by_itself() -> None:
    async with bench() as run:
        task = asyncio.ensure_future(run.controller.run())
        await run.clock.sleep(5.0)
        ready = await run.condition("Ready")
        await run.kube.patch(
            EC2NodeClass, NAME, {"spec": {"subnetSelectorTerms": [{"tags": {"no": "such"}}]}}
        )
        await run.clock.sleep(5.0)
        broken = await run.condition("Ready")
        run.account.subnet("us-west-2a", "10.0.9.0/24", {"no": "such"})
        await run.clock.sleep(130.0)
        mended = await run.condition("Ready")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert ("True", "False", "True") == (ready[0], broken[0], mended[0])


@in_virtual_time
async def test_a_failing_account_is_asked_again_and_nothing_else_stops() -> None:
    async with bench() as run:
        task = asyncio.ensure_future(run.controller.run())
        run.aws.fail("iam", "CreateInstanceProfile", "AccessDenied", status=403, times=3)
        await run.clock.sleep(10.0)
        ready = await run.condition("Ready")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert "True" == ready[0]
    assert 4 == run.aws.count("CreateInstanceProfile")


@in_virtual_time
async def test_without_the_gate_reservations_are_no_condition() -> None:
    gates = Settings()
    core = type(gates)(feature_gates=type(gates.feature_gates)({"ReservedCapacity": False}))
    async with bench(core=core) as run:
        await run.reconcile()
        kinds = {each.type for each in (await run.node_class()).status.conditions}

    assert "CapacityReservationsReady" not in kinds
    assert 0 == run.aws.count("DescribeCapacityReservations")


@pytest.mark.case("AWS-67")
@in_virtual_time
async def test_memory_is_learned_from_nodes_that_booted_the_present_image() -> None:
    async with bench() as run:
        await run.reconcile()
        node_class = await run.node_class()
        image = next(
            each for each in node_class.status.amis if each.name.endswith("x86_64-standard-1.31")
        )
        learner = memory_discovery(run.parts)
        for name, image_id, memory in (
            ("one", image.id, "7700Mi"),
            ("two", image.id, "7600Mi"),
            ("three", "ami-other", "7500Mi"),
        ):
            await run.claim(name)
            provider_id = f"aws:///us-west-2a/i-{name}"
            status = {"status": {"providerID": provider_id, "imageID": image_id}}
            await run.kube.patch(NodeClaim, name, status, subresource="status")
            await run.settle()
            body = {
                "metadata": {
                    "name": name,
                    "labels": {labels.INSTANCE_TYPE: "m5.large", labels.REGISTERED: "true"},
                },
                "spec": {"providerID": provider_id},
            }
            await run.kube.create(Node, body)
            node = await run.kube.patch(
                Node, name, {"status": {"capacity": {"memory": memory}}}, subresource="status"
            )
            await learner.learn(node)
        types = {kind.name: kind for kind in await run.parts.types.list(node_class)}

    assert 7600 * 2**20 == types["m5.large"].capacity.memory
