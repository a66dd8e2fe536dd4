"""How controllers work through their keys: side by side, each key alone, and never too many."""

import asyncio
from collections import Counter

from autoscaler import bench
from clusters import in_virtual_time
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World


class Slow(Controller):
    """A controller whose work takes a second."""

    name = "slow"
    workers = 3

    def __init__(self, world: World, *, fails: str = "") -> None:
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
