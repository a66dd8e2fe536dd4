"""Batches many small requests into few large calls.

A window opens with the first request and closes when no other came for a while, when it has been
open long enough, or when it is full. Requests that cannot share a call have windows of their own.
Cancelling a caller discards its answer, not the call: a call under way is completed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from karpenter.clock import Clock, Timer

Q = TypeVar("Q")  # a request
A = TypeVar("A")  # its answer

MOST_AT_ONCE: Final = 100  # calls of one batcher
_AT_ONCE: Final = 50  # answers


@dataclass(frozen=True, slots=True)
class Window:
    """How long requests are gathered."""

    idle: float
    longest: float
    most: int


CREATE_FLEET: Final = Window(idle=0.035, longest=1.0, most=1000)
DESCRIBE_INSTANCES: Final = Window(idle=0.1, longest=1.0, most=500)
TERMINATE_INSTANCES: Final = Window(idle=0.1, longest=1.0, most=500)

BatchObserver = Callable[[str, int, float], None]  # batcher, requests, seconds the window was open


@dataclass(slots=True)
class _Batch(Generic[Q, A]):
    opened: float
    requests: list[Q] = field(default_factory=list)
    waiting: list[asyncio.Future[A]] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)  # idle, longest


class Batcher(Generic[Q, A]):
    """Gathers requests and hands out the answers."""

    def __init__(
        self,
        name: str,
        window: Window,
        clock: Clock,
        execute: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]],
        observe: BatchObserver | None = None,
    ) -> None:
        """Gather requests for ``execute``, which gives an answer or an error to each, in order."""
        self.name: Final = name
        self._window = window
        self._clock = clock
        self._execute = execute
        self._observe = observe
        self._open: dict[Hashable, _Batch[Q, A]] = {}  # by the ``alike`` of requests
        self._running: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def ask(self, request: Q, alike: Hashable = None) -> A:
        """Get the answer to one request; requests with the same ``alike`` share a call."""
        batch = self._open.get(alike)
        if batch is None:
            batch = self._open[alike] = _Batch(self._clock.monotonic())
            close = self._clock.call_later(self._window.longest, lambda: self._close(alike))
            batch.timers = [close, close]
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        batch.requests.append(request)
        batch.waiting.append(answer)
        if len(batch.requests) >= self._window.most:
            self._close(alike)
        else:
            if batch.timers[0] is not batch.timers[1]:
                batch.timers[0].cancel()
            batch.timers[0] = self._clock.call_later(self._window.idle, lambda: self._close(alike))
        return await answer

    async def finish(self) -> None:
        """Wait until everything that was asked has been answered."""
        while self._open or self._running:
            for alike in list(self._open):
                self._close(alike)
            await asyncio.gather(*self._running, return_exceptions=True)

    def _close(self, alike: Hashable) -> None:
        batch = self._open.pop(alike, None)
        if batch is None:
            return
        for timer in batch.timers:
            timer.cancel()
        if self._observe is not None:
            self._observe(self.name, len(batch.requests), self._clock.monotonic() - batch.opened)
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, batch: _Batch[Q, A]) -> None:
        try:
            await self._hand_out(batch, await self._answers(batch))
        except asyncio.CancelledError:
            for waiting in batch.waiting:
                waiting.cancel()
            raise

    async def _answers(self, batch: _Batch[Q, A]) -> Sequence[A | Exception]:
        try:
            async with self._slots:
                return await self._execute(batch.requests)
        except Exception as error:  # noqa: BLE001 every caller of the batch gets it
            return [error] * len(batch.waiting)

    async def _hand_out(self, batch: _Batch[Q, A], answers: Sequence[A | Exception]) -> None:
        given = zip(batch.waiting, answers, strict=True)
        for count, (waiting, answer) in enumerate(given, start=1):
            if waiting.done():
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
            if count % _AT_ONCE == 0:
                # resuming hundreds of callers in one turn would block the event loop
                await asyncio.sleep(0)
