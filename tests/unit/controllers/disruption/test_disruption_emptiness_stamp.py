"""Nodes of pools that stand for a Provisioner say since when they have been empty."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, run_in_background
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import FACTS
from karpenter.controllers.disruption.emptiness_timestamp import EmptinessStamps
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import later, machine, pool, running

OWNER = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "name": "np",
    "uid": "7f0dc53e-0f54-4d51-ae25-6d4b2f2a4a39",
}


def bridged() -> JsonObject:
    made = pool()
    made["metadata"]["ownerReferences"] = [OWNER]
    return made


@asynccontextmanager
async def stamping(*objects: JsonObject) -> AsyncIterator[Bench]:
    async with bench(cloud=FakeCloud(facts=FACTS, types=TYPES)) as at_work:
        await at_work.put(*objects)
        task = run_in_background([EmptinessStamps(at_work.world)])
        try:
            await at_work.clock.sleep(1 - at_work.clock.monotonic())
            yield at_work
            if task.done():
                await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def stamp(at_work: Bench) -> str | None:
    return at_work.node("n1").metadata.annotations.get(labels.EMPTINESS_TIMESTAMP)


@pytest.mark.row("S0-40")
@in_virtual_time
async def test_the_stamp_comes_with_the_last_pod_and_goes_with_the_next() -> None:
    async with stamping(bridged(), *machine("n1"), running("a", "n1")) as at_work:
        before = stamp(at_work)
        await at_work.clock.sleep(99)
        await at_work.client.delete("v1", "Pod", "default", "a", grace_period=0)
        await at_work.clock.sleep(1)

        assert (None, later(100)) == (before, stamp(at_work))

        await at_work.clock.sleep(50)
        await at_work.put(running("daemon", "n1", owner="DaemonSet"))
        await at_work.clock.sleep(1)

        assert later(100) == stamp(at_work)

        await at_work.put(running("b", "n1"))
        await at_work.clock.sleep(1)

        assert None is stamp(at_work)


@in_virtual_time
async def test_a_node_that_has_not_started_is_not_empty() -> None:
    young = machine("n1", node_labels={labels.INITIALIZED: None})
    async with stamping(bridged(), *young) as at_work:
        assert None is stamp(at_work)


@in_virtual_time
async def test_nodes_of_other_pools_are_left_alone() -> None:
    async with stamping(pool(), *machine("n1")) as at_work:
        assert None is stamp(at_work)
