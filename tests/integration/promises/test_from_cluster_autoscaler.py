"""From Cluster Autoscaler on a simulated EKS: its node groups are drained one by one, as the page says.

Forty nodes in four groups run Deployments with PDBs. Before a group goes, ``karpenter plan`` is asked where its
pods would go if its nodes were gone; then the nodes are cordoned and drained through the Eviction API. Every
pod finds a place, no budget is broken, and what was planned is what happens, but for one node.
"""

import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, deployment
from helpers.aws_sandbox import AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from helpers.commands import Ran
from helpers.commands import run as run_command
from karpenter.api.karpenter import NodePool
from karpenter_sandbox.initial_objects import NodeShape
from karpenter_sandbox.status import ApiError

pytestmark = pytest.mark.storm

GROUP: Final = "eks.amazonaws.com/nodegroup"
GROUPS: Final = ("workers-a", "workers-b", "workers-c", "workers-d")
NODES_OF_A_GROUP: Final = 10
TYPE: Final = "m5.2xlarge"
ONE_TYPE: Final = (
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
)
# Name, replicas, processor of a pod, and how many of them may be missing
APPS: Final = (
    ("shop", 40, "900m", 4),
    ("cart", 24, "500m", 2),
    ("search", 12, "1800m", 1),
    ("mail", 20, "300m", 5),
)
PODS: Final = sum(replicas for _, replicas, _, _ in APPS)
DRAIN_SECONDS: Final = 3600.0


def objects() -> Iterator[JsonObject]:
    yield ec2_pool(*ONE_TYPE, consolidateAfter="Never")
    for name, replicas, cpu, missing in APPS:
        yield deployment(name, replicas, cpu=cpu)
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"maxUnavailable": missing, "selector": {"matchLabels": {"app": name}}},
        }


def in_group(run: Autoscaler, group: str) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in run.nodes
        if node["metadata"]["labels"].get(GROUP) == group
    }


def on(run: Autoscaler, nodes: set[str]) -> list[JsonObject]:
    return [pod for pod in run.pods if pod["spec"].get("nodeName") in nodes]


def what_if_gone(run: Autoscaler, nodes: set[str], file: Path) -> JsonObject:
    """What ``karpenter plan`` makes of the cluster without some nodes, whose pods wait."""
    kept = [node for node in run.nodes if node["metadata"]["name"] not in nodes]
    pods = [waiting(pod) if pod["spec"].get("nodeName") in nodes else pod for pod in run.pods]
    others = [
        *run.claims,
        *run.objects("karpenter.sh", "nodepools"),
        *run.objects("karpenter.k8s.aws", "ec2nodeclasses"),
        *run.objects("policy", "poddisruptionbudgets"),
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": [*kept, *pods, *others]}
    file.write_text(json.dumps(listed), encoding="utf-8")
    now = run.clock.now().isoformat()
    options = ("--provider", "aws", "--only", "provisioning", "--now", now, "-o", "json")
    ran = in_a_thread("plan", str(file), *options)
    assert 0 == ran.code, ran.err
    plan: JsonObject = json.loads(ran.out)
    return plan


def waiting(pod: JsonObject) -> JsonObject:
    """A pod as it is before the scheduler has seen it."""
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}


def in_a_thread(*arguments: str) -> Ran:
    """Run the program where no event loop runs."""
    ended: list[Ran] = []
    thread = threading.Thread(target=lambda: ended.append(run_command(*arguments)))
    thread.start()
    thread.join()
    return ended[0]


def missing(run: Autoscaler, app: str, replicas: int) -> int:
    """How many pods of a Deployment are not ready, or on their way out."""
    ready = [
        pod
        for pod in run.pods
        if pod["metadata"]["labels"].get("app") == app
        and "deletionTimestamp" not in pod["metadata"]
        and any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in pod.get("status", {}).get("conditions", ())
        )
    ]
    return replicas - len(ready)


async def drain(run: Autoscaler, nodes: set[str]) -> None:
    """Cordon all nodes of a group, and evict their pods as budgets allow."""
    for name in sorted(nodes):
        body: dict[str, Any] = {"spec": {"unschedulable": True}}
        await run.client.patch("merge", "v1", "Node", None, name, body)
    ends = run.clock.monotonic() + DRAIN_SECONDS
    while left := on(run, nodes):
        assert run.clock.monotonic() < ends, f"{len(left)} pods are left"
        for pod in left:
            await evict(run, pod["metadata"]["name"])
            assert [] == [app for app, n, _, most in APPS if missing(run, app, n) > most]
        await run.pass_time(5)


async def evict(run: Autoscaler, pod: str) -> None:
    try:
        await run.client.evict("default", pod)
    except ApiError as error:
        # its budget is used up, or it is gone: again in a while
        if error.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_FOUND):
            raise


async def price(box: AwsSandbox) -> float:
    """What a machine of the pool costs an hour, as the account says."""
    (pool,) = box.run.world.mirror(NodePool).list()
    (kind,) = await box.provider.instance_types(pool)
    prices = {o.price for o in kind.offerings if o.capacity_type == "on-demand"}
    assert 1 == len(prices)
    return float(prices.pop())


@pytest.mark.case("OPS-48")
@in_virtual_time
async def test_node_groups_are_drained_one_by_one_and_what_was_planned_happens(
    tmp_path: Path,
) -> None:
    async with aws_sandbox(types=frozenset({TYPE}), starts=False) as box:
        run = box.run
        for group in GROUPS:
            shape = NodeShape(instance_type="m5.xlarge", labels={GROUP: group})
            await run.cluster.add_nodes(NODES_OF_A_GROUP, shape)
        await run.apply(*objects())
        run.start()
        await run.until(lambda: len(run.running) == PODS)
        assert NODES_OF_A_GROUP * len(GROUPS) == len(run.nodes)
        assert [] == run.claims
        hourly = await price(box)

        for group in GROUPS:
            nodes, before = in_group(run, group), len(run.claims)
            assert on(run, nodes)
            plan = what_if_gone(run, nodes, tmp_path / f"{group}.json")
            await drain(run, nodes)
            await run.until(lambda: len(run.running) == PODS)
            for name in sorted(nodes):
                await run.client.delete("v1", "Node", None, name)

            made = len(run.claims) - before
            assert abs(made - len(plan["provisioning"]["nodeClaims"])) <= 1
            assert abs(made * hourly - plan["provisioning"]["cost"]["hourly"]) <= hourly

        assert {TYPE} == {
            node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in run.nodes
        }
        assert len(run.claims) == len(run.nodes) == len(box.machines)
