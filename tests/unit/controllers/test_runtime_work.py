"""How controllers work through their keys: side by side, each key alone, and never too many."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from structlog.contextvars import get_contextvars

from helpers.autoscaler import bench, gates, kwok_pool
from helpers.claims import NAME, claim, node
from helpers.clusters import in_virtual_time
from helpers.manifests import condition
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.context import Context, Controller, Loop
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.termination.eviction_queue import EvictionKey, EvictionQueue
from karpenter.kube.errors import ConflictError
from karpenter.settings import FeatureGates, Settings


class Slow(Controller):
    """A controller whose work takes a second."""

    name = "slow"
    workers = 3

    def __init__(self, world: Context, *, fails: str = "") -> None:
        super().__init__(world)
        self.running: Counter[str] = Counter()
        self.most = 0
        self.together: set[int] = set()  # how often one key was worked on at one time
        self.done: list[str] = []
        self._fails = fails

    async def reconcile(self, key: str) -> float | None:
        self.running[key] += 1
        self.most = max(self.most, self.running.total())
        self.together.add(self.running[key])
        await self.clock.sleep(1)
        self.running[key] -= 1
        if key == self._fails and key not in self.done:
            self.done.append(key)
            raise ValueError("not today")
        self.done.append(key)
        return None


@in_virtual_time
async def test_so_many_at_a_time_and_no_key_twice() -> None:
    async with bench() as at:
        controller = Slow(at.world)
        task = asyncio.create_task(controller.run())
        for key in "abcdefg":
            controller.queue.add(key)
        await at.world.clock.sleep(0.5)
        controller.queue.add("a")
        await at.world.clock.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert (3, {1}) == (controller.most, controller.together)
    assert Counter("aabcdefg") == Counter(controller.done)


@in_virtual_time
async def test_what_fails_comes_again_and_holds_up_nobody() -> None:
    async with bench() as at:
        controller = Slow(at.world, fails="b")
        task = asyncio.create_task(controller.run())
        for key in "abc":
            controller.queue.add(key)
        await at.world.clock.sleep(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert Counter("abbc") == Counter(controller.done)


@in_virtual_time
async def test_work_ends_with_the_controller() -> None:
    async with bench() as at:
        controller = Slow(at.world)
        task = asyncio.create_task(controller.run())
        controller.queue.add("a")
        await at.world.clock.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await at.world.clock.sleep(5)

    assert [] == controller.done
    assert 0 == len(controller.queue)


class Listening(Controller):
    """A controller that notes what its lines would say of its work."""

    name = "listening"
    kind = NodeClaim

    def __init__(self, world: Context) -> None:
        super().__init__(world)
        self.heard: list[dict[str, Any]] = []

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        self.heard.append(get_contextvars())
        return None


class Failing(Loop):
    """A loop that fails in a way nobody foresaw."""

    name = "failing"

    async def step(self) -> float:
        raise ValueError("not today")


@in_virtual_time
async def test_every_line_tells_what_is_worked_on() -> None:
    async with bench() as at:
        controller = Listening(at.world)
        task = asyncio.create_task(controller.run())
        for name in ("a", "b"):
            controller.queue.add(("", name))
        await at.world.clock.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    rounds = {UUID(each.pop("reconcileID")) for each in controller.heard}
    assert 2 == len(rounds)
    assert [
        {
            "controllerGroup": "karpenter.sh",
            "controllerKind": "NodeClaim",
            "NodeClaim": {"name": name},
            "namespace": "",
            "name": name,
        }
        for name in ("a", "b")
    ] == sorted(controller.heard, key=lambda each: str(each["name"]))


@in_virtual_time
async def test_a_round_that_failed_unforeseen_is_counted() -> None:
    async with bench() as at:
        task = asyncio.create_task(Failing(at.world).run())
        await at.world.clock.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (panics,) = at.world.metrics.controller_runtime_reconcile_panics_total.collect()

    counted = [each.value for each in panics.samples if each.name.endswith("_total")]
    assert [1] == counted


class Ending(Controller):
    """A controller whose keys say how their first step ends."""

    name = "ending"
    workers = 1

    def __init__(self, world: Context) -> None:
        super().__init__(world)
        self._begun: set[str] = set()

    async def reconcile(self, key: str) -> float | None:
        if key in self._begun:
            return None
        self._begun.add(key)
        if key == "requeue":
            raise ConflictError(409, "somebody was faster")
        if key == "error":
            raise ValueError("not today")
        return 3600.0 if key == "requeue_after" else None


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("success", {"success": 1}, id="nothing more to do"),
        pytest.param("requeue_after", {"requeue_after": 1}, id="to be looked at later"),
        pytest.param("requeue", {"requeue": 1, "success": 1}, id="somebody was faster"),
        pytest.param("error", {"error": 1, "success": 1}, id="an error"),
    ],
)
@in_virtual_time
async def test_reconciles_are_counted_by_how_they_ended(key: str, expected: dict[str, int]) -> None:
    async with bench() as at:
        controller = Ending(at.world)
        task = asyncio.create_task(controller.run())
        controller.queue.add(key)
        await at.world.clock.sleep(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (total,) = at.world.metrics.controller_runtime_reconcile_total.collect()

    counted = {
        each.labels["result"]: each.value
        for each in total.samples
        if each.name.endswith("_total") and each.value
    }
    assert expected == counted


@in_virtual_time
async def test_a_key_of_an_object_that_is_gone_calls_for_nothing() -> None:
    """Keys outlive their objects: a timer was set, or a retry is due."""
    everything = gates(**dict.fromkeys(FeatureGates().gates, True))
    async with bench(settings=replace(Settings(), feature_gates=everything)) as at:
        found = [each for each in make_controllers(at.world) if isinstance(each, Controller)]
        waits = {
            each.name: await each.reconcile(
                EvictionKey("", "gone", "u") if isinstance(each, EvictionQueue) else ("", "gone")
            )
            for each in found
        }

    assert dict.fromkeys((each.name for each in found), None) == waits
    assert [] == at.events.reasons


@in_virtual_time
async def test_a_claim_of_another_cloud_is_nobodys_business() -> None:
    foreign = claim(
        stage="Initialized",
        conditions=[condition("Rebooting", "True", "RebootRequested")],
        node_class=("example.com", "OtherClass"),
        expireAfter="1s",
    )
    async with bench(kwok_pool(), foreign, node()) as at:
        await at.clock.sleep(3600)
        before = (at.claim(NAME), at.node("node-1"))
        for each in make_controllers(at.world):
            if isinstance(each, Controller) and each.kind in (NodeClaim, Node):
                name = NAME if each.kind is NodeClaim else "node-1"
                assert await at.reconcile(each, name) is None, each.name

        assert before == (at.claim(NAME), at.node("node-1"))
