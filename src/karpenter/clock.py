"""Time, as everything that waits sees it: real, faster than real, or simulated.

A ``Clock`` tells the time and waits. ``SystemClock`` is the wall clock. ``ScaledClock`` runs faster,
on a ``PacedLoop`` only while nothing is left to do. ``VirtualClock`` is the time of a
``VirtualLoop``: an event loop that never sleeps. Whenever nothing is ready it moves its time to the next timer, so an hour of waiting
takes no time, and the same program with the same seed runs the same way again.

Whoever waits does it through a clock; ``asyncio.sleep`` and ``asyncio.timeout`` know nothing of a
speed. In virtual time the asyncio functions are right as well, because the loop itself is virtual.
"""

import asyncio
import contextlib
import heapq
import itertools
import random
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# When nothing says when a simulation begins
EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
# More turns of the loop than any real work takes at one instant
_TURNS_AT_ONE_INSTANT: Final = 20_000_000
# Scaled seconds that rounding may take from a timer
_SAME_MOMENT: Final = 1e-6
# Real seconds: a clock that stands still is asked again, but not all the time
_SHORTEST_ALARM: Final = 0.001
# So many cancelled timers are not worth looking for
_FEW_TIMERS: Final = 100


class VirtualTimeError(RuntimeError):
    """A program asked virtual time for something it cannot give.

    * VirtualTimeError
      x DeadlockError     every task waits and no timer is set
      x StandstillError   tasks wake each other for ever without letting time pass
      x RealWaitError     a task wants to wait for a socket or a pipe
    """


class DeadlockError(VirtualTimeError):
    def __init__(self, at: datetime) -> None:
        super().__init__(f"every task waits and no timer is set, so time ends at {at.isoformat()}")


class StandstillError(VirtualTimeError):
    def __init__(self, at: datetime) -> None:
        super().__init__(f"tasks keep waking each other and time stands still at {at.isoformat()}")


class RealWaitError(VirtualTimeError):
    def __init__(self) -> None:
        super().__init__("virtual time cannot wait for sockets or pipes; use a real clock")


class Clock(Protocol):
    """What tells the time and waits."""

    def now(self) -> datetime:
        """The time of day in UTC."""

    def monotonic(self) -> float:
        """Seconds that only grow, from an arbitrary start."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def wait(self, event: asyncio.Event, *, seconds: float) -> bool:
        """Wait for ``event`` at most so long, and say whether it is set."""

    async def wait_for(self, awaitable: Awaitable[T], *, seconds: float) -> T:
        """Wait for a result at most so long.

        Raises:
            TimeoutError: there was no result in time; the work has been cancelled.
        """

    def call_later(self, seconds: float, callback: Callable[[], object]) -> "Timer":
        """Call ``callback`` after a while, unless the returned timer is cancelled."""


class Timer(Protocol):
    """A call that has not been made yet."""

    def cancel(self) -> None:
        """Keep it from being made."""


class ScaledClock:
    """Time that passes ``speed`` times as fast as some other, from the moment this clock is made.

    That other time is the wall clock's, or that of a ``PacedLoop``. The second may stand still
    while timers of the event loop fire, so a timer that fires early is set again.
    """

    def __init__(
        self,
        speed: float,
        *,
        start: datetime | None = None,
        seconds: Callable[[], float] | None = None,
    ) -> None:
        """Make a clock.

        Args:
            speed: how many seconds pass in one of the other time.
            start: the time of day it begins at; that of the wall clock where none is given.
            seconds: tells the other time; the wall clock where none is given.
        """
        if not 0 < speed < float("inf"):
            raise ValueError(f"the speed of a clock is above zero, not {speed}")
        self.speed: Final = speed
        self._seconds = seconds or time.monotonic
        self._began = self._seconds()
        self._start = start or datetime.now(UTC)
        self._timers: list[_ScaledTimer] = []  # a heap
        self._cancelled = 0
        self._order = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None  # for the first of the timers

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (self._seconds() - self._began) * self.speed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self.wait(asyncio.Event(), seconds=seconds)

    async def wait(self, event: asyncio.Event, *, seconds: float) -> bool:
        if not event.is_set():
            with contextlib.suppress(TimeoutError):
                await self.wait_for(event.wait(), seconds=seconds)
        return event.is_set()

    async def wait_for(self, awaitable: Awaitable[T], *, seconds: float) -> T:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as limit:
            timer = self.call_later(seconds, lambda: limit.reschedule(loop.time()))
            try:
                return await awaitable
            finally:
                timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        due = self.monotonic() + seconds
        timer = _ScaledTimer(due, next(self._order), callback, self._forget)
        heapq.heappush(self._timers, timer)
        if self._timers[0] is timer:
            self._set_alarm()
        return timer

    def _set_alarm(self) -> None:
        """Wake when the first timer is due; once for all timers, however many there are."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timers:
            left = (self._timers[0].due - self.monotonic()) / self.speed
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(left, _SHORTEST_ALARM), self._fire)

    def _fire(self) -> None:
        now = self.monotonic() + _SAME_MOMENT
        loop = asyncio.get_running_loop()
        while self._timers and self._timers[0].due <= now:
            timer = heapq.heappop(self._timers)
            if timer.is_cancelled:
                self._cancelled -= 1
            else:
                timer.is_fired = True
                loop.call_soon(timer.run)
        self._set_alarm()

    def _forget(self) -> None:
        """Drop cancelled timers when most are: each holds on to what its callback refers to."""
        self._cancelled += 1
        if self._cancelled > _FEW_TIMERS and self._cancelled > len(self._timers) // 2:
            self._timers = [timer for timer in self._timers if not timer.is_cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0


class _ScaledTimer:
    """A call that a scaled clock makes; of two for the same moment, the older comes first."""

    __slots__ = ("_callback", "_forget", "due", "is_cancelled", "is_fired", "order")

    def __init__(
        self,
        due: float,
        order: int,
        callback: Callable[[], object],
        forget: Callable[[], None],
    ) -> None:
        self.due = due
        self.order = order
        self._callback = callback
        self.is_cancelled = False
        self.is_fired = False
        self._forget = forget

    def __lt__(self, other: "_ScaledTimer") -> bool:
        return (self.due, self.order) < (other.due, other.order)

    def run(self) -> None:
        if not self.is_cancelled:  # as late as that it may be
            self._callback()

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            if not self.is_fired:
                self._forget()


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop that knows how long it has had nothing to do.

    A scaled clock that goes by ``idle_seconds`` stands still while a task runs, while tasks are
    ready to run, while a thread works for one, and while other programs keep this one from the
    processor. So what happens in a cluster at 60 times the speed does not depend on how fast the
    machine is; a slow machine only reaches that speed less often.
    """

    def __init__(self) -> None:
        self._idle = 0.0
        self._jobs = 0  # pieces of work that threads do
        super().__init__(_Waiting(self._waited))

    def idle_seconds(self) -> float:
        """Seconds in which nothing was to be done."""
        return self._idle

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Hand work to a thread; time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _future: "asyncio.Future[Any]") -> None:
        self._jobs -= 1

    def _waited(self, seconds: float) -> None:
        if not self._jobs:
            self._idle += seconds


class _Waiting(selectors.DefaultSelector):
    """Waits for files, and tells how long it meant to: not how late the system woke it."""

    def __init__(self, waited: Callable[[float], None]) -> None:
        super().__init__()
        self._waited = waited

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        ready = super().select(timeout)
        passed = time.monotonic() - began
        self._waited(passed if timeout is None else min(passed, timeout))
        return ready


class SystemClock:
    """The wall clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, *, seconds: float) -> bool:
        return await _wait(event, seconds)

    async def wait_for(self, awaitable: Awaitable[T], *, seconds: float) -> T:
        async with asyncio.timeout(seconds):
            return await awaitable

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback)


class VirtualClock(SystemClock):
    """The time of a virtual loop; its waits are the loop's own."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def now(self) -> datetime:
        return self._loop.now()

    def monotonic(self) -> float:
        return self._loop.time()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time moves to the next timer whenever nothing is ready.

    Nothing outside the process can be waited for. Work handed to threads is done at once, in
    the loop's own thread, because a second thread would finish at a moment nobody can repeat.
    """

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start.astimezone(UTC)
        self._passed = 0.0  # virtual seconds since the start
        self._turns = 0  # turns of the loop since time last moved
        self._timers = _Timers(self._move)
        super().__init__(self._timers)
        self._timers.is_sealed = True  # what the loop itself needs is in place now

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._passed

    def now(self) -> datetime:
        """The virtual time of day."""
        return self._start + timedelta(seconds=self._passed)

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Do the work now and return its result as a future that is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 it belongs to whoever awaits the work
            future.set_exception(error)
        return future

    def _move(self, seconds: float | None) -> None:
        """Let ``seconds`` pass, which nobody has anything to do in."""
        if seconds is None:
            raise DeadlockError(self.now())
        if seconds > 0:
            self._passed += seconds
            self._turns = 0
            return
        self._turns += 1
        if self._turns > _TURNS_AT_ONE_INSTANT:
            raise StandstillError(self.now())


class _Timers(selectors.SelectSelector):
    """In place of waiting for files: passes on how long the loop would have waited."""

    def __init__(self, move: Callable[[float | None], None]) -> None:
        super().__init__()
        self.is_sealed = False
        self._move = move

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.is_sealed:
            raise RealWaitError
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._move(timeout)
        return []


def running_clock() -> Clock:
    """The clock of the running loop: virtual in virtual time, else the wall clock."""
    loop = asyncio.get_running_loop()
    return VirtualClock(loop) if isinstance(loop, VirtualLoop) else SystemClock()


def run_virtual(main: Coroutine[Any, Any, T], *, start: datetime = EPOCH, seed: int | str = 0) -> T:
    """Run a program from beginning to end in virtual time and return its result.

    Inside, ``running_clock()`` is the clock. The ``random`` module is seeded for the run and put
    back as it was afterwards.

    Raises:
        DeadlockError: every task waits and no timer is set.
        RealWaitError: a task wants to wait for a socket or a pipe.
    """
    if start.tzinfo is None:
        raise ValueError("the start of virtual time needs a time zone")
    with _seeded(seed), asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(main)


@contextlib.contextmanager
def _seeded(seed: int | str) -> Iterator[None]:
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    if not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
    return event.is_set()
