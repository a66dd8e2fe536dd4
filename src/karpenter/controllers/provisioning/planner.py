"""One pass: from the state of the cluster to a plan, without blocking the event loop.

Instance types are fetched asynchronously; the plan itself is made in a thread, on an immutable
snapshot.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from karpenter.api.legacy import Provisioner
from karpenter.clock import Clock
from karpenter.cloud.types import InstanceType
from karpenter.controllers.context import Context
from karpenter.controllers.pool_types import PoolTypes
from karpenter.controllers.provisioning.triggers import is_provisionable
from karpenter.disruption.later_passes import may_fit_later, with_later_passes
from karpenter.pass_settings import pass_settings, with_spot_seen
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.inputs.cluster import as_planned, catalogue_of
from karpenter.scheduling.inputs.pools import Pools, sort_out_pools
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.provisioning import (
    Catalogue,
    PassSettings,
    ProvisioningPlan,
    plan_provisioning,
)
from karpenter.state.snapshot import Snapshot

CONTROLLER: Final = "provisioner"
_LONGEST_PLANNING: Final = 60.0
_LONGEST_LOOK_AHEAD: Final = 5.0  # no other pass begins before it ends


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan was made from."""

    snapshot: Snapshot  # with overlays and legacy kinds applied
    catalogue: Catalogue
    now: datetime


@dataclass(frozen=True, slots=True)
class PlannedPass:
    """A plan, what it was made from, and how long that took in seconds."""

    snapshot: Snapshot
    outcome: ProvisioningPlan
    seconds: float
    skipped_pools: frozenset[str]  # because their instance types could not be listed
    question: Question


class ProvisioningPlanner:
    """Makes plans; what was compiled for one is used again for the next."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log
        self._settings = replace(pass_settings(context.settings), static=False)
        self._compiler = Compiler()
        self._passes = 0
        self._types = PoolTypes(context.cloud, self._complain)

    async def plan(self, first: Sequence[str]) -> PlannedPass:
        """Plan for the cluster as it is now; ``first`` are uids of pods to begin with.

        Raises:
            TimeoutError: the cloud did not list its instance types in time.
        """
        context = self._context
        snapshot = context.snapshot()
        types = await self._instance_types(snapshot)
        self._settings = with_spot_seen(self._settings, context.spot_seen)
        watch = _Stopwatch(context.clock, _LONGEST_PLANNING)
        is_legacy = len(context.mirror(Provisioner)) > 0
        self._log.debug("computing scheduling decision for provisionable pod(s)")
        asked = Question(snapshot, catalogue_of(types), context.clock.now())
        try:
            outcome, asked = await asyncio.to_thread(self._planned, asked, watch, first, is_legacy)
        finally:
            # A process that no longer leads stops planning
            watch.is_stopped = True
        seconds = watch.elapsed()
        context.metrics.scheduler_scheduling_duration_seconds.labels(CONTROLLER).observe(seconds)
        skipped = frozenset(pool for pool, listed in types.items() if not listed)
        return PlannedPass(snapshot, outcome, seconds, skipped, asked)

    async def after_later_passes(self, done: PlannedPass) -> PlannedPass:
        """The same pass, which separates pods that a later pass places from those that never fit.

        It takes about as long as the pass itself, so nothing should wait for it.
        """
        if not may_fit_later(done.outcome):
            return done
        watch = _Stopwatch(self._context.clock, _LONGEST_LOOK_AHEAD)
        asked = done.question
        try:
            outcome = await asyncio.to_thread(
                with_later_passes,
                done.outcome,
                asked.snapshot,
                asked.catalogue,
                self._context.cloud.facts,
                self._settings,
                now=asked.now,
                has_time=watch.has_time,
            )
        finally:
            watch.is_stopped = True
        return replace(done, outcome=outcome)

    def _planned(
        self, asked: Question, watch: "_Stopwatch", first: Sequence[str], is_legacy: bool
    ) -> tuple[ProvisioningPlan, Question]:
        """The plan, and the question with the snapshot it was made from."""
        snapshot = asked.snapshot
        waiting = sum(map(is_provisionable, snapshot.unbound_pods.values()))
        if not waiting and not _has_other_work(snapshot, self._settings):
            return ProvisioningPlan(Plan(), (), Pools((), (), ())), asked
        facts = self._context.cloud.facts
        snapshot = as_planned(
            snapshot, facts.name, overlays=self._settings.overlays, is_legacy=is_legacy
        )
        asked = replace(asked, snapshot=snapshot)
        with self._measured(waiting, watch.elapsed):
            outcome = plan_provisioning(
                snapshot,
                asked.catalogue,
                facts,
                self._settings,
                now=asked.now,
                has_time=watch.has_time,
                first=first,
                compiler=self._compiler,
            )
        return outcome, asked

    def _measured(self, waiting: int, elapsed: Callable[[], float]) -> "_Measured":
        self._passes += 1
        return _Measured(self._context, str(self._passes), waiting, elapsed)

    async def _instance_types(self, snapshot: Snapshot) -> Mapping[str, tuple[InstanceType, ...]]:
        facts = self._context.cloud.facts
        pools = sort_out_pools(snapshot.node_pools.values(), snapshot.node_classes, facts).dynamic
        return await self._types.of(pools)

    def _complain(self, pool: str, why: str) -> None:
        self._log.error("skipping nodepool", NodePool={"name": pool}, error=why)


class _Stopwatch:
    """How long a plan has taken, and whether there is time left for it."""

    def __init__(self, clock: Clock, longest: float) -> None:
        self._clock = clock
        self._longest = longest
        self._began = clock.monotonic()
        self.is_stopped = False

    def elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    def has_time(self) -> bool:
        return not self.is_stopped and self.elapsed() < self._longest


class _Measured:
    """The gauges of a simulation, for as long as it runs."""

    def __init__(
        self, context: Context, number: str, waiting: int, elapsed: Callable[[], float]
    ) -> None:
        self._metrics = context.metrics
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


def _has_other_work(snapshot: Snapshot, settings: PassSettings) -> bool:
    """Whether pods other than those that wait for a node have to be planned for."""
    if settings.buffers and snapshot.capacity_buffers:
        return True
    return any(node.is_deleting and node.pods for node in snapshot.nodes)
