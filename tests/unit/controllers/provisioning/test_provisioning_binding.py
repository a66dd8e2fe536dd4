"""Early binding puts pods on their node before it is ready, and only where they would stay."""

from typing import Any

import pytest

from helpers.autoscaler import JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.provisioning import Provisioning, provisioning, ready_pool, waiting_pod
from karpenter.api.karpenter import NodeClaim
from karpenter.controllers.provisioning.binding import EarlyBinder
from karpenter.kube.errors import ForbiddenError
from karpenter.model import labels
from karpenter.settings import Settings, with_assignments
from karpenter_sandbox.kubelet.faults import Timing

EARLY = Settings(early_binding=True)
UNREGISTERED = {"key": labels.UNREGISTERED, "effect": "NoExecute"}
NOT_READY = {"key": labels.NODE_NOT_READY, "effect": "NoSchedule"}


def node_of(claim: NodeClaim, *taints: JsonObject, cpu: str = "4") -> JsonObject:
    size = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": dict(claim.metadata.labels)},
        "spec": {"providerID": f"fake://{claim.metadata.uid}", "taints": list(taints)},
        "status": {"capacity": size, "allocatable": size},
    }


def pvc(**spec: Any) -> JsonObject:
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {**request, **spec},
    }


async def bound_to(run: Provisioning, name: str = "web") -> str:
    pod = await run.at.client.get("v1", "Pod", "default", name)
    return str(pod["spec"].get("nodeName", ""))


async def started(run: Provisioning, *taints: JsonObject, cpu: str = "4") -> EarlyBinder:
    """Plan, launch and let the node appear."""
    binder = EarlyBinder(run.world, run.planned)
    (claim,) = await run.provision()
    await run.launch(claim, cpu=cpu)
    await run.at.put(node_of(claim, *taints, cpu=cpu))
    await run.at.reconcile(binder, claim.metadata.name)
    return binder


@pytest.mark.row("S0-43", "S2-07")
@in_virtual_time
async def test_a_planned_pod_is_bound_by_the_controller_itself() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        await started(run, NOT_READY)

        assert "n1" == await bound_to(run)


@in_virtual_time
async def test_a_pod_is_not_bound_where_it_would_be_driven_away_at_once() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        binder = await started(run, UNREGISTERED)
        before = await bound_to(run)
        await run.at.change("v1", "Node", "n1", {"spec": {"taints": [NOT_READY]}})

        await run.at.reconcile(binder, run.claims[0].metadata.name)

        assert ("", "n1") == (before, await bound_to(run))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "volumes": [
                    {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                ]
            },
            id="whose volume the scheduler must place",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
            id="that asks for devices",
        ),
    ],
)
@in_virtual_time
async def test_the_scheduler_is_left_a_pod(spec: dict[str, Any]) -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        binder = EarlyBinder(run.world, run.planned)
        (claim,) = await run.provision()
        await run.launch(claim)
        await run.at.put(node_of(claim))
        pod = run.planned.pods_of(claim.metadata.name)[0]
        await run.at.client.delete("v1", "Pod", "default", "web", grace_period=0)
        replacement = waiting_pod(**spec)
        await run.at.put(replacement)
        new = run.world.state.snapshot().pods["default/web"]
        run.planned.expect(claim.metadata.name, [new])

        await run.at.reconcile(binder, claim.metadata.name)

        assert pod.metadata.uid != new.metadata.uid
        assert "" == await bound_to(run)


@in_virtual_time
async def test_a_pod_that_was_made_anew_under_the_same_name_is_not_bound() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        binder = EarlyBinder(run.world, run.planned)
        (claim,) = await run.provision()
        await run.launch(claim)
        await run.at.client.delete("v1", "Pod", "default", "web", grace_period=0)
        await run.at.put(waiting_pod())
        await run.at.put(node_of(claim))

        await run.at.reconcile(binder, claim.metadata.name)

        assert "" == await bound_to(run)


async def end_of_claim(run: Provisioning, claim: NodeClaim) -> None:
    await run.at.client.delete("karpenter.sh/v1", "NodeClaim", None, claim.metadata.name)


async def end_of_node(run: Provisioning, _: NodeClaim) -> None:
    await run.at.change("v1", "Node", "n1", {"metadata": {"finalizers": ["example.com/hold"]}})
    await run.at.client.delete("v1", "Node", None, "n1")


async def no_node(run: Provisioning, _: NodeClaim) -> None:
    await run.at.client.delete("v1", "Node", None, "n1")


async def twin_node(run: Provisioning, claim: NodeClaim) -> None:
    twin = node_of(claim)
    await run.at.put({**twin, "metadata": {**twin["metadata"], "name": "n2"}})


async def end_of_pod(run: Provisioning, _: NodeClaim) -> None:
    await run.at.client.delete("v1", "Pod", "default", "web", grace_period=0)


async def preemption(run: Provisioning, _: NodeClaim) -> None:
    nominated = {"status": {"nominatedNodeName": "other"}}
    await run.at.change("v1", "Pod", "web", nominated, namespace="default", subresource="status")


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(end_of_claim, id="its claim is being deleted"),
        pytest.param(end_of_node, id="its node is being deleted"),
        pytest.param(no_node, id="its node is gone"),
        pytest.param(twin_node, id="two nodes say that they are its node"),
        pytest.param(end_of_pod, id="it is gone"),
        pytest.param(preemption, id="it waits for others to make room"),
    ],
)
@in_virtual_time
async def test_a_pod_is_not_bound_when_meanwhile(happens: Any) -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        binder = EarlyBinder(run.world, run.planned)
        (claim,) = await run.provision()
        await run.launch(claim)
        await run.at.put(node_of(claim))
        await happens(run, claim)
        await run.at.settle()

        await run.at.reconcile(binder, claim.metadata.name)

        assert [] == run.lines("bound pod")


@pytest.mark.parametrize(
    ("storage", "node"),
    [
        pytest.param([], "", id="its storage was never asked for"),
        pytest.param([pvc()], "", id="its storage waits for a node"),
        pytest.param([pvc(volumeName="pv")], "n1", id="its storage is there"),
    ],
)
@in_virtual_time
async def test_a_pod_with_storage(storage: list[JsonObject], node: str) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    async with provisioning(ready_pool(), waiting_pod("plain"), *storage) as run:
        binder = EarlyBinder(run.world, run.planned)
        (claim,) = await run.provision()
        await run.launch(claim)
        await run.at.put(node_of(claim), waiting_pod(volumes=[volume]))
        run.planned.expect(claim.metadata.name, [run.world.state.snapshot().pods["default/web"]])

        await run.at.reconcile(binder, claim.metadata.name)

        assert node == await bound_to(run)


@in_virtual_time
async def test_a_claim_that_is_gone_binds_nobody() -> None:
    async with provisioning(ready_pool()) as run:
        assert await run.at.reconcile(EarlyBinder(run.world, run.planned), "gone") is None


@in_virtual_time
async def test_no_more_pods_are_bound_than_there_is_room_for() -> None:
    pods = [waiting_pod(f"web-{number}") for number in range(3)]
    async with provisioning(ready_pool(), *pods) as run:
        await started(run, cpu="2")

        nodes = [await bound_to(run, f"web-{number}") for number in range(3)]
        assert ["", "n1", "n1"] == sorted(nodes)


@in_virtual_time
async def test_a_pod_another_was_faster_with_is_passed_over() -> None:
    async with provisioning(ready_pool(), waiting_pod("a"), waiting_pod("b")) as run:
        binder = EarlyBinder(run.world, run.planned)
        (claim,) = await run.provision()
        await run.launch(claim)
        await run.at.put(node_of(claim))
        await run.at.client.bind("default", "a", "elsewhere")

        await binder.reconcile(("", claim.metadata.name))

        assert ("elsewhere", "n1") == (await bound_to(run, "a"), await bound_to(run, "b"))


@pytest.mark.case("OPS-18")
@in_virtual_time
async def test_without_the_right_to_bind_one_warning_names_the_role(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise ForbiddenError(403, 'pods "a" is forbidden: cannot create pods/binding')

    async with provisioning(ready_pool(), waiting_pod("a"), waiting_pod("b")) as run:
        monkeypatch.setattr(type(run.world.kube), "bind", refused)
        await started(run)

        assert ["", ""] == [await bound_to(run, "a"), await bound_to(run, "b")]
        (told,) = [line for line in run.at.lines if "not bound early" in line["message"]]
        assert "warning" == told["level"]
        assert "karpenter-early-binding" in told["advice"]
        assert "rbac.earlyBinding" in told["advice"]


@pytest.mark.row("S0-52", "S3-25")
@in_virtual_time
async def test_pods_have_their_node_before_it_is_ready() -> None:
    timing = Timing(boot=30.0)
    async with autoscaler(kwok_pool(), deployment("web", 3), settings=EARLY, timing=timing) as run:
        await run.until(
            lambda: len(run.pods) == 3 and all("nodeName" in pod["spec"] for pod in run.pods),
            seconds=60,
            step=0.1,
        )
        (node,) = run.nodes
        ready = [c["status"] for c in node["status"].get("conditions", []) if c["type"] == "Ready"]
        await run.until(lambda: len(run.running) == 3, seconds=120)

        assert ready != ["True"]
        assert {node["metadata"]["name"]} == {pod["spec"]["nodeName"] for pod in run.running}


@pytest.mark.row("S3-25")
@in_virtual_time
async def test_by_default_pods_are_told_their_node_and_the_scheduler_binds_them() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 2)) as run:
        await run.until(lambda: len(run.running) == 2)

        assert [] == [line for line in run.lines if line["message"] == "bound pod"]
        assert 2 == len([event for event in run.events if event[1] == "Nominated"])


def test_early_binding_is_off_unless_asked_for() -> None:
    asked = with_assignments(Settings(), {"EARLY_BINDING": "true"})

    assert (False, True) == (Settings().early_binding, asked.early_binding)
