"""What users' guides promise about pods that get nodes, on a whole virtual cluster."""

import random
from typing import Any

import pytest

from helpers import manifests
from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.simulate.invariants import made_nodes, problems
from karpenter_sandbox.kubelet.faults import SHUTDOWN_DELAY, Timing

CPU = "karpenter.kwok.sh/instance-cpu"
POOL = "karpenter.sh/nodepool"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
METRIC = "sandbox.karpenter.sh/metric-value"
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
BOOT_SECONDS = 40.0


def pod(name: str, *, owner: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A pod that only a node of our pool can take, unless its spec says otherwise."""
    container = {"name": "app", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    return manifests.pod(
        name,
        containers=[container],
        metadata={"ownerReferences": [owner]} if owner else {},
        **{"nodeSelector": {POOL: "default"}, **spec},
    )


def daemon_set(name: str, *, cpu: str, **spec: Any) -> JsonObject:
    """A pod on every node that will have it."""
    made = deployment(name, 1, cpu=cpu, **spec)
    del made["spec"]["replicas"]
    return {**made, "kind": "DaemonSet"}


def is_unschedulable(found: JsonObject) -> bool:
    held = found.get("status", {}).get("conditions", ())
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in held)


def named(run: Autoscaler, name: str) -> JsonObject:
    (found,) = [p for p in run.pods if p["metadata"]["name"].partition("-")[0] == name]
    return found


def requested(run: Autoscaler) -> float:
    """The cpus that all pods ask for."""
    amounts = [
        container["resources"]["requests"]["cpu"]
        for each in run.pods
        for container in each["spec"]["containers"]
    ]
    return sum(float(a[:-1]) / 1000 if a.endswith("m") else float(a) for a in amounts)


def provided(run: Autoscaler) -> int:
    """The cpus of all nodes that were made."""
    return sum(int(node["metadata"]["labels"][CPU]) for node in made_nodes(run))


@pytest.mark.row("S0-03")
@in_virtual_time
async def test_only_pods_that_the_scheduler_gave_up_on_are_taken_up() -> None:
    """A pod that is told to go before it was bound is gone at once, so nobody can take it up."""
    async with autoscaler(kwok_pool(), nodes=1) as run:
        await run.pass_time(5)  # until the node is ready
        (fixed,) = run.nodes
        of_node = {"apiVersion": "v1", "kind": "Node", "name": fixed["metadata"]["name"]}
        going = pod("going", nodeSelector={}, terminationGracePeriodSeconds=3600)
        going["metadata"]["annotations"] = {SHUTDOWN_DELAY: "1h"}
        await run.apply(
            pod("bound", nodeSelector={}),
            going,
            pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
            pod("mirror", owner={**of_node, "uid": fixed["metadata"]["uid"]}),
            pod("withdrawn"),
            daemon_set("daemon", cpu="1000", nodeSelector={HOST: fixed["metadata"]["name"]}),
        )
        await run.client.delete("v1", "Pod", "default", "withdrawn")
        await run.until(lambda: 2 == len(run.running), seconds=10)
        await run.client.delete("v1", "Pod", "default", "going")
        await run.pass_time(60)

        assert ["bound", "daemon", "gated", "going", "mirror"] == sorted(
            each["metadata"]["name"].partition("-")[0] for each in run.pods
        )
        assert "deletionTimestamp" in named(run, "going")["metadata"]
        assert is_unschedulable(named(run, "daemon"))
        assert is_unschedulable(named(run, "mirror"))
        assert [] == run.claims

        await run.client.delete("v1", "Pod", "default", "mirror")  # else the new node gets it too
        await run.apply(pod("waiting"))
        await run.until(lambda: "nodeName" in named(run, "waiting")["spec"], seconds=60)

        assert 1 == len(run.claims)


@pytest.mark.row("S0-15", "S0-13")
@in_virtual_time
async def test_nodes_follow_a_deployment_that_follows_a_metric() -> None:
    target = {"type": "Utilization", "averageUtilization": 50}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 40,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
    sizes = {"key": CPU, "operator": "In", "values": ["4"]}
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    pool = kwok_pool("default", sizes, disruption=disruption)
    async with autoscaler(pool, deployment("web", 6, cpu="1500m"), hpa) as run:

        async def measured(value: int) -> None:
            body: JsonObject = {"metadata": {"annotations": {METRIC: str(value)}}}
            kind = "HorizontalPodAutoscaler"
            await run.client.patch("merge", "autoscaling/v2", kind, "default", "web", body)

        await measured(50)
        await run.until(lambda: 6 == len(run.running), seconds=60)
        before = len(made_nodes(run))

        await measured(100)
        await run.until(lambda: 12 == len(run.running), seconds=120)
        await measured(50)
        most = len(made_nodes(run))
        await run.pass_time(600)

        assert (3, 6) == (before, most)
        assert 6 == len(made_nodes(run))

        await measured(25)
        await run.until(lambda: 6 == len(run.pods), seconds=600)
        await measured(50)
        await run.until(lambda: 3 == len(made_nodes(run)), seconds=300)
        await run.pass_time(600)

        assert 3 == len(made_nodes(run))
        assert [] == problems(run)


@pytest.mark.row("S1-05")
@pytest.mark.parametrize("seed", [0])
def test_under_a_load_that_nobody_foresees_pods_wait_briefly_and_nodes_follow(seed: int) -> None:
    @in_virtual_time
    async def scene() -> None:
        rng = random.Random(seed)
        disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
        pool = kwok_pool("default", ON_DEMAND, disruption=disruption)
        apps = {"small": "250m", "medium": "1", "large": "3500m"}
        loads = [deployment(name, 0, cpu=cpu) for name, cpu in apps.items()]
        async with autoscaler(pool, *loads, timing=Timing(boot=BOOT_SECONDS)) as run:
            waited: dict[str, float] = {}  # pod uid -> since when it waits
            longest = 0.0

            async def watched(seconds: int) -> None:
                nonlocal longest
                for _ in range(seconds):
                    await run.pass_time(1)
                    now = run.clock.monotonic()
                    uids = {
                        each["metadata"]["uid"]: waited.get(each["metadata"]["uid"], now)
                        for each in run.pods
                        if each.get("status", {}).get("phase") != "Running"
                    }
                    waited.clear()
                    waited.update(uids)
                    longest = max([longest, *(now - since for since in uids.values())])

            for _ in range(3):
                for _ in range(3):
                    await run.scale(rng.choice(list(apps)), rng.randrange(30))
                    await watched(rng.randrange(2, 40))
                await watched(300)  # long enough for consolidation to finish
                # Each instance size doubles the one before, and reserves some cpu for the system
                assert requested(run) <= provided(run) <= 2 * requested(run) + 2
                assert [] == problems(run)
            for name in apps:
                await run.scale(name, 0)
            await run.until(lambda: not run.claims and not run.nodes, seconds=300)

            # A machine that boots, twice at worst: the pods of one that goes wait for another
            assert longest <= 2 * BOOT_SECONDS + 20

    scene()


@pytest.mark.row("S2-10")
@in_virtual_time
async def test_a_pod_is_watched_judged_given_a_node_placed_and_its_node_removed() -> None:
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
    wanted = {ARCH: "arm64", ZONE: "test-zone-b"}
    async with autoscaler(kwok_pool(disruption=disruption), nodes=1) as run:
        await run.apply(deployment("web", 1, nodeSelector=wanted))
        # Watching: nothing is done before the scheduler has given up
        await run.until(lambda: any(map(is_unschedulable, run.pods)), step=0.1, seconds=10)
        assert [] == run.claims

        # Evaluating: the claim requests what the pod requests
        await run.until(lambda: bool(run.claims), step=0.1, seconds=10)
        (claim,) = run.claims
        asked = {each["key"]: each["values"] for each in claim["spec"]["requirements"]}
        assert {key: [value] for key, value in wanted.items()} == {
            key: asked[key] for key in wanted
        }

        # A node is made, and the pod placed on it
        await run.until(lambda: 1 == len(run.running), seconds=60)
        (node,) = made_nodes(run)
        assert wanted.items() <= node["metadata"]["labels"].items()
        assert node["metadata"]["name"] == run.running[0]["spec"]["nodeName"]

        # Removing: without the pod the node goes, and the machine with it
        await run.scale("web", 0)
        await run.until(lambda: not run.claims and not made_nodes(run), seconds=120)
        assert run.cloud is not None
        assert [] == list(await run.cloud.list())
        assert 1 == len(run.nodes)
