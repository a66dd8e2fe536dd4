"""One process: mirrors and event recording always run, controllers only while it leads.

A term of leadership begins with a context made from the mirrors and ends with everything that
acts being cancelled; nothing but the API server carries over from one term to the next. A process
that loses its lease stops acting at once and takes part in the election again.

Only the loss of the lease ends a term: errors of steps, handlers and workers are caught one by one,
and if all controllers have to be recreated, that happens within the term.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from structlog.typing import FilteringBoundLogger

from karpenter.clock import Clock
from karpenter.cloud.provider import CloudProvider
from karpenter.controllers.context import Context
from karpenter.controllers.mirrors import Mirrors, kinds_to_follow
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.client import Kube
from karpenter.kube.events import Recorder
from karpenter.runtime import Runnable, kept_running
from karpenter.settings import Settings
from karpenter.telemetry import Metrics

# How long the first lists may take before the process gives up
_SYNC_SECONDS: Final = 120.0


class NotSyncedError(Exception):
    """The API server did not show everything the controllers need; the text is one sentence."""


class Elections(Protocol):
    """Leader election, as the manager uses it."""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Call ``lead`` whenever this process leads, and cancel it when it no longer does."""


@dataclass(frozen=True, slots=True)
class Process:
    """The parts of a process that outlive a term of leadership."""

    kube: Kube
    cloud: CloudProvider
    clock: Clock
    settings: Settings
    recorder: Recorder
    metrics: Metrics
    log: FilteringBoundLogger
    rng: random.Random
    decisions: DecisionLog = field(default_factory=DecisionLog)


class Manager:
    """Runs the controllers of one process."""

    def __init__(
        self,
        process: Process,
        make_controllers: Callable[[Context], Sequence[Runnable]],
        elections: Elections | None = None,
    ) -> None:
        """Make a manager.

        Args:
            process: what there is to work with.
            make_controllers: gives the controllers of a term.
            elections: none for a process that always leads.
        """
        self.process: Final = process
        self._make_controllers = make_controllers
        self._elections = elections
        node_classes = process.cloud.facts.readable_node_classes
        required, optional = kinds_to_follow(process.settings, node_classes)
        self.mirrors: Final = Mirrors(
            process.kube,
            process.clock,
            required,
            optional,
            rng=process.rng,
            observer=process.metrics,
        )
        self.context: Context | None = None  # of the present term
        self.leading: Final = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            NotSyncedError: the API server did not show all kinds in time.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self.mirrors.run(), name="mirrors")
            group.create_task(self.process.recorder.run(), name="events")
            group.create_task(self._work(), name="terms")

    async def _work(self) -> None:
        try:
            await self.process.clock.wait_for(self.mirrors.synced(), seconds=_SYNC_SECONDS)
        except TimeoutError:
            missing = ", ".join(self.mirrors.missing)
            raise NotSyncedError(
                f"the API server did not list {missing} within {_SYNC_SECONDS:.0f} s;"
                " check that the CRDs are installed and that the service account may read them"
            ) from None
        if self._elections is None:
            await self._term()
        else:
            await self._elections.run(self._term)

    async def _term(self) -> None:
        """Run controllers for one term; after an error, create new ones in the same term."""
        process = self.process
        controllers = _Controllers(self._act)
        await kept_running(controllers, process.clock, process.log, process.metrics)

    async def _act(self) -> None:
        process = self.process
        followers = self.mirrors.followers()
        context = Context(
            kube=process.kube,
            cloud=process.cloud,
            clock=process.clock,
            settings=process.settings,
            mirrors=self.mirrors,
            recorder=process.recorder,
            metrics=process.metrics,
            log=process.log,
            rng=process.rng,
            decisions=process.decisions,
        )
        try:
            context.begin()
            self.context = context
            self.leading.set()
            made = self._make_controllers(context)
            cloud = _Cloud(process.cloud.run)
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    kept_running(cloud, process.clock, process.log, process.metrics), name="cloud"
                )
                for controller in made:
                    group.create_task(controller.run(), name=controller.name)
        finally:
            self.leading.clear()
            self.context = None
            context.end()
            # Of controllers that never ran because the creation of another one failed
            self.mirrors.forget_followers(followers)


@dataclass(frozen=True, slots=True)
class _Cloud:
    """What a provider does by itself."""

    run: Callable[[], Coroutine[Any, Any, None]]
    name: str = "cloud"


@dataclass(frozen=True, slots=True)
class _Controllers:
    """All controllers of a term, and the context they share."""

    run: Callable[[], Coroutine[Any, Any, None]]
    name: str = "controllers"
