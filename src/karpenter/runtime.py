"""The runtime of controllers, ours and a provider's: reconcilers of keys, and singleton loops.

A controller moves each key towards its desired state, one step at a time. A failed key is retried
with back-off; a conflict is retried without being logged as a failure. A worker that ends although
every step is guarded is logged, counted and restarted.
"""

import asyncio
import uuid
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol, TypeVar

from structlog.contextvars import bind_contextvars
from structlog.typing import FilteringBoundLogger

from karpenter.api.meta import Resource, kind_of
from karpenter.clock import Clock
from karpenter.cloud.metered import current_controller
from karpenter.cloud.provider import CloudError
from karpenter.kube.client import NotLeadingError
from karpenter.kube.errors import ConflictError, KubeError, NotFoundError
from karpenter.kube.mirror import Mirror, key_of
from karpenter.kube.workqueue import QUICK, Backoff, WorkQueue
from karpenter.telemetry import Metrics

R = TypeVar("R", bound=Resource)
# The back-off of most controllers: a write that fails twice will not succeed immediately
REASONABLE: Final = Backoff(0.1, 60.0)
# The delay before a worker that ended unexpectedly is restarted
PATIENT: Final = Backoff(1.0, 300.0)


class Runnable(Protocol):
    """Anything that works until it is cancelled."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


class KeyedController:
    """Base of the controllers with a work queue of keys, by default ``(namespace, name)``.

    A subclass names the mirrors that wake it with ``follow`` and takes one step in ``reconcile``.
    """

    name: str = ""
    kind: type[Resource] | None = None  # the kind that all keys stand for; None if they differ
    workers: int = 10
    backoff: Backoff = QUICK

    def __init__(self, clock: Clock, log: FilteringBoundLogger, metrics: Metrics) -> None:
        self.clock: Final = clock
        self.log: Final = log.bind(controller=self.name)
        self.metrics: Final = metrics
        self.queue: Final[WorkQueue[Any]] = WorkQueue(clock, self.backoff)
        self.queue.observer = metrics.queue(self.name, self.queue.__len__)
        metrics.controller_runtime_max_concurrent_reconciles.labels(self.name).set(self.workers)
        self._ends: list[Callable[[], None]] = []

    async def reconcile(self, key: Any) -> float | None:
        """Take one step for ``key``; return seconds after which to requeue it, or None."""
        raise NotImplementedError

    def follow(
        self, mirror: Mirror[R], keys_of: Callable[[R], Iterable[Hashable]] | None = None
    ) -> None:
        """Queue the keys an object stands for whenever it changes; by default its own key.

        Keys are taken from both the old and the new object, so that a pod that changes nodes wakes
        both nodes.
        """

        def enqueue(old: R | None, new: R | None) -> None:
            for obj in (old, new):
                if obj is not None:
                    for key in keys_of(obj) if keys_of else (key_of(obj),):
                        self.queue.add(key)

        self._ends.append(mirror.on_change(enqueue))

    async def run(self) -> None:
        """Work until cancelled."""
        current_controller.set(self.name)
        turns = asyncio.Semaphore(self.workers)
        try:
            async with asyncio.TaskGroup() as group:
                # One task per key in work: a pool of a thousand idle workers would all be woken
                while True:
                    await turns.acquire()
                    key = await self.queue.get()
                    group.create_task(self._work(key, turns), name=self.name)
                    # Yield: the reconcile may not have awaited anything
                    await asyncio.sleep(0)
        finally:
            self.queue.clear()
            while self._ends:
                self._ends.pop()()

    async def _work(self, key: Hashable, turns: asyncio.Semaphore) -> None:
        try:
            await self._step(key)
        except Exception as error:  # noqa: BLE001 even logging the error failed
            self.queue.retry(key)
            failed(self.name, error, self.log, self.metrics)
        finally:
            self.queue.done(key)
            turns.release()

    async def _step(self, key: Hashable) -> None:
        bind_contextvars(**context(self.kind, key))
        with self.metrics.reconciling(self.name, self.clock) as outcome:
            try:
                again = await self.reconcile(key)
            except Exception as error:  # noqa: BLE001 one bad object must not stop the others
                outcome.result = "requeue" if is_race(error) else "error"
                delay = getattr(error, "retry_after", None) or 0.0
                seconds = self.queue.retry(key, at_least=delay)
                report(self.log, error, seconds)
                _count_unforeseen(error, self.name, self.metrics)
            else:
                self.queue.forget(key)
                if again is not None:
                    outcome.result = "requeue_after"
                    self.queue.add_after(key, again)


class LoopController:
    """Base of the controllers that are one loop, without keys."""

    name: str = ""
    backoff: Backoff = REASONABLE

    def __init__(self, clock: Clock, log: FilteringBoundLogger, metrics: Metrics) -> None:
        self.clock: Final = clock
        self.log: Final = log.bind(controller=self.name)
        self.metrics: Final = metrics

    async def step(self) -> float:
        """Do one round; return seconds until the next."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled."""
        current_controller.set(self.name)
        failures = 0
        while True:
            seconds = await self._round(failures)
            failures = failures + 1 if seconds is None else 0
            if seconds is None:
                seconds = self.backoff.after(failures - 1)
            # Yield to other tasks even if the loop never waits
            await self.clock.sleep(max(seconds, 0.0))

    async def _round(self, failures: int) -> float | None:
        bind_contextvars(**context(None, ("", "")))
        with self.metrics.reconciling(self.name, self.clock) as outcome:
            try:
                seconds = await self.step()
            except Exception as error:  # noqa: BLE001 retried in the next round
                outcome.result = "requeue" if is_race(error) else "error"
                report(self.log, error, self.backoff.after(failures))
                _count_unforeseen(error, self.name, self.metrics)
                return None
            outcome.result = "requeue_after"
            return seconds


async def kept_running(
    worker: Runnable, clock: Clock, log: FilteringBoundLogger, metrics: Metrics
) -> None:
    """Run a worker until it ends by itself; one that raises is restarted after a delay."""
    failures = 0
    while True:
        began = clock.monotonic()
        try:
            await worker.run()
        except Exception as error:  # noqa: BLE001 other workers must not be affected
            if clock.monotonic() - began > PATIENT.last:
                failures = 0
            seconds = PATIENT.after(failures)
            failures += 1
            failed(worker.name, error, log, metrics, seconds)
        else:
            return
        await clock.sleep(seconds)


def failed(
    name: str, error: Exception, log: Any, metrics: Metrics, seconds: float | None = None
) -> None:
    """Log and count a worker that ended unexpectedly; it is restarted after ``seconds``."""
    cause = first_cause(error)
    metrics.controllers_failures_total.labels(name).inc()
    log.error(
        "controller failed",
        controller=name,
        error=f"{type(cause).__name__}: {cause}",
        retry_in=None if seconds is None else f"{seconds:g}s",
        exc_info=error,
    )


def first_cause(error: BaseException) -> BaseException:
    """What went wrong first in a group of tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_race(error: Exception) -> bool:
    """Whether an error only means that another writer was faster, or that we no longer lead."""
    return isinstance(error, ConflictError | NotFoundError | NotLeadingError)


def is_foreseen(error: Exception) -> bool:
    """Whether an error is one that clouds and API servers are known to give."""
    return isinstance(error, CloudError | KubeError)


def report(log: Any, error: Exception, seconds: float) -> None:
    """Log an error: nothing for a race, a sentence for an expected error, else the traceback."""
    if is_race(error):
        return
    foreseen = is_foreseen(error)
    log.error(
        "reconcile failed",
        error=str(error) if foreseen else f"{type(error).__name__}: {error}",
        retry_in=f"{seconds:g}s",
        exc_info=None if foreseen else error,
    )


def context(kind: type[Resource] | None, key: Hashable) -> dict[str, Any]:
    """The log context of every line that is written while a key is processed."""
    about = _about(key)
    found: dict[str, Any] = {**about, "reconcileID": str(uuid.uuid4())}
    if kind is not None:
        group = kind.api_version.rpartition("/")[0]
        named = {part: text for part, text in about.items() if text}
        found |= {"controllerGroup": group, "controllerKind": kind_of(kind), kind_of(kind): named}
    return found


def _count_unforeseen(error: Exception, controller: str, metrics: Metrics) -> None:
    if not is_foreseen(error):
        metrics.controller_runtime_reconcile_panics_total.labels(controller=controller).inc()


def _about(key: Hashable) -> dict[str, str]:
    """The fields of a log entry that identify the object a key stands for."""
    if isinstance(key, tuple) and len(key) == 2:
        namespace, name = key
        return {"namespace": str(namespace), "name": str(name)}
    return {"name": str(key)}
