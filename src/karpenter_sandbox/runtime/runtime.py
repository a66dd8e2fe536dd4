"""The runtime of the cluster's controllers: shared informers, work queues, one group of tasks.

A controller names the resources it follows and turns a key into the state it should be in. The
runtime shares one mirror per resource, starts the controllers when every mirror has synced, retries
failures with back-off, and stops everything together.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter.kube.workqueue import WorkQueue
from karpenter_sandbox.runtime.api_client import ApiClient
from karpenter_sandbox.runtime.informer import Informer, ObjectKey, key_of
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.errors import NotKeptError

log = logging.getLogger(__name__)

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
# Timeout of the first list of all mirrors, which normally takes under a second
_START_SECONDS: Final = 60.0


class Runnable(Protocol):
    """Anything that works until it is cancelled."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


class Controller:
    """Base of the controllers: a name, a queue, and one step from a key to its desired state.

    A subclass asks for mirrors in ``__init__`` and wires them with ``follow``:

    .. code-block:: python

        class Widgets(Controller):
            name = "widgets"

            def __init__(self, runtime: Runtime) -> None:
                super().__init__(runtime)
                self._widgets = runtime.informer("example.com/v1", "widgets")
                self.follow(self._widgets)

            async def reconcile(self, key: ObjectKey) -> float | None: ...
    """

    name: str = ""
    workers: int = 1
    # Seconds between calls of ``tick``, for work that no change announces
    period: float | None = None

    def __init__(self, runtime: "Runtime") -> None:
        self.runtime: Final = runtime
        self.clock: Final = runtime.clock
        self.queue: Final[WorkQueue[ObjectKey]] = WorkQueue(runtime.clock)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Take one step for ``key``; return seconds after which to look again, if ever."""
        raise NotImplementedError

    async def tick(self) -> None:
        """Do the periodic work; called every ``period`` seconds, first right at the start."""
        raise NotImplementedError

    def follow(
        self,
        informer: Informer,
        keys_of: Callable[[JsonObject], "list[ObjectKey] | tuple[ObjectKey, ...]"] | None = None,
    ) -> None:
        """Queue the keys an object stands for whenever it changes; by default its own key.

        Both the old and the new object are asked, so that a pod that changes owners wakes both.
        """

        def enqueue(old: JsonObject | None, new: JsonObject | None) -> None:
            for obj in (old, new):
                if obj is not None:
                    for key in keys_of(obj) if keys_of else (key_of(obj),):
                        self.queue.add(key)

        informer.on_change(enqueue)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
                if self.period is not None:
                    group.create_task(self._tick(self.period), name=f"{self.name}-tick")
        finally:
            self.queue.clear()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._step(key)
            finally:
                self.queue.done(key)
            # Yield: reads and writes in memory never await
            await asyncio.sleep(0)

    async def _step(self, key: ObjectKey) -> None:
        try:
            again = await self.reconcile(key)
        except ApiError as error:
            seconds = self.queue.retry(key)
            # A conflict is resolved by the retry; a full disk is logged by the journal
            if error.status not in (_CONFLICT, _NOT_FOUND) and not isinstance(error, NotKeptError):
                log.warning("%s: %s: %s; next try in %gs", self.name, _text(key), error, seconds)
        except Exception as error:  # noqa: BLE001 one bad object must not stop the others
            self.runtime.report(f"{self.name}: {_text(key)}", error)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)

    async def _tick(self, period: float) -> None:
        while True:
            try:
                await self.tick()
            except NotKeptError:
                pass  # the journal has logged it
            except ApiError as error:
                log.warning("%s: %s; next try in %gs", self.name, error, period)
            except Exception as error:  # noqa: BLE001 retried in the next round
                self.runtime.report(self.name, error)
            await self.clock.sleep(period)


class Runtime:
    """The runtime that all controllers of one cluster share."""

    def __init__(self, client: ApiClient, clock: Clock, *, is_strict: bool = False) -> None:
        """Make a runtime without controllers.

        Args:
            client: where the mirrors read.
            clock: the clock of the controllers.
            is_strict: an unexpected error ends the run; otherwise it is logged and retried.
        """
        self.clock: Final = clock
        self._client = client
        self._is_strict = is_strict
        self._informers: dict[tuple[str, str], Informer] = {}
        self._controllers: list[Runnable] = []
        self._tasks: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self.started: Final = asyncio.Event()

    def informer(self, api_version: str, resource: str) -> Informer:
        """The shared mirror of a resource."""
        key = (api_version, resource)
        if key not in self._informers:
            if self.started.is_set():
                raise RuntimeError(f"the mirror of {resource} must be asked for before the start")
            self._informers[key] = Informer(self._client, api_version, resource)
        return self._informers[key]

    def add(self, controller: Runnable) -> None:
        """Run ``controller`` once every mirror is filled."""
        self._controllers.append(controller)

    def add_task(self, name: str, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run any coroutine beside the controllers, once every mirror is filled."""
        self._tasks.append((name, task))

    def report(self, where: str, error: Exception) -> None:
        """Log an unexpected error; a strict runtime stops with it."""
        if self._is_strict:
            raise error
        log.error("%s: %s", where, error, exc_info=error)

    async def run(self) -> None:
        """Run mirrors and controllers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run(self.clock), name=f"mirror-{informer.resource}")
            for informer in self._informers.values():
                await self.clock.wait_for(informer.synced.wait(), seconds=_START_SECONDS)
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)
            for name, task in self._tasks:
                group.create_task(task(), name=name)
            self.started.set()


async def ignoring_missing(request: Awaitable[object]) -> None:
    """Await a write; a missing object is no error."""
    try:
        await request
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The owner reference of the controller that manages ``obj``, or None."""
    for reference in obj["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            owner: JsonObject = reference
            return owner
    return None


def controller_uids(obj: JsonObject) -> tuple[str, ...]:
    """The uid of the managing controller, for an index of objects by owner."""
    owner = controller_of(obj)
    return (owner["uid"],) if owner else ()


def _text(key: ObjectKey) -> str:
    return "/".join(part for part in key if part)
