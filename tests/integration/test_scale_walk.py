"""The scale walk, in virtual time: how many nodes, of which type, and who is where."""

import pytest

from autoscaler import Autoscaler, autoscaler
from clusters import in_virtual_time
from karpenter.sandbox.faults import Timing
from walking import FIXED, app_pods, cpu_on, manifests, node_types, pending, placement, walk_cloud

BOOT_SECONDS = 84.0  # from the creation of a node until it is ready


async def begun(run: Autoscaler) -> None:
    """Apply the pool and the app, and let the app start."""
    await run.pass_time(5)
    await run.apply(*manifests("provisioner.yaml"), *manifests("app.yaml"))
    await run.until(lambda: len(app_pods(run)) == 1 and not pending(run), seconds=30)


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
    timing = Timing(boot=BOOT_SECONDS)
    async with autoscaler(*manifests("cluster.yaml"), make_cloud=walk_cloud, timing=timing) as run:
        await run.pass_time(BOOT_SECONDS)
        await begun(run)

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
    """Pods that waited were told so by the scheduler, and then where they would go."""
    told = {
        (event["source"].get("component"), event["reason"]) for event in run.objects("", "events")
    }
    messages = [
        e["message"] for e in run.objects("", "events") if e["reason"] == "FailedScheduling"
    ]
    assert ("karpenter", "Nominated") in told
    assert any("0/1 nodes are available: 1 Insufficient cpu" in message for message in messages)


@pytest.mark.row("S3-18", "S3-22")
@in_virtual_time
async def test_a_node_is_not_ready_until_it_has_booted_which_takes_less_than_90_seconds() -> None:
    timing = Timing(boot=BOOT_SECONDS)
    async with autoscaler(*manifests("cluster.yaml"), make_cloud=walk_cloud, timing=timing) as run:
        await run.pass_time(BOOT_SECONDS)
        await begun(run)
        began = run.clock.monotonic()
        seen: dict[str, float] = {}

        await run.scale("app", 5)
        while "Ready" not in seen:
            await run.pass_time(0.5)
            if (state := state_of_new_node(run)) is not None:
                seen.setdefault(state, run.clock.monotonic() - began)

        assert ["NotReady", "Ready"] == list(seen)
        assert seen["Ready"] < 90


def state_of_new_node(run: Autoscaler) -> str | None:
    """What ``kubectl get nodes`` shows of the node that was launched."""
    for node in run.nodes:
        if node["metadata"]["name"] != FIXED:
            conditions = node.get("status", {}).get("conditions", ())
            ready = [c["status"] for c in conditions if c["type"] == "Ready"]
            return "Ready" if ready == ["True"] else "NotReady"
    return None
