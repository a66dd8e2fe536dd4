"""Clocks: real time, accelerated time and virtual time.

A ``Clock`` tells the time and waits. ``SystemClock`` is the wall clock. ``PacedClock`` is the time
of a ``PacedLoop``: it runs faster by a factor, and only while no work is left to do.
``VirtualClock`` is the time of a ``VirtualLoop``: an event loop that never sleeps. Whenever nothing
is ready it moves its time to the next timer, so an hour of waiting takes no time, and the same
program with the same seed runs the same way again.

Code waits through a clock; ``asyncio.sleep`` and ``asyncio.timeout`` ignore the speed. In virtual
time the asyncio functions are right as well, because the loop itself is virtual.
"""

import asyncio
import contextlib
import heapq
import itertools
import random
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The default start of a simulation
EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
# More turns of the loop than any real work takes at one instant
_TURNS_AT_ONE_INSTANT: Final = 20_000_000
# Real seconds: what the system can wait for
_SHORTEST_WAIT: Final = 0.001
# Virtual seconds: no rounding of a number of seconds, not even of years, is as large
_SHORTEST_VIRTUAL_WAIT: Final = 1e-7
# Fewer cancelled timers are not worth a clean-up
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
    """A source of time and waits."""

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


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop with a second time, which passes ``speed`` times as fast as real time.

    It passes only while nothing is left to do: not while a task runs, while tasks are ready to
    run, while a thread works for one, or while other programs keep this one from the processor.
    And it halts at every timer until everything has been done that follows from it. So timers
    fire at exactly the moments and in the order that they have in virtual time, and what happens
    does not depend on how fast the machine is; a slow one only reaches the speed less often.

    Files and the timers of asyncio itself are served in real time meanwhile.
    """

    def __init__(
        self,
        speed: float,
        *,
        start: datetime | None = None,
        selector: selectors.BaseSelector | None = None,
    ) -> None:
        """Make a loop.

        Args:
            speed: how many seconds pass in a real one; above zero.
            start: the time of day it begins at; that of the wall clock where none is given.
            selector: waits for files.
        """
        self.speed: Final = speed
        self._start = (start or datetime.now(UTC)).astimezone(UTC)
        self._passed = 0.0  # seconds of the second time
        self._owed = 0.0  # those that a timer keeps from passing, until it has been seen to
        self._paced_timers: list[_PacedTimer] = []  # a heap
        self._cancelled = 0
        self._order = itertools.count()
        self._jobs = 0  # pieces of work that threads do
        self._outside = selector or selectors.DefaultSelector()
        super().__init__(_Pacing(self._outside, self._wait))

    def paced_seconds(self) -> float:
        """Seconds of the second time since the start."""
        return self._passed

    def now(self) -> datetime:
        """The second time of day."""
        return self._start + timedelta(seconds=self._passed)

    def call_paced(self, seconds: float, callback: Callable[[], object]) -> "Timer":
        """Call ``callback`` after so many seconds of the second time."""
        due = self._passed + max(0.0, seconds)
        timer = _PacedTimer(due, next(self._order), callback, self._forget)
        heapq.heappush(self._paced_timers, timer)
        return timer

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Hand work to a thread; the second time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _future: "asyncio.Future[Any]") -> None:
        self._jobs -= 1

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for files; if there is nothing to do meanwhile, let the second time pass."""
        ready = self._outside.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._jobs:
            return self._outside.select(timeout)
        self._pass()
        if self._fire():
            return ready
        if self._paced_timers:
            # the rest of what is owed was not enough for the first of them
            left = (self._paced_timers[0].due - self._passed) / self.speed
            left = max(left, _SHORTEST_WAIT)
            timeout = left if timeout is None else min(left, timeout)
        began = self.time()
        ready = self._outside.select(timeout)
        waited = self.time() - began
        # even if the system wakes the loop late: a laptop may have been suspended
        self._owed += self.speed * (waited if timeout is None else min(waited, timeout))
        self._pass()
        return ready

    def _pass(self) -> None:
        """Let what is owed pass, up to the next timer."""
        while self._paced_timers and self._paced_timers[0].is_cancelled:
            heapq.heappop(self._paced_timers)
            self._cancelled -= 1
        later = self._passed + self._owed
        if self._paced_timers and self._paced_timers[0].due <= later:
            due = self._paced_timers[0].due
            self._owed = later - due
            self._passed = due
        else:
            self._owed = 0.0
            self._passed = later

    def _fire(self) -> bool:
        """Make the calls that are due, and say whether there are any."""
        has_any = False
        while self._paced_timers and self._paced_timers[0].due <= self._passed:
            timer = heapq.heappop(self._paced_timers)
            if timer.is_cancelled:
                self._cancelled -= 1
                continue
            timer.is_fired = has_any = True
            self.call_soon(timer.run)
        return has_any

    def _forget(self) -> None:
        """Drop cancelled timers when most are: each holds on to what its callback refers to."""
        self._cancelled += 1
        if self._cancelled > _FEW_TIMERS and self._cancelled > len(self._paced_timers) // 2:
            self._paced_timers = [each for each in self._paced_timers if not each.is_cancelled]
            heapq.heapify(self._paced_timers)
            self._cancelled = 0


class _PacedTimer:
    """A call that a paced loop makes; of two for the same moment, the older comes first."""

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

    def __lt__(self, other: "_PacedTimer") -> bool:
        return (self.due, self.order) < (other.due, other.order)

    def run(self) -> None:
        if not self.is_cancelled:  # as late as that it may be
            self._callback()

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            if not self.is_fired:
                self._forget()


class _Pacing(selectors.BaseSelector):
    """Passes on to a selector whatever concerns files, and lets a loop do the waiting."""

    def __init__(
        self,
        files: selectors.BaseSelector,
        wait: Callable[[float | None], list[tuple[selectors.SelectorKey, int]]],
    ) -> None:
        self._files = files
        self._wait = wait

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self._wait(timeout)

    def close(self) -> None:
        self._files.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files.get_map()


class PacedClock:
    """The second time of a paced loop."""

    def __init__(self, loop: PacedLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return self._loop.now()

    def monotonic(self) -> float:
        return self._loop.paced_seconds()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self.call_later(seconds, lambda: _settle(woken))
        try:
            await woken
        finally:
            timer.cancel()

    async def wait(self, event: asyncio.Event, *, seconds: float) -> bool:
        if not event.is_set():
            with contextlib.suppress(TimeoutError):
                await self.wait_for(event.wait(), seconds=seconds)
        return event.is_set()

    async def wait_for(self, awaitable: Awaitable[T], *, seconds: float) -> T:
        async with asyncio.timeout(None) as limit:
            timer = self.call_later(seconds, lambda: limit.reschedule(self._loop.time()))
            try:
                return await awaitable
            finally:
                timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_paced(seconds, callback)


def _settle(woken: "asyncio.Future[None]") -> None:
    if not woken.done():  # it may have been cancelled in this very turn
        woken.set_result(None)


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

    Nothing outside the process can be waited for. Work handed to threads is done at once, in the
    loop's own thread, because a second thread would finish at a moment that is not reproducible.
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

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after a delay, in which time passes however short it is.

        Added to a large number of seconds, a tiny delay is rounded to nothing. Real time would have
        passed it by then; this one would stand still, and a caller that waits for the rest of some
        time would be called at once for ever.
        """
        if delay > 0:
            delay = max(delay, _SHORTEST_VIRTUAL_WAIT)
        return super().call_later(delay, callback, *args, context=context)

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
        except Exception as error:  # noqa: BLE001 raised where the work is awaited
            future.set_exception(error)
        return future

    def _move(self, seconds: float | None) -> None:
        """Advance time by ``seconds``, in which no task is ready."""
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
    """The clock of the running loop: its own, if it has one, else the wall clock."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, PacedLoop):
        return PacedClock(loop)
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
