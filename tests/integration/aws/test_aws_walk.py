"""The scale walk on a simulated AWS: it goes as it goes elsewhere, and nothing is left to pay for."""

from typing import Any

import pytest

from helpers.autoscaler import deployment
from helpers.aws_sandbox import SERVICES, AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from helpers.scale_walk import app_pods, cpu_on, manifests, node_types, pending, placement
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.simulated.account import NODE_ROLE
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter.simulate.invariants import problems
from karpenter_sandbox.kubelet.status import kubelet_version

pytestmark = pytest.mark.storm

REGION = "ap-northeast-1"
WALK = "mz-karpenter"
# What spot costs on the day of the walk; on demand is dearer everywhere
PRICES = {"m5.large": 0.07, "c4.xlarge": 0.08, "t3a.2xlarge": 0.13, "m5.4xlarge": 0.4}
EC2_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": NODE_ROLE,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {ec2_labels.DISCOVERY_TAG: WALK}}],
        "securityGroupSelectorTerms": [{"tags": {ec2_labels.DISCOVERY_TAG: WALK}}],
    },
}


def discovered_as_walk(box: AwsSandbox) -> None:
    """Tag network and groups as the walk's files select them."""
    tags = [{"Key": ec2_labels.DISCOVERY_TAG, "Value": WALK}]
    resources = [*box.account.subnets.values(), box.account.security_group]
    box.account.client("ec2").create_tags(Resources=resources, Tags=tags)


def on_the_day_of_the_walk(box: AwsSandbox) -> None:
    discovered_as_walk(box)
    for name, price in PRICES.items():
        for zone in box.account.subnets:
            box.account.gaps.spot_prices[name, zone] = price


def pool_of_the_walk() -> dict[str, Any]:
    """The pool of the walk, on EC2."""
    pool = manifests("nodepool.yaml")[0]
    pool["spec"]["template"]["spec"]["nodeClassRef"] = {
        "group": ec2_labels.DOMAIN,
        "kind": "EC2NodeClass",
        "name": "default",
    }
    return pool


@pytest.mark.row("S3-02", "S3-13", "S3-26", "S1-06")
@in_virtual_time
async def test_the_whole_walk_leaves_nothing_in_the_account() -> None:
    types = frozenset(PRICES)
    cluster = manifests("cluster.yaml")
    # no interruptions on this walk, and moto is slow to poll an empty queue
    quiet = {"INTERRUPTION_QUEUE": ""}
    async with aws_sandbox(
        *cluster, types=types, region=REGION, has_class=False, environment=quiet
    ) as box:
        run = box.run
        on_the_day_of_the_walk(box)
        await run.apply(EC2_CLASS, pool_of_the_walk(), *manifests("app.yaml"))
        await run.until(lambda: len(app_pods(run)) == 1 and not pending(run), seconds=60)
        assert (["m5.large"], [1], []) == (node_types(run), placement(run), box.machines)

        for replicas in (5, 20):
            await run.scale("app", replicas)
            await run.pass_time(1)
            await run.until(lambda: not pending(run), seconds=120)
        assert (["m5.large", "c4.xlarge", "t3a.2xlarge"], [1, 7, 12]) == seen(box)
        assert 2 == len(box.machines) == len(run.claims)
        held = [node["metadata"]["labels"] for node in run.nodes]
        assert ["spot", "spot"] == [each[labels.CAPACITY_TYPE] for each in held if of_pool(each)]
        kept = {name: len(listed) for name, listed in box.left_behind().items()}
        assert {"instances": 2, "volumes": 2, "instance profiles": 1} == {
            name: count for name, count in kept.items() if name != "launch templates"
        }
        assert kept["launch templates"]

        await run.scale("app", 10)
        await run.pass_time(60)
        assert (["m5.large", "c4.xlarge", "t3a.2xlarge"], [1, 2, 7]) == seen(box)
        await run.until(lambda: len(run.nodes) == 2, seconds=2000)
        await run.pass_time(10)
        assert (["m5.large", "t3a.2xlarge"], [1, 9]) == seen(box)

        await run.scale("app", 5)
        await run.until(lambda: node_types(run) == ["m5.large", "c4.xlarge"], seconds=2000)
        await run.pass_time(10)
        assert [1, 4] == placement(run)
        assert 2125 == cpu_on(run, run.claims[0]["status"]["nodeName"])

        await run.scale("app", 0)
        await run.until(lambda: len(run.nodes) == 1, seconds=300)
        assert (["m5.large"], []) == (node_types(run), box.machines)
        assert ([], []) == (run.claims, problems(run))

        await run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
        await box.remove_class()
        await run.pass_time(120)
        assert {} == box.left_behind()
        assert SERVICES >= {made.service for made in box.calls}
        assert 3 == box.count("CreateFleet")


def seen(box: AwsSandbox) -> tuple[list[str], list[int]]:
    return node_types(box.run), placement(box.run)


def of_pool(held: dict[str, str]) -> bool:
    return labels.NODEPOOL in held


PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "default"},
    "spec": {
        "requirements": [
            {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}
        ],
        "provider": {
            "subnetSelector": {ec2_labels.DISCOVERY_TAG: WALK},
            "securityGroupSelector": {ec2_labels.DISCOVERY_TAG: WALK},
        },
        "ttlSecondsAfterEmpty": 30,
    },
}
BOTH_SPELLINGS = {
    "beta.kubernetes.io/arch": labels.ARCH,
    "beta.kubernetes.io/os": labels.OS,
    "beta.kubernetes.io/instance-type": labels.INSTANCE_TYPE,
    "failure-domain.beta.kubernetes.io/region": labels.REGION,
    "failure-domain.beta.kubernetes.io/zone": labels.ZONE,
}


@pytest.mark.case("AWS-134")
@pytest.mark.row("S3-10", "S3-27", "S3-28", "S3-40")
@in_virtual_time
async def test_a_provisioner_of_2022_with_an_inline_provider_gets_a_node_on_ec2() -> None:
    # the manifest relies on the controller's defaults; their AL2 ends with Kubernetes 1.32
    left_to_settings = Settings(legacy_node_role=NODE_ROLE, legacy_ami_family="AL2023")
    async with aws_sandbox(region=REGION, has_class=False, settings=left_to_settings) as box:
        run = box.run
        discovered_as_walk(box)
        others = box.account.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        box.account.client("ec2").create_subnet(VpcId=others, CidrBlock="10.9.1.0/24")
        await run.apply(PROVISIONER, deployment("app", 1))
        await run.until(lambda: len(run.running) == 1)

        (node_class,) = run.objects("karpenter.k8s.aws", "ec2nodeclasses")
        found = {each["id"] for each in node_class["status"]["subnets"]}
        assert set(box.account.subnets.values()) == found
        groups = [each["id"] for each in node_class["status"]["securityGroups"]]
        assert [box.account.security_group] == groups

        (node,) = run.nodes
        (instance,) = box.account.running()
        name, held = node["metadata"]["name"], node["metadata"]["labels"]
        address = instance["PrivateIpAddress"].replace(".", "-")
        assert f"ip-{address}.{REGION}.compute.internal" == name
        assert not [key for key in held if key.startswith("node-role.kubernetes.io/")]
        info = node["status"]["nodeInfo"]
        assert kubelet_version() == info["kubeletVersion"]
        assert info["containerRuntimeVersion"].startswith("containerd://")

        stable = {key: held[key] for key in BOTH_SPELLINGS.values()}
        assert stable == {now: held[old] for old, now in BOTH_SPELLINGS.items()}
        assert ("spot", name, "default", "default") == (
            held[labels.CAPACITY_TYPE],
            held[labels.HOSTNAME],
            held["karpenter.sh/provisioner-name"],
            held[labels.NODEPOOL],
        )

        await run.scale("app", 0)
        await run.until(lambda: not run.nodes and not run.claims, seconds=900)
        await run.client.delete("karpenter.sh/v1alpha5", "Provisioner", None, "default")
        gone = ("karpenter.sh", "nodepools"), ("karpenter.k8s.aws", "ec2nodeclasses")
        await run.until(lambda: not any(run.objects(*each) for each in gone))
        await run.pass_time(120)
        assert {} == box.left_behind()


@pytest.mark.row("S0-38")
@pytest.mark.parametrize("kind", ["Node", "NodeClaim"])
def test_what_is_deleted_leaves_no_instance_interface_or_volume(kind: str) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with aws_sandbox(ec2_pool()) as box:
            run = box.run
            await run.apply(deployment("app", 2))
            await run.until(lambda: len(run.running) == 2)
            (claim,) = run.claims
            (instance,) = box.account.running()
            version = "v1" if kind == "Node" else "karpenter.sh/v1"
            name = claim["status"]["nodeName"] if kind == "Node" else claim["metadata"]["name"]

            await run.client.delete(version, kind, None, name)
            await run.until(lambda: claim["metadata"]["name"] not in names(run.claims))
            await run.until(lambda: len(run.running) == 2)

            assert instance["InstanceId"] not in box.account.running_ids()
            assert claim["status"]["nodeName"] not in names(run.nodes)
            await run.scale("app", 0)
            await run.until(lambda: not run.claims and not run.nodes, seconds=900)
            await run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
            await box.remove_class()
            await run.pass_time(120)
            assert {} == box.left_behind()

    run_it()


def names(objects: list[dict[str, Any]]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


@pytest.mark.row("S2-95")
@in_virtual_time
async def test_a_gpu_pool_of_p3_types_serves_the_pods_that_ask_for_gpus_and_no_others() -> None:
    gpus = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["p3.8xlarge", "p3.16xlarge"]}
    taints = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    general = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["m"]}
    pools = [ec2_pool(gpus, name="gpu", template={"taints": taints}), ec2_pool(general)]
    learning = deployment("learning", 1)
    pod = learning["spec"]["template"]["spec"]
    pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    types = frozenset({"p3.8xlarge", "p3.16xlarge", "m5.large", "m5.xlarge"})
    async with aws_sandbox(*pools, learning, deployment("web", 3), types=types) as box:
        await box.run.until(lambda: len(box.run.running) == 4)

        kinds = {
            node["metadata"]["name"]: node["metadata"]["labels"][labels.INSTANCE_TYPE]
            for node in box.run.nodes
        }
        used = {"learning": set[str](), "web": set[str]()}
        for each in box.run.running:
            used[each["metadata"]["labels"]["app"]].add(kinds[each["spec"]["nodeName"]])
        assert {"p3.8xlarge"} == used["learning"]
        assert used["web"] <= {"m5.large", "m5.xlarge"}


@pytest.mark.row("S0-53", "S0-50")
@in_virtual_time
async def test_ten_pods_of_a_batch_cost_a_fleet_per_node_of_the_whole_catalogue() -> None:
    async with aws_sandbox(ec2_pool(), types=frozenset()) as box:
        run = box.run
        await run.until(lambda: bool(run.manager and run.manager.context))
        spread = {
            "maxSkew": 1,
            "topologyKey": labels.ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "app"}},
        }
        began = run.clock.monotonic()
        await run.apply(deployment("app", 10, cpu="1", topologySpreadConstraints=[spread]))
        await run.until(lambda: len(run.claims) == 3)
        decided = run.clock.monotonic() - began
        await run.until(lambda: len(run.running) == 10)

        assert 500 < len(box.provider.parts.types.catalogue.entries)
        assert decided < 10  # virtual seconds: batching and the pass, without a cold cache
        assert 3 == len(run.nodes) == box.count("CreateFleet")
        groups = box.account.client("autoscaling").describe_auto_scaling_groups()
        assert [] == groups["AutoScalingGroups"]
        assert SERVICES >= {made.service for made in box.calls}
