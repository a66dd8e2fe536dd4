"""Clocks tell the time and wait; virtual time passes without anybody waiting for it."""

import asyncio
import functools
import random
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeVar

import pytest

from karpenter.clock import (
    EPOCH,
    Clock,
    DeadlockError,
    PacedLoop,
    RealWaitError,
    ScaledClock,
    StandstillError,
    SystemClock,
    Timer,
    VirtualClock,
    run_virtual,
    running_clock,
)

T = TypeVar("T")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_sleeping_moves_virtual_time() -> None:
    async def main() -> datetime:
        await running_clock().sleep(3600)
        return running_clock().now()

    assert START + timedelta(hours=1) == run_virtual(main(), start=START)


def test_virtual_time_begins_at_the_start_in_utc() -> None:
    async def main() -> datetime:
        return running_clock().now()

    start = datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    began = run_virtual(main(), start=start)

    assert (START, UTC) == (began, began.tzinfo)


def test_a_start_without_a_time_zone_is_refused() -> None:
    async def main() -> None: ...

    program = main()
    with pytest.raises(ValueError, match="needs a time zone"):
        run_virtual(program, start=datetime(2026, 3, 1))  # noqa: DTZ001
    program.close()


def test_the_start_defaults_to_a_fixed_moment() -> None:
    async def main() -> datetime:
        return running_clock().now()

    assert EPOCH == run_virtual(main())


def test_virtual_sleepers_wake_in_the_order_of_their_times() -> None:
    async def main() -> list[tuple[str, float]]:
        clock = running_clock()
        woken: list[tuple[str, float]] = []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic()))

        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper("late", 30))
            group.create_task(sleeper("early", 10))
            group.create_task(sleeper("also early", 10))
            group.create_task(sleeper("in between", 20.5))
        return woken

    expected = [("early", 10.0), ("also early", 10.0), ("in between", 20.5), ("late", 30.0)]
    assert expected == run_virtual(main())


def test_virtual_time_stands_still_while_there_is_work() -> None:
    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return running_clock().monotonic()

    assert run_virtual(main()) == 0.0


def test_many_small_sleeps_add_up_to_the_microsecond() -> None:
    async def main() -> datetime:
        for _ in range(100_000):
            await running_clock().sleep(0.1)
        return running_clock().now()

    assert START + timedelta(seconds=10_000) == run_virtual(main(), start=START)


def test_virtual_sleep_may_last_longer_than_a_day() -> None:
    async def main() -> datetime:
        await running_clock().sleep(10 * 86_400)
        return running_clock().now()

    assert START + timedelta(days=10) == run_virtual(main(), start=START)


def test_asyncio_timeouts_are_virtual_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(120):
                await asyncio.Event().wait()
        return running_clock().monotonic()

    assert run_virtual(main()) == 120.0


def test_waiting_for_ever_is_a_deadlock_that_says_when() -> None:
    async def main() -> None:
        await running_clock().sleep(5)
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="2026-03-01T12:00:05"):
        run_virtual(main(), start=START)


def test_tasks_that_only_wake_each_other_are_a_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.clock._TURNS_AT_ONE_INSTANT", 1000)

    async def main() -> None:
        for _ in range(2000):
            await asyncio.sleep(0)

    with pytest.raises(StandstillError):
        run_virtual(main())


def test_waiting_for_a_socket_is_refused() -> None:
    async def main() -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.setblocking(False)
            server.listen()
            await asyncio.get_running_loop().sock_accept(server)

    with pytest.raises(RealWaitError):
        run_virtual(main())


def test_work_for_threads_is_done_at_once_in_virtual_time() -> None:
    async def main() -> tuple[int, float]:
        result = await asyncio.to_thread(lambda: 6 * 7)
        return result, running_clock().monotonic()

    assert run_virtual(main()) == (42, 0.0)


def test_an_error_in_work_for_threads_reaches_whoever_awaits_it() -> None:
    def fail() -> None:
        raise LookupError("nothing here")

    async def main() -> None:
        await asyncio.to_thread(fail)

    with pytest.raises(LookupError, match="nothing here"):
        run_virtual(main())


def test_the_same_seed_gives_the_same_run() -> None:
    async def main() -> list[float]:
        clock = running_clock()
        times: list[float] = []

        async def wanderer() -> None:
            for _ in range(20):
                await clock.sleep(random.random())
                times.append(clock.monotonic())

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(wanderer())
        return times

    first, again, other = (run_virtual(main(), seed=seed) for seed in (7, 7, 8))

    assert first == again
    assert first != other


def test_a_virtual_run_leaves_the_random_module_as_it_was() -> None:
    async def main() -> float:
        return random.random()

    random.seed(1)
    expected = random.random()
    random.seed(1)
    run_virtual(main(), seed=99)

    assert expected == random.random()


def test_the_result_and_the_error_of_a_program_come_out() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        run_virtual(fail())


def test_tasks_left_over_are_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            ended.append("cancelled")

    async def main() -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(background())
        await asyncio.sleep(1)
        return task

    task = run_virtual(main())

    assert (["cancelled"], True) == (ended, task.cancelled())


async def _event_in_time(clock: Clock) -> bool:
    event = asyncio.Event()
    clock.call_later(0.001, event.set)
    return await clock.wait(event, seconds=1000)


async def _event_set_already(clock: Clock) -> bool:
    event = asyncio.Event()
    event.set()
    return await clock.wait(event, seconds=0)


async def _event_never(clock: Clock) -> bool:
    return await clock.wait(asyncio.Event(), seconds=0.001)


async def _result_in_time(clock: Clock) -> bool:
    async def work() -> bool:
        await clock.sleep(0.001)
        return True

    return await clock.wait_for(work(), seconds=1000)


async def _no_result(clock: Clock) -> bool:
    cancelled = False

    async def work() -> bool:
        nonlocal cancelled
        try:
            await clock.sleep(1000)
        except asyncio.CancelledError:
            cancelled = True
            raise
        return False

    try:
        return await clock.wait_for(work(), seconds=0.001)
    except TimeoutError:
        return not cancelled


async def _cancelled_call(clock: Clock) -> bool:
    called = asyncio.Event()
    clock.call_later(0.001, called.set).cancel()
    return await clock.wait(called, seconds=0.005)


@pytest.mark.parametrize(
    "clock",
    [
        pytest.param(SystemClock(), id="system"),
        pytest.param(ScaledClock(1000), id="scaled"),
        pytest.param(None, id="virtual"),
    ],
)
@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        pytest.param(_event_in_time, True, id="an event in time is seen"),
        pytest.param(_event_set_already, True, id="an event set already needs no time"),
        pytest.param(_event_never, False, id="an event that never comes is given up"),
        pytest.param(_result_in_time, True, id="a result in time is returned"),
        pytest.param(_no_result, False, id="late work is cancelled"),
        pytest.param(_cancelled_call, False, id="a cancelled call is not made"),
    ],
)
def test_waiting(
    clock: Clock | None, wait: Callable[[Clock], Awaitable[bool]], expected: bool
) -> None:
    async def main() -> bool:
        return await wait(clock or running_clock())

    assert expected == (asyncio.run(main()) if clock else run_virtual(main()))


def test_the_system_clock_tells_the_time_of_day() -> None:
    before = datetime.now(UTC)
    now = SystemClock().now()
    after = datetime.now(UTC)

    assert before <= now <= after
    assert now.tzinfo is UTC


def test_a_scaled_clock_runs_faster_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    real = [100.0]
    monkeypatch.setattr("karpenter.clock.time.monotonic", lambda: real[0])
    clock = ScaledClock(60, start=START)

    real[0] += 2.5

    assert (150.0, START + timedelta(seconds=150)) == (clock.monotonic(), clock.now())


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_speed_that_is_no_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed of a clock is above zero"):
        ScaledClock(speed)


async def test_the_running_clock_is_the_wall_clock_on_a_real_loop() -> None:
    assert type(running_clock()) is SystemClock


def test_the_running_clock_is_virtual_on_a_virtual_loop() -> None:
    async def main() -> Clock:
        return running_clock()

    assert isinstance(run_virtual(main()), VirtualClock)


class Idle:
    """A time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_timer_of_a_clock_that_stands_still_is_set_again() -> None:
    idle = Idle()
    clock = ScaledClock(1000, start=START, seconds=idle)
    called = asyncio.Event()
    clock.call_later(1, called.set)

    await asyncio.sleep(0.01)  # ten times what the wall clock would need
    before = called.is_set()
    idle.seconds = 0.001
    await called.wait()

    assert (False, START + timedelta(seconds=1)) == (before, clock.now())


async def test_timers_of_a_scaled_clock_fire_in_the_order_of_their_times() -> None:
    idle = Idle()
    clock = ScaledClock(60, seconds=idle)
    called: list[str] = []
    last = asyncio.Event()
    clock.call_later(40.0, last.set)
    for name, seconds in (("third", 30.0), ("first", 10.0), ("second", 10.0)):
        clock.call_later(seconds, functools.partial(called.append, name))

    idle.seconds = 1.0
    await last.wait()

    assert ["first", "second", "third"] == called


async def test_cancelled_timers_are_not_kept() -> None:
    clock = ScaledClock(60, seconds=Idle())
    kept = clock.call_later(3600, lambda: None)

    for _ in range(10_000):
        clock.call_later(3600, lambda: None).cancel()

    assert len(clock._timers) < 300
    kept.cancel()


async def test_a_timer_can_be_cancelled_in_the_turn_in_which_it_is_due() -> None:
    idle = Idle()
    clock = ScaledClock(60, seconds=idle)
    called: list[str] = []
    others: list[Timer] = []

    def cancel_others() -> None:
        for timer in others:
            timer.cancel()

    clock.call_later(1, cancel_others)
    others.append(clock.call_later(1, lambda: called.append("second")))
    last = asyncio.Event()
    clock.call_later(1, last.set)

    idle.seconds = 1.0
    await last.wait()
    await turns()

    assert [] == called


def paced(main: Callable[[PacedLoop], Awaitable[T]]) -> T:
    async def run() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PacedLoop)
        return await main(loop)

    with asyncio.Runner(loop_factory=PacedLoop) as runner:
        return runner.run(run())


def test_time_stands_still_while_tasks_work() -> None:
    async def main(loop: PacedLoop) -> float:
        before = loop.idle_seconds()
        for _ in range(20):
            time.sleep(0.001)  # noqa: ASYNC251 work that holds the loop
            await asyncio.sleep(0)
        return loop.idle_seconds() - before

    assert 0.0 == paced(main)


def test_time_stands_still_while_threads_work() -> None:
    async def main(loop: PacedLoop) -> float:
        before = loop.idle_seconds()
        await asyncio.to_thread(time.sleep, 0.02)
        return loop.idle_seconds() - before

    assert 0.0 == paced(main)


def test_time_passes_while_nothing_is_to_be_done() -> None:
    async def main(loop: PacedLoop) -> tuple[float, float]:
        clock = ScaledClock(60, start=START, seconds=loop.idle_seconds)
        before = loop.idle_seconds()
        await clock.sleep(1)
        return loop.idle_seconds() - before, clock.monotonic()

    idle, passed = paced(main)

    # However late the system woke the loop, no more has passed than was waited for
    assert 1 / 60 == pytest.approx(idle, rel=0.2)
    assert 1.0 == pytest.approx(passed, rel=0.2)
