"""CapacityBuffers are resolved, planned for, and say whether there is room for them."""

from typing import Any

import pytest

from helpers.autoscaler import Bench, JsonObject, autoscaler, bench, deployment, gates, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.provisioning import Triggers
from karpenter.api.karpenter import CapacityBuffer
from karpenter.controllers.provisioning.buffers import BufferController, verdict
from karpenter.model.conditions import find
from karpenter.scheduling.provisioning import BufferOutcome
from karpenter.settings import Settings

SETTINGS = Settings(feature_gates=gates(CapacityBuffer=True))
V1BETA1 = "autoscaling.x-k8s.io/v1beta1"


def buffer(name: str = "headroom", namespace: str = "default", **spec: Any) -> JsonObject:
    return {
        "apiVersion": V1BETA1,
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def scaling(kind: str = "Deployment", name: str = "app", group: str = "apps") -> JsonObject:
    return {"apiGroup": group, "kind": kind, "name": name}


def template(name: str = "shape", cpu: str = "1") -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": deployment("x", 1, cpu=cpu)["spec"]["template"],
    }


def seen(at: Bench, name: str = "headroom", namespace: str = "default") -> CapacityBuffer:
    found = at.world.mirror(CapacityBuffer).get(name, namespace)
    assert found is not None
    return found


def readiness(at: Bench, name: str = "headroom") -> tuple[str, str]:
    condition = find(seen(at, name).status.conditions, "ReadyForProvisioning")
    return (condition.status, condition.reason) if condition else ("", "")


@in_virtual_time
async def test_a_buffer_that_can_be_resolved_says_what_it_stands_for() -> None:
    wanted = buffer(podTemplateRef={"name": "shape"}, replicas=3)
    async with bench(template(), wanted, settings=SETTINGS) as at:
        triggers = Triggers()
        controller = BufferController(at.world, triggers)  # type: ignore[arg-type]

        again = await at.reconcile(controller, "headroom", "default")

        status = seen(at).status
        assert ("True", "Resolved") == readiness(at)
        assert (3, "buffer.x-k8s.io/active-capacity") == (
            status.replicas,
            status.provisioning_strategy,
        )
        assert status.pod_template_ref is not None
        assert "shape" == status.pod_template_ref.name
        assert (30.0, [seen(at).metadata.uid]) == (again, triggers.uids)


@in_virtual_time
async def test_a_buffer_stands_for_a_share_of_a_workload_and_follows_it() -> None:
    wanted = buffer(scalableRef=scaling(), percentage=20)
    async with bench(deployment("app", 10), wanted, settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        await at.reconcile(controller, "headroom", "default")
        before = seen(at).status
        await at.change(
            "apps/v1", "Deployment", "app", {"spec": {"replicas": 20}}, namespace="default"
        )

        await at.reconcile(controller, "headroom", "default")

        assert (2, None, None) == (
            before.replicas,
            before.pod_template_ref,
            before.pod_template_generation,
        )
        assert 4 == seen(at).status.replicas


@in_virtual_time
async def test_a_buffer_that_has_not_changed_is_not_written_again() -> None:
    wanted = buffer(podTemplateRef={"name": "shape"}, replicas=3)
    async with bench(template(), wanted, settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        await at.reconcile(controller, "headroom", "default")
        before = seen(at).metadata.resource_version
        await at.clock.sleep(5)

        await at.reconcile(controller, "headroom", "default")

        assert before == seen(at).metadata.resource_version


@in_virtual_time
async def test_a_buffer_that_loses_its_template_stands_for_nothing() -> None:
    wanted = buffer(podTemplateRef={"name": "shape"}, replicas=3)
    async with bench(template(), wanted, settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        await at.reconcile(controller, "headroom", "default")
        shape = await at.client.get("v1", "PodTemplate", "default", "shape")
        before = seen(at).status.pod_template_generation
        await at.client.delete("v1", "PodTemplate", "default", "shape")
        await at.settle()

        await at.reconcile(controller, "headroom", "default")

        status = seen(at).status
        assert shape["metadata"]["generation"] == before
        assert (None, None, None) == (
            status.replicas,
            status.pod_template_ref,
            status.pod_template_generation,
        )


@pytest.mark.parametrize(
    ("spec", "is_woken"),
    [
        pytest.param({"podTemplateRef": {"name": "shape"}}, True, id="names the template"),
        pytest.param({"podTemplateRef": {"name": "other"}}, False, id="names another template"),
    ],
)
@in_virtual_time
async def test_a_template_wakes_a_buffer_that(spec: JsonObject, is_woken: bool) -> None:
    async with bench(buffer(replicas=1, **spec), settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        controller.queue.done(await controller.queue.get())

        await at.put(template())

        assert is_woken == bool(len(controller.queue))


@pytest.mark.parametrize(
    ("ref", "is_woken"),
    [
        pytest.param(scaling(), True, id="V15-S30 of the group apps"),
        pytest.param(scaling(group="example.com"), False, id="of another group"),
    ],
)
@in_virtual_time
async def test_a_workload_that_is_scaled_wakes_a_buffer_of_it(
    ref: JsonObject, is_woken: bool
) -> None:
    wanted = buffer(scalableRef=ref, percentage=10)
    async with bench(deployment("app", 10), wanted, settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        controller.queue.done(await controller.queue.get())

        await at.change(
            "apps/v1", "Deployment", "app", {"spec": {"replicas": 9}}, namespace="default"
        )

        assert is_woken == bool(len(controller.queue))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(
            {"podTemplateRef": {"name": "gone"}, "replicas": 1},
            "PodTemplateNotFound",
            id="no such template",
        ),
        pytest.param(
            {"scalableRef": scaling(name="gone"), "replicas": 1},
            "ScalableRefNotFound",
            id="V15-S29 no such workload",
        ),
        pytest.param(
            {"scalableRef": scaling(kind="Widget"), "replicas": 1},
            "ResolutionFailed",
            id="a kind that cannot be scaled",
        ),
    ],
)
@in_virtual_time
async def test_a_buffer_that_cannot_be_resolved_says_why_and_a_plan_is_made(
    spec: JsonObject, reason: str
) -> None:
    async with bench(buffer(**spec), settings=SETTINGS) as at:
        triggers = Triggers()
        controller = BufferController(at.world, triggers)  # type: ignore[arg-type]

        await at.reconcile(controller, "headroom", "default")

        assert ("False", reason) == readiness(at)
        assert [seen(at).metadata.uid] == triggers.uids


@pytest.mark.case("V15-S28")
@in_virtual_time
async def test_a_deleted_buffer_triggers_without_a_name() -> None:
    async with bench(settings=SETTINGS) as at:
        triggers = Triggers()
        controller = BufferController(at.world, triggers)  # type: ignore[arg-type]

        again = await at.reconcile(controller, "gone", "default")

        assert (None, [""]) == (again, triggers.uids)


@pytest.mark.case("V15-S30")
@in_virtual_time
async def test_only_buffers_that_refer_to_a_workload_are_woken_by_it() -> None:
    elsewhere = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    buffers = [
        buffer("with-group", scalableRef=scaling(), percentage=10),
        buffer("without-group", scalableRef=scaling(group=""), percentage=10),
        buffer("stateful", scalableRef=scaling("StatefulSet"), percentage=10),
        buffer("elsewhere", "other", scalableRef=scaling(), percentage=10),
    ]
    async with bench(elsewhere, *buffers, settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        for _ in buffers:
            controller.queue.done(await controller.queue.get())

        await at.put(deployment("app", 10))

        woken = {await controller.queue.get() for _ in range(len(controller.queue))}
        assert {("default", "with-group"), ("default", "without-group")} == woken


@in_virtual_time
async def test_a_workload_whose_status_alone_changes_wakes_nobody() -> None:
    wanted = buffer(scalableRef=scaling(), percentage=10)
    async with bench(deployment("app", 10), wanted, settings=SETTINGS) as at:
        controller = BufferController(at.world, Triggers())  # type: ignore[arg-type]
        controller.queue.done(await controller.queue.get())

        await at.change(
            "apps/v1",
            "Deployment",
            "app",
            {"status": {"readyReplicas": 1, "replicas": 1}},
            namespace="default",
            subresource="status",
        )

        assert 0 == len(controller.queue)


@in_virtual_time
async def test_other_strategies_are_left_alone() -> None:
    wanted = buffer(
        provisioningStrategy="example.com/other", podTemplateRef={"name": "x"}, replicas=1
    )
    async with bench(wanted, settings=SETTINGS) as at:
        triggers = Triggers()
        controller = BufferController(at.world, triggers)  # type: ignore[arg-type]

        again = await at.reconcile(controller, "headroom", "default")

        assert (None, [], ()) == (again, triggers.uids, seen(at).status.conditions)


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        pytest.param(
            BufferOutcome("a/b", 2, True, ("n1",)),
            "True",
            "FitsExistingCapacity",
            id="there is room",
        ),
        pytest.param(
            BufferOutcome("a/b", 2, False, ("n1",)), "False", "RequiresNewCapacity", id="too little"
        ),
        pytest.param(
            BufferOutcome("a/b", 0, False, ()), "False", "BufferEmpty", id="nothing asked"
        ),
        pytest.param(
            BufferOutcome("a/b", 0, False, (), "there is no PodTemplate x"),
            "False",
            "NotReadyForProvisioning",
            id="not resolved",
        ),
    ],
)
def test_whether_there_is_room(outcome: BufferOutcome, status: str, reason: str) -> None:
    assert (status, reason) == verdict(outcome)[:2]


def conditions_of(run: Any, name: str) -> dict[str, tuple[str, str]]:
    (found,) = run.objects("autoscaling.x-k8s.io", "capacitybuffers")
    held = found.get("status", {}).get("conditions", [])
    return {each["type"]: (each["status"], each["reason"]) for each in held}


@in_virtual_time
async def test_nodes_are_made_for_a_buffer_and_it_says_when_it_is_ready() -> None:
    wanted = buffer(podTemplateRef={"name": "shape"}, replicas=2)
    async with autoscaler(kwok_pool(), template(), wanted, settings=SETTINGS) as run:
        await run.until(lambda: len(run.claims) == 1, seconds=30)
        await run.until(
            lambda: conditions_of(run, "headroom").get("Provisioning", ("", ""))[0] == "True",
            seconds=120,
        )

        assert ("True", "FitsExistingCapacity") == conditions_of(run, "headroom")["Provisioning"]
        assert [] == [
            event for event in run.events if event[1] in ("Nominated", "FailedScheduling")
        ]
        assert 1 == len(run.claims)


@pytest.mark.case("V15-S28")
@in_virtual_time
async def test_a_pass_runs_when_a_buffer_is_deleted_on_an_idle_cluster() -> None:
    wanted = buffer(podTemplateRef={"name": "shape"}, replicas=2)
    async with autoscaler(kwok_pool(), template(), wanted, settings=SETTINGS) as run:
        await run.until(lambda: len(run.claims) == 1, seconds=30)
        await run.pass_time(60)
        sample = run.metrics.registry.get_sample_value
        name = "karpenter_scheduler_scheduling_duration_seconds_count"
        before = sample(name, {"controller": "provisioner"}) or 0.0

        await run.client.delete(V1BETA1, "CapacityBuffer", "default", "headroom")
        await run.pass_time(3)

        after = sample(name, {"controller": "provisioner"}) or 0.0
        assert before + 1 == after
