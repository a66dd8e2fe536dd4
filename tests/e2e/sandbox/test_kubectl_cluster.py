"""What people do with kubectl to nodes and to a running cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from helpers.kubectl import Kubectl, needs_kubectl, running
from helpers.server import Cluster, cluster, deployment, manifest, pod

pytestmark = needs_kubectl


@pytest.fixture
def world() -> Cluster:
    return cluster()


@pytest.fixture
async def kubectl(world: Cluster, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with running(world, tmp_path) as program:
        yield program


def node(name: str = "n1") -> dict[str, Any]:
    return manifest(
        "v1",
        "Node",
        name,
        namespace=None,
        status={
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    )


def start(world: Cluster, **labels: str) -> None:
    made = pod(nodeName="n1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    made["metadata"] |= {"labels": labels, "ownerReferences": [owner | {"controller": True}]}
    created = world.create(made)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    path = f"{world.path_of(made)}/status"
    assert 200 == world.call("PUT", path, created | {"status": status}).status
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": _template()}
    world.create(manifest("apps/v1", "ReplicaSet", "web", spec=spec))


def _template() -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }


async def test_nodes_are_listed_and_described(kubectl: Kubectl, world: Cluster) -> None:
    world.create(node())

    listed = await kubectl.ok("get", "nodes")
    described = await kubectl.ok("describe", "node", "n1")

    assert ["NAME", "STATUS", "ROLES", "AGE", "VERSION"] == listed.rows[0]
    assert ["n1", "Ready", "<none>"] == listed.rows[1][:3]
    assert "Non-terminated Pods:          (0 in total)" in described.out


async def test_cordon_and_uncordon(kubectl: Kubectl, world: Cluster) -> None:
    world.create(node())

    await kubectl.ok("cordon", "n1")
    cordoned = await kubectl.ok("get", "nodes")
    await kubectl.ok("uncordon", "n1")

    assert "Ready,SchedulingDisabled" == cordoned.rows[1][1]
    assert "unschedulable" not in world.get(node()).body["spec"]


async def test_taints(kubectl: Kubectl, world: Cluster) -> None:
    world.create(node())

    await kubectl.ok("taint", "node", "n1", "team=a:NoExecute")
    taints = world.get(node()).body["spec"]["taints"]
    await kubectl.ok("taint", "node", "n1", "team-")

    assert {"key": "team", "value": "a", "effect": "NoExecute"} in taints
    assert 1 == len(world.get(node()).body["spec"]["taints"])


async def test_drain_evicts(kubectl: Kubectl, world: Cluster) -> None:
    world.create(node())
    start(world, app="web")

    async def finish() -> None:
        version = str(world.store.resource_version)
        async for event in world.client.watch("v1", "Pod", resource_version=version):
            if "deletionTimestamp" in event.obj["metadata"]:
                world.call("DELETE", world.path_of(pod()), gracePeriodSeconds="0")
                return

    drained, _ = await asyncio.gather(kubectl.ok("drain", "n1", "--timeout=20s"), finish())

    assert "evicting pod default/web" in drained.out
    assert "pod/web evicted" in drained.out
    assert "node/n1 drained" in drained.out


@pytest.mark.storm
async def test_drain_respects_budgets(kubectl: Kubectl, world: Cluster) -> None:
    world.create(node())
    start(world, app="web")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = world.create(manifest("policy/v1", "PodDisruptionBudget", "guard", spec=spec))
    status = budget["status"] | {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
    world.call("PUT", f"{world.path_of(budget)}/status", budget | {"status": status})

    result = await kubectl("drain", "n1", "--timeout=3s")

    assert 1 == result.code
    assert "Cannot evict pod as it would violate the pod's disruption budget." in result.err


async def test_waiting_for_a_condition(kubectl: Kubectl, world: Cluster) -> None:
    created = world.create(pod(nodeName="n1"))

    async def become_ready() -> None:
        await asyncio.sleep(0.5)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        world.call("PUT", f"{world.path_of(pod())}/status", created | {"status": status})

    waited, _ = await asyncio.gather(
        kubectl.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=20s"), become_ready()
    )

    assert "pod/web condition met\n" == waited.out


async def test_the_progress_of_a_rollout(kubectl: Kubectl, world: Cluster) -> None:
    created = world.create(deployment())

    async def roll_out() -> None:
        await asyncio.sleep(0.5)
        numbers = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": 1} | dict.fromkeys(numbers, 1)
        world.call("PUT", f"{world.path_of(created)}/status", created | {"status": status})

    rolled, _ = await asyncio.gather(
        kubectl.ok("rollout", "status", "deploy/web", "--timeout=20s"), roll_out()
    )

    assert 'deployment "web" successfully rolled out' in rolled.out


@pytest.mark.storm
async def test_following_a_table(kubectl: Kubectl, world: Cluster) -> None:
    world.create(pod("a"))

    async def more() -> None:
        await asyncio.sleep(1.5)
        world.create(pod("b"))

    result, _ = await asyncio.gather(
        kubectl("get", "pods", "--watch", "--request-timeout=3s"), more()
    )

    assert ["NAME", "a", "b"] == [row[0] for row in result.rows]


async def test_permissions(kubectl: Kubectl) -> None:
    allowed = await kubectl.ok("auth", "can-i", "delete", "nodes")
    who = await kubectl.ok("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")

    assert ("yes\n", "sandbox-admin") == (allowed.out, who.out)


async def test_a_token_for_an_account(kubectl: Kubectl) -> None:
    await kubectl.ok("create", "serviceaccount", "bot")

    result = await kubectl.ok("create", "token", "bot", "--duration=10m")

    assert 3 == len(result.out.strip().split("."))


async def test_a_request_that_replaces_the_whole_path(kubectl: Kubectl) -> None:
    result = await kubectl.ok("get", "--raw", "/api/v1/namespaces/default")

    assert "default" == json.loads(result.out)["metadata"]["name"]


@pytest.mark.parametrize(
    "words", [["logs", "web"], ["exec", "web", "--", "ls"], ["port-forward", "web", "0:80"]]
)
async def test_what_is_not_simulated_says_so(
    kubectl: Kubectl, world: Cluster, words: list[str]
) -> None:
    created = world.create(pod(nodeName="n1"))
    world.call(
        "PUT", f"{world.path_of(created)}/status", created | {"status": {"phase": "Running"}}
    )

    result = await kubectl(*words)

    assert 1 == result.code
    assert "is not simulated" in result.err


async def test_a_namespace_and_its_end(kubectl: Kubectl, world: Cluster) -> None:
    await kubectl.ok("create", "namespace", "team")
    await kubectl.ok("delete", "namespace", "team", "--wait=false")

    listed = await kubectl.ok("get", "namespaces")
    refused = await kubectl("create", "configmap", "c", "-n", "team")

    assert ["team", "Terminating"] in [row[:2] for row in listed.rows]
    assert "because it is being terminated" in refused.err
    protected = await kubectl("delete", "namespace", "default")
    assert "this namespace may not be deleted" in protected.err


async def test_a_version_is_told(kubectl: Kubectl) -> None:
    result = await kubectl.ok("version", "-o", "json")

    assert '"gitVersion": "v1.' in result.out
    assert "serverVersion" in result.out
