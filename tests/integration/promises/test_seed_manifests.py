"""The seed manifests, unaltered, on the kwok and the AWS sandbox: nodes, or a sentence that says why.

Each file is applied as ``kubectl apply`` does. Where nodes should come, pods wait for them: those
of the same documents, or pods that tolerate whatever a pool asks of them.
"""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers import server
from helpers.autoscaler import Autoscaler, autoscaler, deployment
from helpers.aws_sandbox import AwsSandbox, aws_sandbox
from helpers.clusters import in_virtual_time
from helpers.seeds import as_applied, each_entry, is_refused, load, needs_seeds, register_image
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.clock import Clock, running_clock
from karpenter.cloud.kwok.catalogue import load as load_types
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider
from karpenter.kube.client import Client
from karpenter.manifests.errors import ManifestError
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.status import ApiError

pytestmark = pytest.mark.storm

# What refusals must name, where the reason is not the missing provider of an excerpt
FIELDS = {
    "s000-provisioner-default.yaml": ("spec.provider.subnetSelector",),
    "s001-awsnodetemplate-subnetselector.yaml": ("spec.securityGroupSelector",),
    "s001-awsnodetemplate-tags.yaml": ("spec.subnetSelector", "spec.securityGroupSelector"),
    "bad-s001-combined-ttl-and-consolidation.yaml": ("spec.ttlSecondsAfterEmpty",),
    "bad-s002-nodepool-full-semantics.yaml": ("spec.limits.resources",),
    "bad-s002-ec2nodeclass.yaml": ("compute.k8s.aws/v1beta1", "EC2NodeClass"),
    "s002-nodepool-ttl.yaml": ("spec.template",),
    "s002-nodepool-limits.yaml": ("spec.template",),
    "bad-s002-pod-do-not-disrupt-bool.yaml": ("metadata.annotations",),
    "s002-eksctl-clusterconfig.yaml": ("ClusterConfig", "eksctl.io/v1alpha5"),
    "s003-eksctl-clusterconfig.yaml": ("ClusterConfig", "eksctl.io/v1alpha5"),
}
NO_API_OBJECT = {"s002-helm-values.yaml"}  # input of a chart
ANYTHING = [{"operator": "Exists"}]


@pytest.mark.parametrize("provider", ["kwok", "aws"])
@pytest.mark.parametrize("entry", each_entry())
@in_virtual_time
async def test_a_file_is_stored_or_refused_as_the_index_says(
    entry: dict[str, Any], provider: str
) -> None:
    name = entry["file"]
    if entry["parse"] == "error":
        with pytest.raises(ManifestError, match=rf"^{name}:\d+"):
            load(name)
        return
    if name in NO_API_OBJECT:
        assert all("kind" not in obj for obj in load(name))
        return
    cluster = Cluster(running_clock(), seed=0, provider=provider, is_strict=True)
    await cluster.start()
    try:
        refusals = [await refusal(cluster, obj) for obj in load(name)]
        if not is_refused(entry, provider):
            assert [""] * len(refusals) == refusals
            for obj in load(name):
                await assert_stored(cluster, obj)
            return
        told = " ".join(refusals)
        missing = [f for f in FIELDS.get(name, ("spec.providerRef",)) if f not in told]
        assert ([], True) == (missing, any(refusals)), told
    finally:
        await cluster.stop()


async def create(cluster: Cluster, obj: dict[str, Any]) -> None:
    namespace = obj["metadata"].get("namespace", "default")
    await cluster.client.create(as_applied(obj), namespace=namespace)


async def refusal(cluster: Cluster, obj: dict[str, Any]) -> str:
    """Apply an object, and return why it was refused."""
    try:
        await create(cluster, obj)
    except ApiError as error:
        return str(error)
    return ""


async def assert_stored(cluster: Cluster, obj: dict[str, Any]) -> None:
    """What was written is there; the server may have added to it."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "default")
    found = await cluster.client.get(obj["apiVersion"], obj["kind"], namespace, metadata["name"])
    assert_holds(found, obj, obj["kind"])


def assert_holds(found: Any, written: Any, where: str) -> None:
    if isinstance(written, dict):
        for key, value in written.items():
            assert_holds(found[key], value, f"{where}.{key}")
    elif isinstance(written, list):
        # defaulting adds requirements behind those that are there
        for index, value in enumerate(written):
            assert_holds(found[index], value, f"{where}[{index}]")
    else:
        assert str(written) == str(found), where


def machine(name: str, cpu: int, *zones: str, gpus: int = 0) -> dict[str, Any]:
    """A machine of EC2's as the kwok provider may sell it."""
    extra = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    resources = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110", **extra}
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"ephemeral-storage": "20Gi", **resources},
        "offerings": [
            {
                "Price": 0.05 * cpu * (1 if kind == "on-demand" else 0.4),
                "Requirements": [
                    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [kind]},
                    {"key": labels.ZONE, "operator": "In", "values": [zone]},
                ],
            }
            for zone in zones
            for kind in ("on-demand", "spot")
        ],
    }


WEST = ("us-west-2a", "us-west-2b")
MACHINES = json.dumps([machine("m5.large", 2, *WEST), machine("m5.2xlarge", 8, *WEST)]).encode()


def west_cloud(kube: Client, clock: Clock, _: random.Random) -> CloudProvider:
    """A kwok cloud that sells what the seeds name, where they want it."""
    return KwokProvider(kube, clock, load_types(MACHINES, "machines"))


async def applied(run: Autoscaler, *names: str) -> None:
    """Apply files, one after the other."""
    for name in names:
        for obj in load(name):
            await create(run.cluster, obj)


@asynccontextmanager
async def on_kwok(*names: str) -> AsyncIterator[Autoscaler]:
    """A cluster of simulated machines to which files of the seeds were applied."""
    async with autoscaler(make_cloud=west_cloud) as run:
        await applied(run, *names)
        yield run


def active(run: Autoscaler) -> dict[str, tuple[str, str]]:
    """What the Provisioners say of themselves."""
    return {
        obj["metadata"]["name"]: (condition["status"], condition["message"])
        for obj in run.objects("karpenter.sh", "provisioners")
        for condition in obj.get("status", {}).get("conditions", ())
        if condition["type"] == "Active"
    }


def pools_of_nodes(run: Autoscaler) -> set[str]:
    return {node["metadata"]["labels"][labels.NODEPOOL] for node in run.nodes}


# file -> the labels that nodes of its pool must have
KWOK_POOLS = {
    "s000-provisioner-default.yaml": {"billing-team": "my-team"},
    "s001-provisioner-taints.yaml": {},
    "s001-provisioner-startuptaints.yaml": {},
    "s001-provisioner-labels.yaml": {"billing-team": "my-team"},
    "s001-provisioner-annotations.yaml": {},
    "s001-provisioner-requirements.yaml": {},
    "s001-provisioner-kubeletconfiguration.yaml": {},
    "s001-provisioner-limits.yaml": {},
    "s001-provisioner-consolidation.yaml": {},
    "s001-provisioner-ttlsecondsuntilexpired.yaml": {},
    "s001-provisioner-ttlsecondsafterempty.yaml": {},
    "s001-provisioner-weight.yaml": {},
    "s001-combined.yaml": {"billing-team": "my-team"},
    "s003-provisioner-default.yaml": {},
}


@needs_seeds
@pytest.mark.parametrize("name", KWOK_POOLS)
@in_virtual_time
async def test_a_provisioner_gives_waiting_pods_nodes_on_kwok(name: str) -> None:
    async with autoscaler(make_cloud=west_cloud) as run:
        await applied(run, name)
        await run.apply(deployment("waiting", 2, tolerations=ANYTHING))
        await run.until(lambda: len(run.running) == 2)

        (pool,) = (obj["metadata"]["name"] for obj in run.objects("karpenter.sh", "provisioners"))
        await run.until(lambda: active(run) == {pool: ("True", "")})
        assert {pool} == pools_of_nodes(run)
        for node in run.nodes:
            assert KWOK_POOLS[name].items() <= node["metadata"]["labels"].items()


@needs_seeds
@in_virtual_time
async def test_a_provisioner_that_no_machine_suits_says_so_on_kwok() -> None:
    async with autoscaler() as run:  # which sells nothing in us-west-2
        await applied(run, "s000-provisioner-default.yaml")
        await run.apply(deployment("waiting", 2, tolerations=ANYTHING))
        reason = "nodepool default: no instance type satisfies the pool's own requirements"
        sentence = f"Failed to schedule pod, {reason}"
        await run.until(lambda: ("Pod", "FailedScheduling", sentence) in run.events)

        assert [] == run.nodes


@needs_seeds
@in_virtual_time
async def test_a_provisioner_waits_for_its_template_and_says_so_on_kwok() -> None:
    async with autoscaler(make_cloud=west_cloud) as run:
        await applied(run, "s001-provisioner-providerref.yaml")
        await run.apply(deployment("waiting", 2))
        sentence = "there is no KWOKNodeClass foo-template, and no AWSNodeTemplate of that name"
        await run.until(lambda: active(run) == {"foo-node-provisioner": ("False", sentence)})
        assert [] == run.nodes

        await applied(run, "s001-combined.yaml")  # whose own pool is tainted
        await run.until(lambda: len(run.running) == 2)
        assert {"foo-node-provisioner"} == pools_of_nodes(run)


@needs_seeds
@in_virtual_time
async def test_the_workloads_of_the_seeds_run_on_nodes_of_the_seeds_pools_on_kwok() -> None:
    async with on_kwok(
        "s003-provisioner-default.yaml",
        "s001-provisioner-labels.yaml",
        "s002-configmap-aws-auth.yaml",
        "s002-limitrange-default.yaml",
        "s002-pdb-my-app.yaml",
        "s002-deployment-graceful-shutdown.yaml",
        "s002-deployment-workload-my-team.yaml",
    ) as run:
        await run.until(lambda: len(run.running) == 202)

        requests = {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in run.running
        }
        assert {"100m"} == requests  # the LimitRange's
        of_team = {n["metadata"]["name"] for n in run.nodes if has_team(n)}
        used = {pod["spec"]["nodeName"] for pod in of_app(run, "workload-my-team")}
        assert used
        assert used <= of_team


def has_team(node: dict[str, Any]) -> bool:
    return bool(node["metadata"]["labels"].get("billing-team") == "my-team")


@needs_seeds
@in_virtual_time
async def test_inflate_and_a_job_that_must_not_be_disrupted_get_nodes_on_kwok() -> None:
    async with on_kwok(
        "s003-provisioner-default.yaml",
        "s002-deployment-inflate.yaml",
        "s002-pod-do-not-disrupt.yaml",
        "s003-deployment-app.yaml",
    ) as run:
        await run.until(lambda: len(run.running) == 2)
        (protected,) = (
            pod["spec"]["nodeName"]
            for pod in run.running
            if labels.DO_NOT_DISRUPT in pod["metadata"].get("annotations", {})
        )
        assert protected in {node["metadata"]["name"] for node in run.nodes}

        await run.scale("inflate", 5)
        await run.until(lambda: len(of_app(run, "inflate")) == 5)


def of_app(run: Autoscaler, name: str) -> list[dict[str, Any]]:
    """The pods of an app that run."""
    return [p for p in run.running if p["metadata"].get("labels", {}).get("app") == name]


DEMO_ROLE = "KarpenterNodeRole-karpenter-demo"


@asynccontextmanager
async def demo_account(
    *types: str, region: str = "us-west-2", has_image: bool = True
) -> AsyncIterator[AwsSandbox]:
    """The account of the second document: cluster, role and discovery tag as its files say."""
    async with aws_sandbox(
        cluster="karpenter-demo",
        region=region,
        node_role=DEMO_ROLE,
        has_class=False,
        types=frozenset(types),
    ) as box:
        if has_image:
            register_image(box.account)
        await applied(box.run, "s002-ec2nodeclass.yaml")
        yield box


# Each with the workload that suits it, how many pods that has, and where its zones are
EC2_POOLS = [
    ("s002-nodepool-default-team.yaml", "s002-deployment-workload-my-team.yaml", 200, "us-west-2"),
    ("s002-nodepool-gpu.yaml", "s002-deployment-inflate-gpu.yaml", 1, "us-west-2"),
    ("s002-nodepool-notin-instancetype.yaml", "s003-deployment-app.yaml", 1, "us-west-2"),
    ("s002-nodepool-full.yaml", "", 2, "ap-northeast-2"),
]
TYPES = ("m5.xlarge", "m5.2xlarge", "c5.2xlarge", "p3.8xlarge", "c5.4xlarge", "c5a.4xlarge")


@needs_seeds
@pytest.mark.parametrize(("pool", "workload", "count", "region"), EC2_POOLS)
@in_virtual_time
async def test_a_nodepool_gives_its_workload_nodes_on_aws(
    pool: str, workload: str, count: int, region: str
) -> None:
    async with demo_account(*TYPES, region=region) as box:
        run = box.run
        await applied(run, pool, *([workload] if workload else []))
        if not workload:
            await run.apply(deployment("waiting", count, tolerations=ANYTHING))
        await run.until(lambda: len(run.running) == count)

        (name,) = (obj["metadata"]["name"] for obj in load(pool))
        assert {name} == pools_of_nodes(run)
        (written,) = load(pool)
        for requirement in written["spec"]["template"]["spec"]["requirements"]:
            if requirement["operator"] == "In":
                held = {n["metadata"]["labels"].get(requirement["key"]) for n in run.nodes}
                assert held <= set(requirement["values"])
        for instance in box.account.running():
            tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
            assert {"test-tag": "test-value", "team": "team-a"}.items() <= tags.items()


@needs_seeds
@pytest.mark.parametrize("name", [pool for pool, *_ in EC2_POOLS])
def test_a_nodepool_for_ec2_is_taken_on_kwok_with_the_sentence_that_no_nodes_come(
    name: str,
) -> None:
    api = server.cluster()
    for definition in builtin_crds().values():
        api.create(definition)
    (pool,) = load(name)

    answer = api.call("POST", "/apis/karpenter.sh/v1beta1/nodepools", as_applied(pool))

    assert 201 == answer.status, answer.body
    assert "no nodes come of this NodePool here" in answer.headers["Warning"]
    assert "start it with --provider aws" in answer.headers["Warning"]


@needs_seeds
@in_virtual_time
async def test_a_class_whose_images_are_not_there_says_so_on_aws() -> None:
    async with demo_account("m5.large", has_image=False) as box:
        run = box.run
        await applied(run, "s002-nodepool-notin-instancetype.yaml", "s003-deployment-app.yaml")
        sentence = "amiSelectorTerms did not match any AMIs"
        await run.until(lambda: sentence in class_problems(run))

        assert [] == run.nodes


def class_problems(run: Autoscaler) -> set[str]:
    """What keeps node classes from launching."""
    return {
        condition["message"]
        for obj in run.objects("karpenter.k8s.aws", "ec2nodeclasses")
        for condition in obj.get("status", {}).get("conditions", ())
        if condition["status"] == "False"
    }


def legacy(role: str) -> Settings:
    """What ``karpenter sandbox --provider aws`` sets for Provisioners."""
    return Settings(legacy_node_role=role, legacy_ami_family="AL2023")


@needs_seeds
@in_virtual_time
async def test_a_provisioner_of_a_template_gets_nodes_on_aws_once_its_subnets_are_there() -> None:
    async with aws_sandbox(
        cluster="foo-cluster",
        has_class=False,
        types=frozenset({"m5.xlarge", "c5.xlarge"}),
        settings=legacy("KarpenterNodeRole"),
    ) as box:
        run = box.run
        await applied(run, "s001-provisioner-providerref.yaml")
        sentence = "there is no EC2NodeClass foo-template, and no AWSNodeTemplate of that name"
        await run.until(lambda: active(run) == {"foo-node-provisioner": ("False", sentence)})

        await applied(run, "s001-combined.yaml")
        await run.apply(deployment("special", 2, tolerations=ANYTHING, nodeSelector=TEAM))
        await run.apply(deployment("plain", 2))
        sentence = "subnetSelectorTerms did not match any subnets"
        await run.until(lambda: sentence in class_problems(run))
        assert {"False"} == {status for status, _ in active(run).values()}

        named = [{"Key": "Name", "Value": "foo-private-subnet"}]
        subnets = list(box.account.subnets.values())
        box.account.client("ec2").create_tags(Resources=subnets, Tags=named)
        await run.until(lambda: len(run.running) == 4, seconds=1200)
        await run.until(lambda: {"True"} == {status for status, _ in active(run).values()})
        assert {"foo-node-provisioner", "foo-provisioner"} == pools_of_nodes(run)
        for instance in box.account.running():
            tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
            assert "foo-node-template" == tags["karpenter.template"]


TEAM = {"billing-team": "my-team"}


@needs_seeds
@in_virtual_time
async def test_the_provisioner_of_the_walk_gets_its_app_a_node_on_aws() -> None:
    async with aws_sandbox(
        cluster="mz-karpenter",
        region="ap-northeast-1",
        has_class=False,
        settings=legacy("KarpenterNodeRole"),
    ) as box:
        run = box.run
        await applied(run, "s003-provisioner-default.yaml", "s003-deployment-app.yaml")
        await run.until(lambda: len(run.running) == 1)

        (node,) = run.nodes
        assert "spot" == node["metadata"]["labels"][labels.CAPACITY_TYPE]
        assert node["spec"]["providerID"].startswith("aws:///ap-northeast-1")
        assert active(run) == {"default": ("True", "")}
