"""The controllers of a run: those of ``karpenter controller``, in the time of the cluster."""

import asyncio
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from karpenter.clock import VirtualClock
from karpenter.cloud.metered import MeteredProvider
from karpenter.cloud.provider import CloudProvider
from karpenter.controllers.controllers import make_controllers
from karpenter.controllers.manager import Manager, Process
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.warning_events import observing
from karpenter.kube.client import Client
from karpenter.kube.events import Recorder
from karpenter.kube.limiter import Limiter
from karpenter.kube.transport import Transport
from karpenter.settings import Settings
from karpenter.telemetry import Metrics, quiet_logger
from karpenter.telemetry.capacity import CloudCalls

# Gives the cloud of a process
CloudMaker = Callable[[Client, "OffsetClock"], CloudProvider]


class OffsetClock(VirtualClock):
    """The clock of the controllers, whose time of day may be off."""

    offset = timedelta()

    def now(self) -> datetime:
        """The time of day as the controllers have it."""
        return super().now() + self.offset


class Controllers:
    """One process of controllers after the other, and what they have in common."""

    def __init__(
        self,
        clock: OffsetClock,
        transport: Transport,
        make_cloud: CloudMaker,
        settings: Settings,
        seed: int,
    ) -> None:
        self.settings = settings
        self.decisions: Final = DecisionLog(epoch=f"s{seed}", most=1_000_000)
        self._clock = clock
        self._transport = transport
        self._make_cloud = make_cloud
        self._seed = seed
        self._starts = 0
        self._task: asyncio.Task[None] | None = None
        self._metrics: list[Metrics] = []

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._task is not None

    def start(self) -> None:
        """Start a process, which remembers nothing."""
        if self._task is not None:
            return
        rng = random.Random(f"{self._seed}/{self._starts}")  # noqa: S311 not used for secrets
        self._starts += 1
        settings, clock = self.settings, self._clock
        limiter = None
        if settings.kube_client_qps > 0:
            burst = max(settings.kube_client_burst, 1)
            limiter = Limiter(clock, settings.kube_client_qps, burst)
        kube = Client(self._transport, clock, limiter=limiter)
        metrics = Metrics(detail=settings.metrics_detail)
        self._metrics = [metrics]
        cloud = self._make_cloud(kube, clock)
        process = Process(
            kube=kube,
            cloud=MeteredProvider(cloud, CloudCalls(metrics), clock.monotonic),
            clock=clock,
            settings=settings,
            recorder=Recorder(kube, clock, rng=rng, observer=observing(self.decisions, clock)),
            metrics=metrics,
            log=quiet_logger(),
            rng=rng,
            decisions=self.decisions,
        )
        manager = Manager(process, make_controllers)
        self._task = asyncio.create_task(manager.run(), name="controllers")

    async def kill(self) -> None:
        """End the process without an orderly end, and raise the error that ended it before."""
        task, self._task = self._task, None
        if task is None:
            return
        has_failed = task.done()
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if has_failed and isinstance(outcome, BaseException):
            raise outcome

    def problems(self) -> list[str]:
        """Unexpected errors that guards of the present process have caught."""
        return [
            f"{sample.name} {dict(sample.labels)}"
            for metrics in self._metrics
            for family in (
                metrics.objects_handler_failures_total,
                metrics.controllers_failures_total,
                metrics.objects_set_aside,
            )
            for metric in family.collect()
            for sample in metric.samples
            if not sample.name.endswith("_created") and sample.value
        ]
