"""What users see from the outside: how fast nodes come, what they hold, and where it ends."""

import pytest

from helpers.autoscaler import JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.model import labels
from karpenter_sandbox.kubelet.faults import Timing


def of_size(cpu: int) -> JsonObject:
    names = [f"c-{cpu}x-amd64-linux"]
    return {"key": labels.INSTANCE_TYPE, "operator": "In", "values": names}


@pytest.mark.row("S0-45")
@in_virtual_time
async def test_pods_nobody_planned_for_use_the_spare_room_of_a_new_node() -> None:
    async with autoscaler(kwok_pool("default", of_size(8)), deployment("web", 2)) as run:
        await run.until(lambda: len(run.running) == 2, seconds=60)

        await run.apply(deployment("other", 2))
        await run.until(lambda: len(run.running) == 4, seconds=60)

        assert 1 == len(run.claims)
        assert 1 == len({pod["spec"]["nodeName"] for pod in run.running})


@pytest.mark.row("S1-31")
@in_virtual_time
async def test_a_claim_beyond_the_limit_is_not_made_and_an_event_names_the_limit() -> None:
    pool = kwok_pool("default", of_size(4), limits={"cpu": "8"})
    async with autoscaler(pool, deployment("web", 3, cpu="3")) as run:
        await run.until(lambda: len(run.running) == 2, seconds=60)
        await run.pass_time(60)

        told = [message for _, reason, message in run.events if reason == "FailedScheduling"]
        assert 2 == len(run.claims)
        assert told
        assert "limit" in told[-1]
        assert "default" in told[-1]


@pytest.mark.row("S2-03")
@in_virtual_time
async def test_a_pod_runs_within_a_minute_when_machines_take_45_seconds() -> None:
    async with autoscaler(kwok_pool(), timing=Timing(boot=45.0)) as run:
        await run.pass_time(60)
        await run.apply(deployment("web", 1))
        applied = run.clock.monotonic()

        await run.until(lambda: bool(run.claims), step=0.1, seconds=15)
        claimed = run.clock.monotonic()
        await run.until(lambda: len(run.running) == 1, step=0.1, seconds=60)

        assert claimed - applied < 15
        assert run.clock.monotonic() - applied < 60


@pytest.mark.row("S3-19", "S3-21")
@in_virtual_time
async def test_scaling_out_leaves_pods_pending_and_the_claim_follows_at_once() -> None:
    async with autoscaler(kwok_pool(), deployment("app", 0, cpu="3"), nodes=1) as run:
        await run.scale("app", 1)
        await run.until(lambda: len(run.running) == 1, seconds=10)
        await run.scale("app", 5)
        scaled = run.clock.monotonic()
        await run.until(lambda: len(run.pods) == 5, step=0.1, seconds=5)
        await run.pass_time(0.1)
        pending = [pod for pod in run.pods if "nodeName" not in pod["spec"]]

        await run.until(lambda: bool(run.claims), step=0.1, seconds=10)

        assert 4 == len(pending)
        assert run.clock.monotonic() - scaled < 3


@pytest.mark.row("S2-102")
@in_virtual_time
async def test_what_is_left_of_a_limit_bounds_the_size_of_machines_and_cost_is_told() -> None:
    pool = kwok_pool("default", limits={"cpu": "10"})
    async with autoscaler(pool, deployment("web", 1)) as run:
        await run.until(lambda: len(run.running) == 1, seconds=60)

        (claim,) = run.claims
        listed = next(
            entry["values"]
            for entry in claim["spec"]["requirements"]
            if entry["key"] == labels.INSTANCE_TYPE
        )
        cost = run.metrics.exposition().decode()
        assert {"2x", "4x", "8x"} == {name.split("-")[1] for name in listed}
        assert "karpenter_nodepools_cost_total" in cost
