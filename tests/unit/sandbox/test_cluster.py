"""A whole cluster in virtual time: workloads run, move and go as they would in a real one."""

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helpers.clusters import ClusterHandle, eventually, in_virtual_time, names, workload
from karpenter.clock import SystemClock, run_virtual, running_clock
from karpenter_sandbox.cluster import Cluster, last_moment, virtual_cluster
from karpenter_sandbox.conditions import is_true
from karpenter_sandbox.initial_objects import NAMESPACES, NodeShape
from karpenter_sandbox.kubelet.faults import Fault
from karpenter_sandbox.status import ApiError

JsonObject = dict[str, Any]
HOUR = 3600.0
TESTS = Path(__file__).parents[2]


async def running_pods(cluster: ClusterHandle) -> list[JsonObject]:
    return [
        pod
        for pod in await cluster.pods()
        if is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]
    ]


async def drain(cluster: ClusterHandle, node: str) -> int:
    """Do what ``kubectl drain`` does; return how often a budget said no."""
    refusals = 0
    await cluster.change("v1", "Node", node, {"spec": {"unschedulable": True}})
    while True:
        pods = await cluster.pods(field_selector=f"spec.nodeName={node}")
        if not pods:
            return refusals
        for pod in pods:
            try:
                await cluster.client.evict("default", pod["metadata"]["name"])
            except ApiError as error:
                if error.status != 429:
                    raise
                refusals += 1
        await cluster.pass_time(5)


@in_virtual_time
async def test_a_deployment_runs_on_the_nodes_scales_and_goes_without_a_trace() -> None:
    async with virtual_cluster(nodes=3) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        await cluster.pass_time(1)  # until all nodes are ready, so that there is a choice
        await cluster.create(workload("Deployment", "web", replicas=3))
        await cluster.pass_time(10)
        first = await running_pods(cluster)
        await cluster.scale("apps/v1", "Deployment", "web", 5)
        await cluster.pass_time(10)
        second = await running_pods(cluster)
        await cluster.client.delete("apps/v1", "Deployment", "default", "web")
        await cluster.pass_time(60)

        left = [await cluster.pods(), await cluster.objects("apps/v1", "ReplicaSet")]

    assert {"node-1", "node-2", "node-3"} == {pod["spec"]["nodeName"] for pod in first}
    assert (3, 5) == (len(first), len(second))
    assert all(pod["status"]["podIP"] for pod in second)
    assert [[], []] == left


@in_virtual_time
async def test_a_new_cluster_has_what_every_cluster_has() -> None:
    async with virtual_cluster(nodes=2) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        await cluster.pass_time(5)

        namespaces = names(await cluster.objects("v1", "Namespace"))
        priorities = names(await cluster.objects("scheduling.k8s.io/v1", "PriorityClass"))
        classes = names(await cluster.objects("storage.k8s.io/v1", "StorageClass"))
        service = await cluster.get("v1", "Service", "kubernetes")
        crds = names(await cluster.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
        accounts = await cluster.objects("v1", "ServiceAccount")
        nodes = await cluster.objects("v1", "Node")
        leases = names(await cluster.objects("coordination.k8s.io/v1", "Lease"))

    assert list(NAMESPACES) == namespaces
    assert ["system-cluster-critical", "system-node-critical"] == priorities
    assert ["standard"] == classes
    assert "10.96.0.1" == service["spec"]["clusterIP"]
    assert {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh"} <= set(crds)
    assert list(NAMESPACES) == [account["metadata"]["namespace"] for account in accounts]
    assert all(is_true(node, "Ready") for node in nodes)
    assert ["node-1", "node-2"] == leases


@in_virtual_time
async def test_draining_a_node_never_breaks_a_budget() -> None:
    async with virtual_cluster(nodes=3) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await cluster.create(workload("Deployment", "web", replicas=9), budget)
        await cluster.pass_time(10)
        least = [9]

        def watch(_: object) -> None:
            pods = whole.store.list("", "pods")
            healthy = [p for p in pods if is_true(p, "Ready") and _is_staying(p)]
            least.append(len(healthy))

        whole.store.on_change(watch)
        refusals = await drain(cluster, "node-1")
        await cluster.pass_time(10)

        pods = await running_pods(cluster)

    assert {"node-2", "node-3"} == {pod["spec"]["nodeName"] for pod in pods}
    assert (9, 8) == (len(pods), min(least))
    assert refusals > 0


@in_virtual_time
async def test_pods_move_away_from_a_node_that_falls_silent() -> None:
    async with virtual_cluster(nodes=3) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        await cluster.create(workload("Deployment", "web", replicas=6))
        await cluster.pass_time(10)
        whole.machines.inject("node-2", Fault.UNREACHABLE)
        await cluster.pass_time(60)
        early = len(await running_pods(cluster))
        await cluster.pass_time(360)

        late = await running_pods(cluster)

    assert (4, 6) == (early, len(late))
    assert {"node-1", "node-3"} == {pod["spec"]["nodeName"] for pod in late}


@in_virtual_time
async def test_a_stateful_set_gets_volumes_where_its_pods_run() -> None:
    async with virtual_cluster(nodes=3) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await cluster.create(
            workload(
                "StatefulSet", "db", replicas=3, serviceName="db", volumeClaimTemplates=[claim]
            )
        )

        async def is_up() -> bool:
            return 3 == len(await running_pods(cluster))

        await eventually(cluster, is_up)
        claims = await cluster.objects("v1", "PersistentVolumeClaim")
        volumes = await cluster.objects("v1", "PersistentVolume")
        attachments = await cluster.objects("storage.k8s.io/v1", "VolumeAttachment")
        pods = await running_pods(cluster)

    assert {"Bound"} == {obj["status"]["phase"] for obj in (*claims, *volumes)}
    assert 3 == len(volumes)
    nodes = sorted(pod["spec"]["nodeName"] for pod in pods)
    assert nodes == sorted(attachment["spec"]["nodeName"] for attachment in attachments)


@in_virtual_time
async def test_a_job_comes_to_its_end() -> None:
    async with virtual_cluster(nodes=1) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        pods = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
        await cluster.create(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "work", "namespace": "default"},
                "spec": {"completions": 4, "parallelism": 2, "template": {"spec": pods}},
            }
        )
        await cluster.pass_time(30)

        job = await cluster.get("batch/v1", "Job", "work")

    assert is_true(job, "Complete")
    assert 4 == job["status"]["succeeded"]


@in_virtual_time
async def test_daemons_come_with_each_node_and_wait_for_nothing_but_the_node() -> None:
    async with virtual_cluster(nodes=1) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.pass_time(5)
        late = {"sandbox.karpenter.sh/boot-delay": "30s"}
        await whole.add_nodes(1, NodeShape(annotations=late))
        await cluster.pass_time(20)
        before = await running_pods(cluster)
        await cluster.pass_time(20)

        after = await running_pods(cluster)

    assert ["node-1"] == [pod["spec"]["nodeName"] for pod in before]
    assert ["node-1", "node-2"] == sorted(pod["spec"]["nodeName"] for pod in after)


@in_virtual_time
async def test_an_important_pod_takes_the_room_of_lesser_ones() -> None:
    async with virtual_cluster(nodes=1, shape=NodeShape(cpu="2")) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        greedy = {"containers": [_container("1")]}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": greedy}
        await cluster.create(workload("Deployment", "web", replicas=2, template=template))
        await cluster.pass_time(5)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "vital", "namespace": "default"},
            "spec": {
                "containers": [_container("1500m")],
                "priorityClassName": "system-cluster-critical",
            },
        }
        await cluster.create(pod)
        await cluster.pass_time(60)

        vital = await cluster.get("v1", "Pod", "vital")
        waiting = [p for p in await cluster.pods() if p["status"]["phase"] == "Pending"]

    assert "node-1" == vital["spec"]["nodeName"]
    assert 2 == len(waiting)


async def busy_hour(nodes: int, seconds: float) -> str:
    """Let a cluster go through a bit of everything; return a digest of how it ends up."""
    async with virtual_cluster(nodes=nodes, seed=11) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        await cluster.create(workload("Deployment", "web", replicas=2 * nodes))
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.pass_time(60)
        patch = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        await cluster.change("apps/v1", "Deployment", "web", patch)
        whole.machines.inject("node-2", Fault.UNREACHABLE)
        whole.machines.inject("node-3", Fault.DISAPPEARS)
        await cluster.pass_time(seconds)
        running = await running_pods(cluster)
        digest = hashlib.sha256(str(len(running)).encode())
        for stored in whole.store.everything():
            digest.update(stored.data)
    # The web pods run elsewhere; the daemons of the two lost nodes do not
    assert 3 * nodes - 2 == len(running)
    return f"{whole.store.resource_version} {digest.hexdigest()}"


def test_the_same_seed_gives_the_same_run() -> None:
    first = run_virtual(busy_hour(6, 900))
    second = run_virtual(busy_hour(6, 900))

    assert first == second


@pytest.mark.slow
def test_an_hour_of_a_hundred_nodes_is_the_same_in_another_process() -> None:
    program = (
        "import test_cluster; from karpenter.clock import run_virtual;"
        f" print(run_virtual(test_cluster.busy_hour(100, {HOUR})))"
    )
    path = os.pathsep.join([str(TESTS), str(Path(__file__).parent)])
    outcomes = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outcomes.add(done.stdout)

    assert 1 == len(outcomes)


@in_virtual_time
async def test_kubelets_renew_their_leases_every_ten_seconds() -> None:
    async with virtual_cluster(nodes=1) as whole:
        cluster = ClusterHandle(whole.client, whole.clock)
        await cluster.pass_time(1)
        renewals = []
        for _ in range(3):
            leases = await cluster.objects("coordination.k8s.io/v1", "Lease")
            renewals.append(leases[0]["spec"]["renewTime"])
            await cluster.pass_time(10)

    assert ["00:00", "00:10", "00:20"] == [moment[14:19] for moment in renewals]


def test_a_cluster_that_ran_ahead_of_time_says_so(tmp_path: Path) -> None:
    file = tmp_path / "cluster.journal"
    before = last_moment(file)
    start = datetime(2044, 4, 4, tzinfo=UTC)

    async def live() -> None:
        ahead = Cluster(running_clock(), data_file=file)
        await ahead.start()
        await ahead.stop()

    run_virtual(live(), start=start)

    after = last_moment(file)

    assert before is None
    assert after is not None
    assert after >= start


async def test_a_cluster_kept_in_a_file_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "cluster.journal"
    first = Cluster(SystemClock(), seed=1, data_file=file)
    await first.start()
    await first.add_nodes(1)
    created = await first.client.create(workload("Deployment", "web", replicas=0))
    await first.stop()
    second = Cluster(SystemClock(), seed=2, data_file=file)
    await second.start()
    await second.add_nodes(1)

    found = await second.client.get("apps/v1", "Deployment", "default", "web")
    nodes, _ = await second.client.list("v1", "Node")
    await second.stop()

    assert created["metadata"]["uid"] == found["metadata"]["uid"]
    assert ["node-1", "node-2"] == names(nodes)


async def test_an_error_nobody_foresaw_ends_a_strict_cluster() -> None:
    cluster = Cluster(SystemClock(), is_strict=True)
    await cluster.start()
    cluster.runtime.informer("v1", "configmaps").on_change(_fail)
    bomb = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb"}}
    await cluster.client.create(bomb, namespace="default")
    with pytest.raises(ExceptionGroup):
        await cluster.wait()
    with pytest.raises(ExceptionGroup):
        await cluster.stop()


def _fail(_old: object, new: JsonObject | None) -> None:
    if new is not None and new["metadata"]["name"] == "bomb":
        raise ArithmeticError("the handler is broken")


def _is_staying(pod: JsonObject) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def _container(cpu: str) -> JsonObject:
    return {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
