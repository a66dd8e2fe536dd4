"""No error about one object ends the process or a term: whatever raises, pods get their machines.

Every handler of a mirror, every constructor of a controller and every step raises in turn, in ways
nobody foresaw; each is said with a name, counted and tried again.
"""

import asyncio
import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from helpers.autoscaler import MORE_GATES, Autoscaler, autoscaler, deployment, kwok_cloud, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudProvider
from karpenter.controllers import controllers
from karpenter.controllers.context import Context
from karpenter.kube.client import Client
from karpenter.kube.mirror import Mirror
from karpenter.runtime import KeyedController, LoopController, Runnable
from karpenter.settings import Settings

ALL = Settings(feature_gates=MORE_GATES, early_binding=True)
TROUBLES = (RecursionError, OverflowError, KeyError, ValueError, AssertionError, AttributeError)


class Raising:
    """Lets things raise a few times before they work, each time another error."""

    def __init__(self, times: int) -> None:
        self.counts: Counter[str] = Counter()
        self._times = times
        self._troubles = itertools.cycle(TROUBLES)

    def hit(self, name: str) -> None:
        """Raise, if this has not raised often enough."""
        if self.counts[name] < self._times:
            self.counts[name] += 1
            raise next(self._troubles)(f"trouble of {name}")


async def serves(it: Autoscaler, name: str, *, seconds: float = 3600.0) -> None:
    await it.apply(deployment(name, 3))
    await it.until(
        lambda: 3 == sum(pod["metadata"]["name"].startswith(name) for pod in it.running),
        seconds=seconds,
        step=5.0,
    )


def lines_with(it: Autoscaler, text: str) -> list[Any]:
    return [line for line in it.lines if text in str(line)]


@in_virtual_time
async def test_every_handler_may_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    raising, follow = Raising(times=3), Mirror.on_change

    def on_change(mirror: Mirror[Any], handler: Any) -> Callable[[], None]:
        # Handlers of one controller for several kinds are several handlers
        name = f"{handler.__module__}.{handler.__qualname__} of {mirror.kind.__name__}"

        @functools.wraps(handler)
        def hostile(old: Resource | None, new: Resource | None) -> None:
            raising.hit(name)
            handler(old, new)

        return follow(mirror, hostile)

    monkeypatch.setattr(Mirror, "on_change", on_change)
    async with autoscaler(kwok_pool(), deployment("first", 3), settings=ALL) as it:
        it.expects_failures = True
        await serves(it, "web")
        await it.kill()
        it.start()
        await serves(it, "again")

        followed = {name for name in raising.counts if " of Pod" in name}
        assert len(followed) >= 8
        assert sum(raising.counts.values()) == sum(
            sample.value
            for metric in it.metrics.objects_handler_failures_total.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )


@in_virtual_time
async def test_every_constructor_may_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    raising = Raising(times=1)

    for base in (KeyedController, LoopController):
        construct = base.__init__

        def hostile(self: Any, *args: Any, _construct: Any = construct, **options: Any) -> None:
            _construct(self, *args, **options)
            raising.hit(type(self).__name__)

        monkeypatch.setattr(base, "__init__", hostile)
    async with autoscaler(kwok_pool(), settings=ALL) as it:
        it.expects_failures = True
        await serves(it, "web", seconds=24 * 3600.0)

        assert len(raising.counts) >= 20
        # What was made before one that raised follows nothing any more
        followers = sum(it.manager.mirrors.followers().values()) if it.manager else 0
        await it.kill()
        it.start()
        await serves(it, "again")
        assert it.manager is not None
        assert followers == sum(it.manager.mirrors.followers().values())


@in_virtual_time
async def test_every_step_may_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    raising = Raising(times=2)

    def make_controllers(world: Context) -> list[Runnable]:
        made = list(real(world))
        for controller in made:
            for name in ("reconcile", "step"):
                work = getattr(controller, name, None)
                if work is None:
                    continue

                async def hostile(
                    *args: Any, _work: Any = work, _name: str = controller.name
                ) -> Any:
                    raising.hit(_name)
                    return await _work(*args)

                monkeypatch.setattr(controller, name, hostile)
        return made

    real = controllers.make_controllers
    monkeypatch.setattr(controllers, "make_controllers", make_controllers)
    async with autoscaler(kwok_pool(), settings=ALL) as it:
        await serves(it, "web")

        assert len(raising.counts) >= 15
        panics = {
            sample.labels["controller"]
            for metric in it.metrics.controller_runtime_reconcile_panics_total.collect()
            for sample in metric.samples
        }
        assert set(raising.counts) <= panics


@in_virtual_time
async def test_a_controller_that_ends_by_an_error_is_made_anew_within_the_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raising = Raising(times=2)

    class Dying:
        name = "dying"

        async def run(self) -> None:
            raising.hit(self.name)
            await asyncio.Event().wait()

    real = controllers.make_controllers
    monkeypatch.setattr(controllers, "make_controllers", lambda world: [*real(world), Dying()])
    async with autoscaler(kwok_pool()) as it:
        it.expects_failures = True
        await serves(it, "web")

        assert ["karpenter_controllers_failures_total {'controller': 'controllers'}"] == it.guarded
        assert 2 == len(lines_with(it, "controller failed"))


@in_virtual_time
async def test_work_of_a_provider_that_raises_is_begun_anew_and_costs_no_controller() -> None:
    raising = Raising(times=3)

    def make_cloud(kube: Client, clock: Clock, rng: Any) -> CloudProvider:
        cloud = kwok_cloud(kube, clock, rng)
        run = cloud.run

        async def hostile() -> None:
            raising.hit("cloud")
            await run()

        cloud.run = hostile  # type: ignore[method-assign]
        return cloud

    async with autoscaler(kwok_pool(), make_cloud=make_cloud) as it:
        it.expects_failures = True
        await it.until(lambda: it.manager is not None and it.manager.context is not None)
        first = it.world
        await serves(it, "web")

        assert first is it.world
        assert ["karpenter_controllers_failures_total {'controller': 'cloud'}"] == it.guarded
