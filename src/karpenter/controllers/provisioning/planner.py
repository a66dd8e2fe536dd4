"""One pass: from the state of the cluster to a plan, without holding up anything else.

What instance types there are is asked while others work; the plan itself is made in a thread, from
a snapshot that never changes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from karpenter.admission.runtime import runtime_findings
from karpenter.api.codec import to_plain
from karpenter.api.karpenter import NodeOverlay, NodePool
from karpenter.api.legacy import Provisioner
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType
from karpenter.controllers.legacy.old_keys import in_current_keys
from karpenter.controllers.provisioning.triggers import is_provisionable
from karpenter.controllers.world import World
from karpenter.pass_settings import pass_settings
from karpenter.scheduling.compiler import Compiler
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.pools import Pools, sort_out_pools
from karpenter.scheduling.provisioning import PassSettings, ProvisioningPlan, plan_provisioning
from karpenter.state.snapshot import Snapshot

CONTROLLER: Final = "provisioner"
_LONGEST_PLANNING: Final = 60.0
_NO_TYPES: Final[tuple[InstanceType, ...]] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A plan, what it was made from, and how long that took in seconds."""

    snapshot: Snapshot
    outcome: ProvisioningPlan
    seconds: float
    skipped_pools: frozenset[str]  # because their instance types could not be had


class Planner:
    """Makes plans; what was compiled for one is used again for the next."""

    def __init__(self, world: World, log: Any) -> None:
        self._world = world
        self._log = log
        self._settings: Final = replace(pass_settings(world.settings), static=False)
        self._compiler = Compiler()
        self._passes = 0
        self._complaints: dict[str, str] = {}  # pool -> why its types could not be had

    async def plan(self, first: Sequence[str]) -> Pass:
        """Plan for the cluster as it is now; ``first`` are uids of pods to begin with.

        Raises:
            TimeoutError: the cloud did not say in time what it sells.
        """
        world = self._world
        snapshot = world.state.snapshot()
        types = await self._instance_types(snapshot)
        watch = _Stopwatch(world.clock)
        is_legacy = len(world.mirror(Provisioner)) > 0
        self._log.debug("computing scheduling decision for provisionable pod(s)")
        try:
            outcome = await asyncio.to_thread(
                self._planned, snapshot, types, world.clock.now(), watch, first, is_legacy
            )
        finally:
            # A process that no longer leads does not go on thinking
            watch.is_stopped = True
        seconds = watch.elapsed()
        world.metrics.scheduler_scheduling_duration_seconds.labels(CONTROLLER).observe(seconds)
        skipped = frozenset(pool for pool, listed in types.items() if not listed)
        return Pass(snapshot, outcome, seconds, skipped)

    def _planned(
        self,
        snapshot: Snapshot,
        types: Mapping[str, tuple[InstanceType, ...]],
        now: datetime,
        watch: "_Stopwatch",
        first: Sequence[str],
        is_legacy: bool,
    ) -> ProvisioningPlan:
        waiting = sum(map(is_provisionable, snapshot.unbound_pods.values()))
        if not waiting and not _has_other_work(snapshot, self._settings):
            return ProvisioningPlan(Plan(), (), Pools((), (), ()))
        facts = self._world.cloud.facts
        if is_legacy:
            snapshot = in_current_keys(snapshot)
        if self._settings.overlays:
            usable = usable_overlays(snapshot.node_overlays, facts.name)
            snapshot = replace(snapshot, node_overlays=usable)
        with self._measured(waiting, watch.elapsed):
            return plan_provisioning(
                snapshot,
                lambda pool: types.get(pool.metadata.name, _NO_TYPES),
                facts,
                self._settings,
                now=now,
                has_time=watch.has_time,
                first=first,
                compiler=self._compiler,
            )

    def _measured(self, waiting: int, elapsed: Callable[[], float]) -> "_Measured":
        self._passes += 1
        return _Measured(self._world, str(self._passes), waiting, elapsed)

    async def _instance_types(self, snapshot: Snapshot) -> Mapping[str, tuple[InstanceType, ...]]:
        facts = self._world.cloud.facts
        pools = sort_out_pools(snapshot.node_pools.values(), snapshot.node_classes, facts).dynamic
        listed = await asyncio.gather(*map(self._types_of, pools))
        names = [pool.metadata.name for pool in pools]
        return dict(zip(names, listed, strict=True))

    async def _types_of(self, pool: NodePool) -> tuple[InstanceType, ...]:
        name = pool.metadata.name
        try:
            types = await self._world.cloud.instance_types(pool)
        except CloudError as error:
            self._complain(name, str(error))
            return _NO_TYPES
        if types:
            self._complaints.pop(name, None)
        else:
            self._complain(name, "the provider has no instance types for it")
        return types

    def _complain(self, pool: str, why: str) -> None:
        if self._complaints.get(pool) != why:
            self._complaints[pool] = why
            self._log.error("skipping nodepool", NodePool={"name": pool}, error=why)


class _Stopwatch:
    """How long a plan has taken, and whether there is time left for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self.is_stopped = False

    def elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    def has_time(self) -> bool:
        return not self.is_stopped and self.elapsed() < _LONGEST_PLANNING


class _Measured:
    """The gauges of a simulation, for as long as it runs."""

    def __init__(
        self, world: World, number: str, waiting: int, elapsed: Callable[[], float]
    ) -> None:
        self._metrics = world.metrics
        self._labels = (CONTROLLER, number)
        self._waiting = waiting
        self._elapsed = elapsed

    def __enter__(self) -> None:
        self._metrics.scheduler_queue_depth.labels(*self._labels).set(self._waiting)
        unfinished = self._metrics.scheduler_unfinished_work_seconds.labels(*self._labels)
        unfinished.set_function(self._elapsed)

    def __exit__(self, *_: object) -> None:
        self._metrics.scheduler_queue_depth.remove(*self._labels)
        self._metrics.scheduler_unfinished_work_seconds.remove(*self._labels)


def usable_overlays(
    overlays: Mapping[str, NodeOverlay], provider: str
) -> Mapping[str, NodeOverlay]:
    """The overlays whose requirements make sense; others apply nowhere."""
    return {name: each for name, each in overlays.items() if not overlay_problem(each, provider)}


def overlay_problem(overlay: NodeOverlay, provider: str) -> str:
    """What is wrong with an overlay by itself, or nothing."""
    errors = runtime_findings(to_plain(overlay), provider=provider).errors
    return "; ".join(map(str, errors))


def _has_other_work(snapshot: Snapshot, settings: PassSettings) -> bool:
    """Whether pods other than those that wait for a node have to be planned for."""
    if settings.buffers and snapshot.capacity_buffers:
        return True
    return any(node.is_deleting and node.pods for node in snapshot.nodes)
