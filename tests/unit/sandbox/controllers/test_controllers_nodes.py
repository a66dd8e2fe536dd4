"""Nodes that fall silent are tainted, their pods are not ready any more, and in time they go."""

from typing import Any

import pytest

from helpers.clusters import (
    ClusterHandle,
    in_virtual_time,
    names,
    pod_template,
    running_controllers,
)
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.nodes.lifecycle import NodeLifecycleController
from karpenter_sandbox.controllers.nodes.pod_gc import PodGarbageCollector
from karpenter_sandbox.controllers.nodes.taint_eviction import TaintEvictionController
from karpenter_sandbox.controllers.nodes.taints import (
    ZoneState,
    eviction_rate,
    with_condition_taints,
    zone_state,
)

JsonObject = dict[str, Any]
CONTROLLERS = (NodeLifecycleController, TaintEvictionController)
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


async def add_node(cluster: ClusterHandle, name: str, *, zone: str = "a") -> None:
    labels = {"topology.kubernetes.io/zone": zone}
    await cluster.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    )


async def beat(cluster: ClusterHandle, *nodes: str, ready: str = "True") -> None:
    """Let kubelets report."""
    now = timestamp(cluster.clock.now())
    for name in nodes:
        node = await cluster.client.get("v1", "Node", None, name)
        known = find_condition(node, "Ready") or {}
        is_same = known.get("status") == ready
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": known["lastTransitionTime"] if is_same else now,
        }
        await cluster.client.patch_status("v1", "Node", None, name, {"conditions": [condition]})


async def live(cluster: ClusterHandle, seconds: int, *nodes: str) -> None:
    """Let time pass while some nodes report."""
    for _ in range(seconds // 10):
        await beat(cluster, *nodes)
        await cluster.pass_time(10)


async def taints(cluster: ClusterHandle, name: str) -> list[tuple[str, str]]:
    node = await cluster.client.get("v1", "Node", None, name)
    return [(taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or []]


async def add_pod(cluster: ClusterHandle, name: str, node: str, **spec: Any) -> None:
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", **pod_template({}, **spec)}
    pod["metadata"] |= {"name": name, "namespace": "default"}
    created = await cluster.create(pod)
    await cluster.run([created], node=node)


@in_virtual_time
async def test_a_new_node_takes_pods_as_soon_as_it_is_ready() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "a")
        await cluster.settle()
        before = await taints(cluster, "a")
        await beat(cluster, "a")
        await cluster.settle()

        after = await taints(cluster, "a")
        events = await cluster.events("a")

    assert ([(NOT_READY, "NoSchedule")], []) == (before, after)
    assert ("RegisteredNode", "Node a event: Registered Node a in Controller") in events


@in_virtual_time
async def test_a_node_that_falls_silent_is_unreachable_after_fifty_seconds() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "silent")
        await add_node(cluster, "well")
        await add_pod(cluster, "p", "silent")
        await live(cluster, 20, "silent", "well")
        await live(cluster, 30, "well")
        early = await taints(cluster, "silent")
        await live(cluster, 30, "well")

        late = await taints(cluster, "silent")
        node = await cluster.client.get("v1", "Node", None, "silent")
        pod = await cluster.get("v1", "Pod", "p")
        well = await taints(cluster, "well")

    assert [] == early == well
    assert {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")} == set(late)
    ready = find_condition(node, "Ready") or {}
    assert ("Unknown", "NodeStatusUnknown") == (ready["status"], ready["reason"])
    assert "False" == (find_condition(pod, "Ready") or {})["status"]


@in_virtual_time
async def test_leases_count_as_signs_of_life() -> None:
    async with running_controllers(
        *CONTROLLERS, namespaces=("default", "kube-node-lease")
    ) as cluster:
        await add_node(cluster, "a")
        await add_node(cluster, "b")
        await beat(cluster, "a")
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "a", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "a", "renewTime": "2030-01-01T00:00:00.000000Z"},
        }
        await cluster.create(lease)
        for minute in range(1, 4):
            for second in (0, 20, 40):
                moment = f"2030-01-01T00:0{minute}:{second:02}.000000Z"
                await cluster.change(
                    "coordination.k8s.io/v1",
                    "Lease",
                    "a",
                    {"spec": {"renewTime": moment}},
                    namespace="kube-node-lease",
                )
                await beat(cluster, "b")
                await cluster.pass_time(20)

        node = await cluster.client.get("v1", "Node", None, "a")

    assert "True" == (find_condition(node, "Ready") or {})["status"]


@in_virtual_time
async def test_a_node_that_comes_back_is_clean_again() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "a")
        await add_node(cluster, "b")
        await live(cluster, 20, "a", "b")
        await live(cluster, 90, "b")
        gone = await taints(cluster, "a")
        await live(cluster, 20, "a", "b")

        back = await taints(cluster, "a")

    assert (2, []) == (len(gone), back)


@in_virtual_time
async def test_a_node_that_never_reports_is_given_up_after_a_minute() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "a")
        await add_node(cluster, "b")
        await live(cluster, 80, "b")

        node = await cluster.client.get("v1", "Node", None, "a")

    ready = find_condition(node, "Ready") or {}
    assert ("Unknown", "NodeStatusNeverUpdated") == (ready["status"], ready["reason"])


@in_virtual_time
async def test_when_nothing_answers_nobody_is_driven_away() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        for name in ("a", "b"):
            await add_node(cluster, name)
        await live(cluster, 20, "a", "b")
        await cluster.pass_time(120)

        found = {effect for name in ("a", "b") for _, effect in await taints(cluster, name)}

    assert {"NoSchedule"} == found


@in_virtual_time
async def test_nodes_of_a_zone_are_given_up_one_after_the_other() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        for name in ("a", "b", "c", "d", "e", "f"):
            await add_node(cluster, name)
        await live(cluster, 20, *"abcdef")
        await beat(cluster, "a", "b", "c", ready="False")
        counts = []
        for _ in range(4):
            await beat(cluster, "d", "e", "f")
            await beat(cluster, "a", "b", "c", ready="False")
            await cluster.pass_time(10)
            driving = [
                name for name in "abc" if (NOT_READY, "NoExecute") in await taints(cluster, name)
            ]
            counts.append(len(driving))

    assert [1, 2, 3, 3] == counts


@in_virtual_time
async def test_cordoning_a_node_taints_it() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "a")
        await beat(cluster, "a")
        await cluster.change("v1", "Node", "a", {"spec": {"unschedulable": True}})
        await cluster.settle()
        cordoned = await taints(cluster, "a")
        await cluster.change("v1", "Node", "a", {"spec": {"unschedulable": None}})
        await cluster.settle()

        uncordoned = await taints(cluster, "a")

    assert [("node.kubernetes.io/unschedulable", "NoSchedule")] == cordoned
    assert [] == uncordoned


@in_virtual_time
async def test_pods_are_driven_away_when_their_toleration_is_over() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "a")
        await live(cluster, 10, "a")
        forever = [{"key": "gone", "operator": "Exists"}]
        minute = [for_a_minute()]
        await add_pod(cluster, "never", "a")
        await add_pod(cluster, "minute", "a", tolerations=minute)
        await add_pod(cluster, "forever", "a", tolerations=forever)
        taint = {"key": "gone", "effect": "NoExecute"}
        await cluster.change("v1", "Node", "a", {"spec": {"taints": [taint]}})
        await live(cluster, 50, "a")
        early = [p["metadata"]["name"] for p in await cluster.pods() if _is_leaving(p)]
        await live(cluster, 20, "a")

        late = [p["metadata"]["name"] for p in await cluster.pods() if _is_leaving(p)]
        pod = await cluster.get("v1", "Pod", "never")

    assert (["never"], ["minute", "never"]) == (early, late)
    condition = find_condition(pod, "DisruptionTarget") or {}
    assert "DeletionByTaintManager" == condition["reason"]


@in_virtual_time
async def test_a_taint_taken_away_in_time_spares_the_pod() -> None:
    async with running_controllers(*CONTROLLERS) as cluster:
        await add_node(cluster, "a")
        await live(cluster, 10, "a")
        minute = [for_a_minute()]
        await add_pod(cluster, "p", "a", tolerations=minute)
        taint = {"key": "gone", "effect": "NoExecute"}
        await cluster.change("v1", "Node", "a", {"spec": {"taints": [taint]}})
        await live(cluster, 30, "a")
        await cluster.change("v1", "Node", "a", {"spec": {"taints": None}})
        await live(cluster, 90, "a")

        pod = await cluster.get("v1", "Pod", "p")
        events = await cluster.events("p")

    assert not _is_leaving(pod)
    assert ("TaintManagerEviction", "Cancelling deletion of Pod default/p") in events


@in_virtual_time
async def test_pods_of_a_vanished_node_are_gone_within_two_minutes() -> None:
    async with running_controllers(PodGarbageCollector) as cluster:
        await add_node(cluster, "a")
        await add_pod(cluster, "lost", "a")
        await add_pod(cluster, "kept", "a")
        await cluster.client.delete("v1", "Node", None, "a")
        await cluster.pass_time(30)
        early = names(await cluster.pods())
        await add_node(cluster, "b")
        await cluster.pass_time(60)

        late = names(await cluster.pods())

    assert (["kept", "lost"], []) == (early, late)


@in_virtual_time
async def test_pods_that_go_from_a_dead_node_are_not_waited_for() -> None:
    async with running_controllers(PodGarbageCollector) as cluster:
        await add_node(cluster, "a")
        await beat(cluster, "a", ready="False")
        await add_pod(cluster, "p", "a")
        await cluster.client.delete("v1", "Pod", "default", "p")
        await cluster.pass_time(30)
        before = names(await cluster.pods())
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await cluster.change("v1", "Node", "a", {"spec": {"taints": [taint]}})
        await cluster.pass_time(30)

        after = names(await cluster.pods())

    assert (["p"], []) == (before, after)


def for_a_minute() -> JsonObject:
    toleration: JsonObject = {"key": "gone", "operator": "Exists", "effect": "NoExecute"}
    return {**toleration, "tolerationSeconds": 60}


def _is_leaving(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def node(ready: str | None = "True", *known: str, **conditions: str) -> JsonObject:
    """A node with conditions, and taints that keep pods away."""
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    if ready is not None:
        listed.append({"type": "Ready", "status": ready})
    taints = [{"key": key, "effect": "NoSchedule"} for key in known]
    return {"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"conditions": listed}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(node(), [], id="a node that is well"),
        pytest.param(node("False"), [NOT_READY], id="not ready"),
        pytest.param(node("Unknown"), [UNREACHABLE], id="unreachable"),
        pytest.param(node("Unknown", NOT_READY), [UNREACHABLE], id="one state after another"),
        pytest.param(node(None, NOT_READY), [NOT_READY], id="not heard of yet"),
        pytest.param(
            node("True", DiskPressure="True", MemoryPressure="True", PIDPressure="False"),
            ["node.kubernetes.io/disk-pressure", "node.kubernetes.io/memory-pressure"],
            id="under pressure",
        ),
        pytest.param(node("True", "team"), ["team"], id="what people set stays"),
    ],
)
def test_taints_follow_conditions(obj: JsonObject, expected: list[str]) -> None:
    found = with_condition_taints(obj)

    assert expected == [taint["key"] for taint in found]


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        pytest.param(5, 0, ZoneState.NORMAL, id="all well"),
        pytest.param(1, 2, ZoneState.NORMAL, id="few nodes are no disaster"),
        pytest.param(4, 6, ZoneState.PARTIAL, id="most do not answer"),
        pytest.param(0, 1, ZoneState.FULL, id="none answers"),
    ],
)
def test_the_state_of_a_zone(good: int, bad: int, expected: ZoneState) -> None:
    state = zone_state(["True"] * good + ["Unknown"] * bad)

    assert expected is state


@pytest.mark.parametrize(
    ("state", "others", "nodes", "expected"),
    [
        pytest.param(ZoneState.NORMAL, [], 5, 0.1, id="one in ten seconds"),
        pytest.param(ZoneState.FULL, [ZoneState.NORMAL], 5, 0.1, id="a zone that is down"),
        pytest.param(ZoneState.FULL, [ZoneState.FULL], 5, 0.0, id="everything is down"),
        pytest.param(ZoneState.PARTIAL, [], 5, 0.0, id="a small zone in trouble"),
        pytest.param(ZoneState.PARTIAL, [], 60, 0.01, id="a large zone in trouble"),
    ],
)
def test_how_fast_nodes_are_given_up(
    state: ZoneState, others: list[ZoneState], nodes: int, expected: float
) -> None:
    rate = eviction_rate(state, [state, *others], nodes)

    assert expected == rate
