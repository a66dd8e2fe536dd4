"""DaemonSets put one pod on every node that the template allows, whatever the node goes through."""

from typing import Any

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    pod_template,
    running_controllers,
    workload,
)
from karpenter_sandbox.controllers.workloads.daemon_placement import node_of_daemon
from karpenter_sandbox.controllers.workloads.daemonset import DaemonSetController

JsonObject = dict[str, Any]


def node(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
    }


async def add(cluster: ClusterHandle, *nodes: JsonObject) -> None:
    """Create nodes that are past their first moments."""
    for obj in nodes:
        await cluster.create(obj)
        taints = obj["spec"].get("taints")
        await cluster.change("v1", "Node", obj["metadata"]["name"], {"spec": {"taints": taints}})


async def placed(cluster: ClusterHandle) -> list[str]:
    pods = [p for p in await cluster.pods() if "deletionTimestamp" not in p["metadata"]]
    return sorted(node_of_daemon(pod) for pod in pods)


async def run(cluster: ClusterHandle) -> None:
    """Let every daemon run on the node it is meant for."""
    for pod in await cluster.pods():
        if "deletionTimestamp" not in pod["metadata"]:
            await cluster.run([pod], node=node_of_daemon(pod))
    await cluster.reap()
    await cluster.settle()


@in_virtual_time
async def test_every_node_gets_one_pod_and_new_nodes_too() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"), node("b"))
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.settle()
        first = await placed(cluster)
        await add(cluster, node("c"))
        await cluster.settle()
        await run(cluster)

        second = await placed(cluster)
        status = (await cluster.get("apps/v1", "DaemonSet", "agent"))["status"]

    assert (["a", "b"], ["a", "b", "c"]) == (first, second)
    assert {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    } == status


@in_virtual_time
async def test_pods_are_tied_to_their_node_and_tolerate_what_happens_to_it() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"))
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.settle()

        (pod,) = await cluster.pods()

    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    assert [{"matchFields": fields}] == terms
    tolerated = {(t["key"], t["effect"]) for t in pod["spec"]["tolerations"]}
    assert {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    } <= tolerated


@in_virtual_time
async def test_only_nodes_that_the_template_allows_get_a_pod() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        dedicated = {"key": "team", "value": "x", "effect": "NoSchedule"}
        cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        await add(
            cluster,
            node("plain", labels={"disk": "ssd"}),
            node("other", labels={"disk": "hdd"}),
            node("dedicated", labels={"disk": "ssd"}, taints=[dedicated]),
            node("cordoned", labels={"disk": "ssd"}, taints=[cordoned]),
        )
        template = pod_template({"app": "agent"}, nodeSelector={"disk": "ssd"})
        await cluster.create(workload("DaemonSet", "agent", template=template))
        await cluster.settle()

        nodes = await placed(cluster)

    assert ["cordoned", "plain"] == nodes


@in_virtual_time
async def test_a_pod_stays_on_a_node_that_takes_no_more_and_leaves_one_that_drives_it_away() -> (
    None
):
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"), node("b"))
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.settle()
        await run(cluster)
        for name, effect in (("a", "NoSchedule"), ("b", "NoExecute")):
            taints = [{"key": "team", "value": "x", "effect": effect}]
            await cluster.change("v1", "Node", name, {"spec": {"taints": taints}})
        await cluster.settle()

        nodes = await placed(cluster)
        status = (await cluster.get("apps/v1", "DaemonSet", "agent"))["status"]

    assert ["a"] == nodes
    assert (0, 2) == (status["desiredNumberScheduled"], status["numberMisscheduled"])


@in_virtual_time
async def test_a_waiting_pod_goes_when_its_node_is_gone() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"), node("b"))
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.settle()
        await cluster.client.delete("v1", "Node", None, "a")
        await cluster.settle()

        nodes = await placed(cluster)

    assert ["b"] == nodes


@in_virtual_time
async def test_a_new_template_replaces_one_pod_after_the_other() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"), node("b"), node("c"))
        await cluster.create(workload("DaemonSet", "agent"))
        await cluster.settle()
        await run(cluster)
        change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        await cluster.change("apps/v1", "DaemonSet", "agent", change)
        await cluster.settle()
        leaving = [p for p in await cluster.pods() if "deletionTimestamp" in p["metadata"]]
        for _ in range(8):
            await run(cluster)

        versions = [p["metadata"]["annotations"]["v"] for p in await cluster.pods()]
        status = (await cluster.get("apps/v1", "DaemonSet", "agent"))["status"]
        history = await cluster.objects("apps/v1", "ControllerRevision")

    assert (1, ["2", "2", "2"]) == (len(leaving), versions)
    assert 3 == status["updatedNumberScheduled"]
    assert [1, 2] == sorted(entry["revision"] for entry in history)


@in_virtual_time
async def test_a_surge_starts_the_new_pod_before_the_old_one_goes() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"))
        rules = {"maxSurge": 1, "maxUnavailable": 0}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rules}
        await cluster.create(workload("DaemonSet", "agent", updateStrategy=strategy))
        await cluster.settle()
        await run(cluster)
        change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        await cluster.change("apps/v1", "DaemonSet", "agent", change)
        await cluster.settle()
        both = await placed(cluster)
        await run(cluster)
        await run(cluster)

        (pod,) = await cluster.pods()

    assert (["a", "a"], "2") == (both, pod["metadata"]["annotations"]["v"])


@in_virtual_time
async def test_on_delete_waits_for_somebody_to_delete_the_old_pod() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"))
        await cluster.create(workload("DaemonSet", "agent", updateStrategy={"type": "OnDelete"}))
        await cluster.settle()
        await run(cluster)
        change = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        await cluster.change("apps/v1", "DaemonSet", "agent", change)
        await cluster.settle()

        pods = await cluster.pods()

    assert [False] == ["annotations" in pod["metadata"] for pod in pods]


@in_virtual_time
async def test_a_pod_that_keeps_failing_is_replaced_ever_more_slowly() -> None:
    async with running_controllers(DaemonSetController) as cluster:
        await add(cluster, node("a"))
        await cluster.create(workload("DaemonSet", "agent"))
        seen: list[str] = []
        for _ in range(120):
            await cluster.settle()
            for pod in await cluster.pods():
                if pod["metadata"]["name"] not in seen:
                    seen.append(pod["metadata"]["name"])
                    await cluster.place(pod, "a")
                    await cluster.report(pod, {"phase": "Failed"})

        reasons = {reason for reason, _ in await cluster.events("agent")}

    # Within a minute: at once, after 1, 2, 4, 8, 16 and 32 seconds
    assert 6 <= len(seen) <= 8
    assert "FailedDaemonPod" in reasons
