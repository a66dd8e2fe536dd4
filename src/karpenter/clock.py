"""Clocks: real time, accelerated time and virtual time.

A ``Clock`` reads the time and waits. ``SystemClock`` is the wall clock. ``PacedClock`` is the time
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
import inspect
import itertools
import random
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The default start of a simulation
EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
# Virtual time and moves to the next timer after which a program is taken never to end: a test that
# waits for something that never happens, while others wake up regularly, would run for ever
LONGEST_RUN: Final = timedelta(days=100)
MOST_MOVES: Final = 1_000_000
# Iterations of the loop at one instant, after which tasks are taken to wake each other for ever
_TURNS_AT_ONE_INSTANT: Final = 20_000_000
# Tasks that an error names
_TASKS_NAMED: Final = 5
_MAIN: Final = "main"
_HERE: Final = Path(__file__)
_ASYNCIO: Final = Path(asyncio.__file__).parent
# Real seconds: the resolution of the selector's timeout
_SHORTEST_WAIT: Final = 0.001
# Virtual seconds: above the rounding error of a float that counts seconds over years
_SHORTEST_VIRTUAL_WAIT: Final = 1e-7
# Below this number of cancelled timers, the heap is not rebuilt
_FEW_TIMERS: Final = 100


class VirtualTimeError(RuntimeError):
    """A program asked virtual time for something it cannot give.

    * VirtualTimeError
      x DeadlockError     every task waits and no timer is set
      x StandstillError   tasks wake each other for ever without letting time pass
      x EndlessError      the program is still waiting after the limits of the run
      x RealWaitError     a task wants to wait for a socket or a pipe
    """


class DeadlockError(VirtualTimeError):
    def __init__(self, at: datetime, waiting: str) -> None:
        super().__init__(
            f"every task waits and no timer is set, so time ends at {at.isoformat()}: {waiting}"
        )


class StandstillError(VirtualTimeError):
    def __init__(self, at: datetime, waiting: str) -> None:
        super().__init__(
            f"tasks keep waking each other and time stands still at {at.isoformat()}: {waiting}"
        )


class EndlessError(VirtualTimeError):
    def __init__(self, at: datetime, moves: int, waiting: str) -> None:
        super().__init__(
            f"the program has not ended at {at.isoformat()}, after {moves} moves to the next timer,"
            f" so it may never end (run_virtual takes other limits): {waiting}"
        )


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
        """Wait for ``event`` at most ``seconds``; return whether it is set."""

    async def wait_for(self, awaitable: Awaitable[T], *, seconds: float) -> T:
        """Wait for a result at most ``seconds``.

        Raises:
            TimeoutError: there was no result in time; the work has been cancelled.
        """

    def call_later(self, seconds: float, callback: Callable[[], object]) -> "Timer":
        """Call ``callback`` after a while, unless the returned timer is cancelled."""


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Prevent the call; without effect after it was made."""


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop with a second time, the paced time, ``speed`` times as fast as real time.

    Paced time passes only while the loop is idle in its selector: not while a task runs, while
    tasks are ready to run, while a thread works for one, or while other programs hold the CPU.
    And it halts at every timer until all work that the timer starts is done. So timers fire at
    exactly the moments and in the order that they have in virtual time, and the outcome does not
    depend on how fast the machine is; a slow one only reaches the speed less often.

    File descriptors and the timers of asyncio itself are served in real time meanwhile.
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
            speed: seconds of paced time per real second; above zero.
            start: the time of day it begins at; by default that of the wall clock.
            selector: waits for file descriptors.
        """
        self.speed: Final = speed
        self._start = (start or datetime.now(UTC)).astimezone(UTC)
        self._passed = 0.0  # seconds of paced time
        self._owed = 0.0  # seconds that have elapsed beyond a timer that has not fired yet
        self._paced_timers: list[_PacedTimer] = []  # a heap
        self._cancelled = 0
        self._order = itertools.count()
        self._jobs = 0  # calls that run in the executor
        self._outside = selector or selectors.DefaultSelector()
        super().__init__(_Pacing(self._outside, self._wait))

    def paced_seconds(self) -> float:
        """Seconds of paced time since the start."""
        return self._passed

    def now(self) -> datetime:
        """The paced time of day."""
        return self._start + timedelta(seconds=self._passed)

    def call_paced(self, seconds: float, callback: Callable[[], object]) -> "Timer":
        """Call ``callback`` after ``seconds`` of paced time."""
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
        """Hand work to a thread; paced time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _future: "asyncio.Future[Any]") -> None:
        self._jobs -= 1

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for file descriptors; while the loop is idle, let paced time pass."""
        ready = self._outside.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._jobs:
            return self._outside.select(timeout)
        self._pass()
        if self._fire():
            return ready
        if self._paced_timers:
            # ``_pass`` has used up what was owed without reaching the first timer
            left = (self._paced_timers[0].due - self._passed) / self.speed
            left = max(left, _SHORTEST_WAIT)
            timeout = left if timeout is None else min(left, timeout)
        began = self.time()
        ready = self._outside.select(timeout)
        waited = self.time() - began
        # No more than the timeout, even if the system wakes the loop late (a suspended laptop)
        self._owed += self.speed * (waited if timeout is None else min(waited, timeout))
        self._pass()
        return ready

    def _pass(self) -> None:
        """Advance paced time by what is owed, up to the next timer."""
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
        """Schedule the calls that are due; return whether there are any."""
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
        """Rebuild the heap when most timers are cancelled: they keep their callbacks alive."""
        self._cancelled += 1
        if self._cancelled > _FEW_TIMERS and self._cancelled > len(self._paced_timers) // 2:
            self._paced_timers = [each for each in self._paced_timers if not each.is_cancelled]
            heapq.heapify(self._paced_timers)
            self._cancelled = 0


class _PacedTimer:
    """A call that a paced loop makes; timers for one moment fire in the order they were set."""

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
        if not self.is_cancelled:  # possibly between being scheduled and being run
            self._callback()

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            if not self.is_fired:
                self._forget()


class _Pacing(selectors.BaseSelector):
    """Delegates registration to a selector, and ``select`` to the loop."""

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
    """The paced time of a ``PacedLoop``."""

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
    if not woken.done():  # it may have been cancelled in the same iteration of the loop
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

    def __init__(
        self,
        start: datetime = EPOCH,
        *,
        longest: timedelta = LONGEST_RUN,
        most_moves: int = MOST_MOVES,
    ) -> None:
        self._start = start.astimezone(UTC)
        self._longest = longest.total_seconds()
        self._most_moves = most_moves
        self._moves = 0
        self._passed = 0.0  # virtual seconds since the start
        self._turns = 0  # iterations of the loop since time last moved
        self.thinking = 0.0  # virtual seconds that work handed to a thread takes
        self._timers = _Timers(self._move)
        super().__init__(self._timers)
        self._timers.is_sealed = True  # the loop's own self-pipe is registered; refuse all others

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
        """Call back after a delay that advances time, however short it is.

        Added to a large float, a tiny delay is rounded to nothing. Virtual time would then stand
        still, and a caller that waits for the remainder of an interval would loop for ever.
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
        """Do the work now; its result is there at once, or after ``thinking``."""
        future: asyncio.Future[T] = self.create_future()
        try:
            settle: Callable[[], None] = partial(future.set_result, func(*args))
        except Exception as error:  # noqa: BLE001 raised where the work is awaited
            settle = partial(future.set_exception, error)
        if self.thinking > 0:
            self.call_later(self.thinking, _unless_done, future, settle)
        else:
            settle()
        return future

    def _move(self, seconds: float | None) -> None:
        """Advance time by ``seconds``, the loop's timeout until its next timer."""
        if seconds is None:
            raise DeadlockError(self.now(), _waiting(self))
        if seconds > 0:
            if self._passed > self._longest or self._moves >= self._most_moves:
                raise EndlessError(self.now(), self._moves, _waiting(self))
            self._passed += seconds
            self._moves += 1
            self._turns = 0
            return
        self._turns += 1
        if self._turns > _TURNS_AT_ONE_INSTANT:
            raise StandstillError(self.now(), _waiting(self))


def _unless_done(future: asyncio.Future[Any], settle: Callable[[], None]) -> None:
    """Settle a future, unless its waiter has given up."""
    if not future.done():
        settle()


class _Timers(selectors.SelectSelector):
    """A selector that, instead of waiting, reports the loop's timeout to ``move``."""

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


def run_virtual(
    main: Coroutine[Any, Any, T],
    *,
    start: datetime = EPOCH,
    seed: int | str = 0,
    longest: timedelta = LONGEST_RUN,
    most_moves: int = MOST_MOVES,
) -> T:
    """Run a program from beginning to end in virtual time and return its result.

    Inside, ``running_clock()`` is the clock. The ``random`` module is seeded for the run, and its
    state is restored afterwards.

    Args:
        main: the program.
        start: the time of day it begins at.
        seed: of the ``random`` module.
        longest: the virtual time after which it is taken never to end.
        most_moves: the moves of time to the next timer after which it is taken never to end.

    Raises:
        DeadlockError: every task waits and no timer is set.
        EndlessError: it goes on beyond a limit.
        RealWaitError: a task wants to wait for a socket or a pipe.
    """
    if start.tzinfo is None:
        raise ValueError("the start of virtual time needs a time zone")

    def loop() -> VirtualLoop:
        return VirtualLoop(start, longest=longest, most_moves=most_moves)

    with _seeded(seed), asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(_named(main))


async def _named(main: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    task.set_name(_MAIN)
    return await main


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    """What the tasks of a loop wait in, the program's own first."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda each: (each.get_name() != _MAIN, str(each)))
    named = ", ".join(f"{each.get_name()} waits in {_place(each)}" for each in tasks[:_TASKS_NAMED])
    others = len(tasks) - _TASKS_NAMED
    return f"{named}, and {others} other tasks wait" if others > 0 else named


def _place(task: "asyncio.Task[Any]") -> str:
    """The innermost function of a task that is neither asyncio's nor of this file, with its line."""
    found = "a library"
    coroutine: object = task.get_coro()
    while inspect.iscoroutine(coroutine):
        frame = coroutine.cr_frame
        path = Path(frame.f_code.co_filename) if frame is not None else None
        if frame is not None and path is not None and path != _HERE and path.parent != _ASYNCIO:
            found = f"{coroutine.__qualname__} ({path.name}:{frame.f_lineno})"
        coroutine = coroutine.cr_await
    return found


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
