"""The scale walk, in virtual time: how many nodes, of which type, and who is where."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from helpers.autoscaler import Autoscaler, autoscaler
from helpers.clusters import in_virtual_time
from helpers.scale_walk import (
    FIXED,
    app_pods,
    cpu_on,
    manifests,
    node_types,
    pending,
    placement,
    walk_cloud,
)
from karpenter.model.quantity import millis, units
from karpenter.simulate.invariants import problems
from karpenter_sandbox.kubelet.faults import Timing

BOOT_SECONDS = 84.0  # from the creation of a node until it is ready


async def begun(run: Autoscaler) -> None:
    """Apply the pool and the app, and let the app start."""
    await run.pass_time(5)
    await run.apply(*manifests("provisioner.yaml"), *manifests("app.yaml"))
    await run.until(lambda: len(app_pods(run)) == 1 and not pending(run), seconds=30)


@asynccontextmanager
async def walk() -> AsyncIterator[Autoscaler]:
    """The cluster of the walk with its first node and its workload."""
    timing = Timing(boot=BOOT_SECONDS)
    async with autoscaler(*manifests("cluster.yaml"), make_cloud=walk_cloud, timing=timing) as run:
        await run.pass_time(BOOT_SECONDS)
        await begun(run)
        yield run


@pytest.mark.row("S3-15", "S3-16", "S3-17", "S3-06")
@in_virtual_time
async def test_one_replica_just_fits_and_nothing_is_launched() -> None:
    async with autoscaler(*manifests("cluster.yaml"), make_cloud=walk_cloud) as run:
        await begun(run)
        await run.pass_time(60)

        assert (["m5.large"], [1], []) == (node_types(run), placement(run), run.claims)
        assert 1925 == cpu_on(run, FIXED)


@pytest.mark.row("S3-19", "S3-20", "S3-21", "S3-23", "S3-24", "S3-29", "S3-30", "S3-31")
@in_virtual_time
async def test_five_replicas_take_a_second_node_and_twenty_a_third() -> None:
    async with walk() as run:
        await run.scale("app", 5)
        await run.pass_time(0.5)
        assert 4 == pending(run)
        await run.until(lambda: len(run.claims) == 1, seconds=2)
        await run.until(lambda: not pending(run), seconds=110)
        assert (["m5.large", "c4.xlarge"], [1, 4]) == (node_types(run), placement(run))
        assert_told(run)

        await run.scale("app", 20)
        await run.pass_time(1)
        await run.until(lambda: not pending(run), seconds=110)
        await run.pass_time(5)
        assert ["m5.large", "c4.xlarge", "t3a.2xlarge"] == node_types(run)
        assert [1, 7, 12] == placement(run)
        assert 2 == len(run.claims)
        await run.pass_time(300)
        assert [1, 7, 12] == placement(run)


def assert_told(run: Autoscaler) -> None:
    """Pending pods have the scheduler's FailedScheduling event, and the nomination."""
    told = {
        (event["source"].get("component"), event["reason"]) for event in run.objects("", "events")
    }
    messages = [
        e["message"] for e in run.objects("", "events") if e["reason"] == "FailedScheduling"
    ]
    assert ("karpenter", "Nominated") in told
    assert any("0/1 nodes are available: 1 Insufficient cpu" in message for message in messages)


@pytest.mark.row("S3-22")
@in_virtual_time
async def test_a_node_is_unknown_then_not_ready_then_ready_within_90_seconds() -> None:
    async with walk() as run:
        began = run.clock.monotonic()
        seen: dict[str, float] = {}

        await run.scale("app", 5)
        while "Ready" not in seen:
            await run.pass_time(0.5)
            if (state := state_of_new_node(run)) is not None:
                seen.setdefault(state, run.clock.monotonic() - began)

        assert ["Unknown", "NotReady", "Ready"] == list(seen)
        assert seen["Ready"] < 90


def state_of_new_node(run: Autoscaler) -> str | None:
    """What ``kubectl get nodes`` shows of the node that was launched."""
    for node in run.nodes:
        if node["metadata"]["name"] != FIXED:
            conditions = node.get("status", {}).get("conditions", ())
            ready = [c["status"] for c in conditions if c["type"] == "Ready"]
            return {(): "Unknown", ("True",): "Ready"}.get(tuple(ready), "NotReady")
    return None


@pytest.mark.row(
    "S0-54",
    "S3-11",
    "S3-12",
    "S3-32",
    "S3-33",
    "S3-34",
    "S3-35",
    "S3-36",
    "S3-37",
    "S3-38",
    "S3-39",
)
@in_virtual_time
async def test_the_whole_walk_ends_where_it_began() -> None:
    async with autoscaler(*manifests("cluster.yaml"), make_cloud=walk_cloud) as run:
        await begun(run)
        for replicas in (5, 20):
            await run.scale("app", replicas)
            await run.pass_time(1)
            await run.until(lambda: not pending(run), seconds=60)
        assert (["m5.large", "c4.xlarge", "t3a.2xlarge"], [1, 7, 12]) == seen(run)

        await run.scale("app", 10)
        await run.pass_time(60)
        assert (["m5.large", "c4.xlarge", "t3a.2xlarge"], [1, 2, 7]) == seen(run)

        await run.until(lambda: is_cordoned(run, "c4.xlarge"), seconds=1800)
        await run.until(lambda: len(run.nodes) == 2, seconds=120)
        await run.pass_time(10)
        assert (["m5.large", "t3a.2xlarge"], [1, 9]) == seen(run)

        await run.scale("app", 5)
        await run.pass_time(60)
        assert (["m5.large", "t3a.2xlarge"], [1, 4]) == seen(run)
        assert 2125 == cpu_on(run, node_of(run, "t3a.2xlarge"))
        assert shares(run, "t3a.2xlarge") == pytest.approx((26, 6), abs=1)

        await run.until(lambda: is_cordoned(run, "t3a.2xlarge"), seconds=1800)
        assert 1 == len(run.claims), "no node is made before the old one drains"
        await run.until(lambda: len(run.claims) == 2, seconds=30)
        assert "t3a.2xlarge" in node_types(run), "the new node comes before the old one is gone"
        await run.until(lambda: len(run.nodes) == 2, seconds=120)
        await run.pass_time(10)
        assert (["m5.large", "c4.xlarge"], [1, 4]) == seen(run)
        assert 2125 == cpu_on(run, node_of(run, "c4.xlarge"))
        assert shares(run, "c4.xlarge") == pytest.approx((54, 31), abs=1)
        assert 2 == len(run.nodes)

        await run.pass_time(60)
        await run.scale("app", 0)
        began = run.clock.monotonic()
        await run.until(lambda: is_cordoned(run, "c4.xlarge"), seconds=90)
        assert 30 <= run.clock.monotonic() - began < 75
        await run.until(lambda: len(run.nodes) == 1, seconds=60)
        await run.pass_time(60)
        assert (["m5.large"], []) == seen(run)
        assert ([], []) == (run.claims, problems(run))


def shares(run: Autoscaler, kind: str) -> tuple[int, int]:
    """Percent of cpu and memory that are requested on the node of a type, as ``describe`` has it."""
    name = node_of(run, kind)
    (node,) = [each for each in run.nodes if each["metadata"]["name"] == name]
    asked = [
        container.get("resources", {}).get("requests", {})
        for pod in run.pods
        if pod["spec"].get("nodeName") == name
        for container in pod["spec"]["containers"]
    ]
    held = node["status"]["allocatable"]
    cpu = sum(millis(each.get("cpu", 0)) for each in asked) * 100 // millis(held["cpu"])
    memory = sum(units(each.get("memory", 0)) for each in asked) * 100 // units(held["memory"])
    return cpu, memory


def seen(run: Autoscaler) -> tuple[list[str], list[int]]:
    """What a person who looks would note: the nodes, and how many pods each of them has."""
    return node_types(run), placement(run)


def is_cordoned(run: Autoscaler, kind: str) -> bool:
    """Whether a node of a type shows as ``SchedulingDisabled``."""
    return any(
        node["spec"].get("unschedulable")
        for node in run.nodes
        if node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == kind
    )


def node_of(run: Autoscaler, kind: str) -> str:
    """The name of the one node of a type."""
    (name,) = [
        node["metadata"]["name"]
        for node in run.nodes
        if node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == kind
    ]
    return str(name)
