"""Time, as everything that waits sees it: real, faster than real, or simulated.

A ``Clock`` tells the time and waits. ``SystemClock`` is the wall clock, ``ScaledClock`` the wall
clock run faster, and ``VirtualClock`` the time of a ``VirtualLoop``: an event loop that never
sleeps. Whenever nothing is ready it moves its time to the next timer, so an hour of waiting
takes no time, and the same program with the same seed runs the same way again.

Whoever waits does it through a clock; ``asyncio.sleep`` and ``asyncio.timeout`` know nothing of a
speed. In virtual time the asyncio functions are right as well, because the loop itself is virtual.
"""

import asyncio
import contextlib
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

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call ``callback`` after a while, unless the returned handle is cancelled."""


class ScaledClock:
    """The wall clock, run ``speed`` times as fast from the moment this clock is made."""

    def __init__(self, speed: float, *, start: datetime | None = None) -> None:
        if not 0 < speed < float("inf"):
            raise ValueError(f"the speed of a clock is above zero, not {speed}")
        self.speed: Final = speed
        self._began = time.monotonic()
        self._start = start or datetime.now(UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self.speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)

    async def wait(self, event: asyncio.Event, *, seconds: float) -> bool:
        return await _wait(event, seconds / self.speed)

    async def wait_for(self, awaitable: Awaitable[T], *, seconds: float) -> T:
        async with asyncio.timeout(seconds / self.speed):
            return await awaitable

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds / self.speed, callback)


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
