"""Pods that wait and nodes that go ask for a plan, again and again until they no longer do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from helpers.autoscaler import Bench, JsonObject, autoscaler, bench, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.provisioning import Triggers, waiting_pod
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.triggers import NodeTrigger, PodTrigger
from karpenter.model import labels


@asynccontextmanager
async def pod_trigger(
    *objects: JsonObject,
) -> AsyncIterator[tuple[Bench, PodTrigger, Triggers, PlannedPods]]:
    async with bench(*objects) as at:
        triggers, planned = Triggers(), PlannedPods()
        yield at, PodTrigger(at.world, triggers, planned), triggers, planned  # type: ignore[arg-type]


def owned(kind: str, api_version: str) -> JsonObject:
    owner = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "1"}
    pod = waiting_pod()
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}


def with_status(**status: Any) -> JsonObject:
    pod = waiting_pod()
    return {**pod, "status": {**pod["status"], **status}}


@pytest.mark.case("SCH-1")
@in_virtual_time
async def test_a_pod_that_waits_triggers_every_ten_seconds() -> None:
    async with pod_trigger(waiting_pod()) as (at, controller, triggers, planned):
        again = await at.reconcile(controller, "web", "default")
        await at.reconcile(controller, "web", "default")

        (uid,) = set(triggers.uids)
        assert (10.0, 2) == (again, len(triggers.uids))
        assert planned.times_of(uid) is not None


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(waiting_pod(reason="SchedulingGated"), id="SCH-2 a gated pod"),
        pytest.param(with_status(conditions=[]), id="SCH-3 a pod nobody has looked at"),
        pytest.param(waiting_pod(reason="MATCH_NODE_SELECTOR_FAILED"), id="SCH-4 another reason"),
        pytest.param(with_status(nominatedNodeName="n1"), id="SCH-6 a pod that preempts others"),
        pytest.param(waiting_pod(nodeName="n1"), id="SCH-7 a pod that has a node"),
        pytest.param(owned("DaemonSet", "apps/v1"), id="SCH-8 a pod of a DaemonSet"),
        pytest.param(owned("Node", "v1"), id="SCH-8 a mirror pod"),
    ],
)
@in_virtual_time
async def test_no_trigger(pod: JsonObject) -> None:
    async with pod_trigger(pod) as (at, controller, triggers, _):
        again = await at.reconcile(controller, "web", "default")

        assert (None, []) == (again, triggers.uids)


@in_virtual_time
async def test_what_is_remembered_of_a_pod_goes_with_it() -> None:
    async with pod_trigger(waiting_pod()) as (at, controller, triggers, planned):
        await at.reconcile(controller, "web", "default")

        await at.client.delete("v1", "Pod", "default", "web", grace_period=0)
        await at.settle()

        assert planned.times_of(triggers.uids[0]) is None


@in_virtual_time
async def test_a_node_that_is_being_disrupted_triggers_every_ten_seconds() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": labels.DISRUPTED, "effect": "NoSchedule"}]},
    }
    async with bench(node, {**node, "metadata": {"name": "n2"}, "spec": {}}) as at:
        triggers = Triggers()
        controller = NodeTrigger(at.world, triggers)  # type: ignore[arg-type]

        answers = [await at.reconcile(controller, name) for name in ("n1", "n2")]

        assert [10.0, None] == answers
        assert [at.node("n1").metadata.uid] == triggers.uids


def test_the_first_decision_counts_from_when_a_pod_was_first_seen() -> None:
    planned = PlannedPods()
    start = datetime.fromisoformat("2030-01-01T00:00:00Z")
    planned.see("a", start)
    planned.see("a", start + timedelta(seconds=5))

    seconds = [
        planned.decide("a", start + timedelta(seconds=7), is_placed=False),
        planned.decide("a", start + timedelta(seconds=9), is_placed=True),
    ]

    times = planned.times_of("a")
    assert [7.0, None] == seconds
    assert times is not None
    assert (start + timedelta(seconds=7), start + timedelta(seconds=9)) == (
        times.decided,
        times.placed,
    )


@pytest.mark.row("S0-01")
@in_virtual_time
async def test_a_claim_is_there_one_idle_window_after_a_pod_was_found_unschedulable() -> None:
    async with autoscaler(kwok_pool()) as run:
        await run.pass_time(20)
        await run.apply(deployment("web", 1))
        applied = run.clock.monotonic()

        await run.until(lambda: bool(run.claims), step=0.1)

        assert run.clock.monotonic() - applied < 2


@pytest.mark.row("S0-10")
@in_virtual_time
async def test_pods_run_on_the_node_of_the_claim_they_were_nominated_to() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 3)) as run:
        await run.until(lambda: len(run.running) == 3)

        (claim,) = run.claims
        nodes = {pod["spec"]["nodeName"] for pod in run.running}
        nominated = [message for _, reason, message in run.events if reason == "Nominated"]
        assert {claim["status"]["nodeName"]} == nodes
        assert all(claim["metadata"]["name"] in message for message in nominated)
        assert 3 == len(nominated)
