"""Clocks tell the time and wait; virtual time passes without anybody waiting for it."""

import asyncio
import random
import re
import socket
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from helpers.pace import Machine, run_paced
from karpenter.clock import (
    EPOCH,
    Clock,
    DeadlockError,
    EndlessError,
    PacedClock,
    PacedLoop,
    RealWaitError,
    StandstillError,
    SystemClock,
    Timer,
    VirtualClock,
    run_virtual,
    running_clock,
)

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


def test_time_passes_for_a_wait_that_is_too_short_to_be_added_to_the_time() -> None:
    async def main() -> None:
        clock = running_clock()
        await clock.sleep(3600.1)
        before = clock.monotonic()
        assert before == before + 1e-13
        await clock.sleep(1e-13)
        assert clock.monotonic() > before

    run_virtual(main())


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

    with pytest.raises(DeadlockError, match="2026-03-01T12:00:05") as caught:
        run_virtual(main(), start=START)

    assert re.search(r": main waits in \S+main \(test_clock.py:\d+\)$", str(caught.value))


async def tick_for_ever(seconds: float) -> None:
    while True:
        await running_clock().sleep(seconds)


async def wait_beside_others(seconds: float, others: int = 1) -> None:
    """Wait for something that never happens, while others wake up regularly."""
    async with asyncio.TaskGroup() as group:
        for number in range(others):
            group.create_task(tick_for_ever(seconds), name=f"controller-{number}")
        await running_clock().wait_for(asyncio.Event().wait(), seconds=1e12)


def test_a_program_that_never_ends_is_stopped_after_so_much_virtual_time() -> None:
    with pytest.raises(EndlessError) as caught:
        run_virtual(wait_beside_others(3600), start=START, longest=timedelta(days=2))

    pattern = (
        r"the program has not ended at 2026-03-03T13:00:00\+00:00, after 49 moves to the next timer,"
        r" so it may never end \(run_virtual takes other limits\):"
        r" main waits in wait_beside_others \(test_clock.py:\d+\),"
        r" controller-0 waits in tick_for_ever \(test_clock.py:\d+\)"
    )
    assert re.fullmatch(pattern, str(caught.value))


def test_a_program_that_never_ends_is_stopped_after_so_many_moves() -> None:
    with pytest.raises(
        EndlessError, match=r"00:01:40.* after 100 moves .*, and 2 other tasks wait"
    ):
        run_virtual(wait_beside_others(1, others=6), most_moves=100)


def test_a_program_may_end_in_its_last_wait() -> None:
    async def main() -> float:
        for _ in range(3):
            await running_clock().sleep(86_400)
        return running_clock().monotonic()

    assert 3 * 86_400.0 == run_virtual(main(), longest=timedelta(days=2), most_moves=3)


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
    "in_time",
    [
        pytest.param(asyncio.run, id="system"),
        pytest.param(run_paced, id="paced"),
        pytest.param(run_virtual, id="virtual"),
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
    in_time: Callable[[Coroutine[Any, Any, bool]], bool],
    wait: Callable[[Clock], Coroutine[Any, Any, bool]],
    expected: bool,
) -> None:
    async def main() -> bool:
        return await wait(running_clock())

    assert expected == in_time(main())


def test_the_system_clock_tells_the_time_of_day() -> None:
    before = datetime.now(UTC)
    now = SystemClock().now()
    after = datetime.now(UTC)

    assert before <= now <= after
    assert now.tzinfo is UTC


async def test_the_running_clock_is_the_wall_clock_on_a_real_loop() -> None:
    assert type(running_clock()) is SystemClock


def test_the_running_clock_is_virtual_on_a_virtual_loop() -> None:
    async def main() -> Clock:
        return running_clock()

    assert isinstance(run_virtual(main()), VirtualClock)


def test_the_running_clock_is_the_second_time_of_a_paced_loop() -> None:
    async def main() -> Clock:
        return running_clock()

    assert isinstance(run_paced(main()), PacedClock)


def test_paced_time_passes_faster_while_nothing_is_to_be_done() -> None:
    machine = Machine()
    began = machine.seconds

    async def main() -> tuple[datetime, float]:
        clock = running_clock()
        await clock.sleep(150)
        return clock.now(), clock.monotonic()

    assert (START + timedelta(seconds=150), 150.0) == run_paced(main(), machine, start=START)
    assert 2.5 == pytest.approx(machine.seconds - began)


def test_paced_time_passes_for_whoever_waits_for_something_else() -> None:
    async def main() -> float:
        await asyncio.sleep(2)  # in real time
        return running_clock().monotonic()

    assert 120.0 == pytest.approx(run_paced(main()))


def test_paced_time_stands_still_while_tasks_work() -> None:
    machine = Machine(work=lambda: 0.5)
    began = machine.seconds

    async def main() -> float:
        for _ in range(20):
            await asyncio.sleep(0)
        return running_clock().monotonic()

    assert 0.0 == run_paced(main(), machine)
    assert machine.seconds - began >= 10


def test_paced_time_stands_still_while_threads_work() -> None:
    async def main() -> float:
        clock = running_clock()
        waiting = asyncio.create_task(clock.sleep(3600))  # time would have to halt only there
        await asyncio.sleep(0)
        before = clock.monotonic()
        await asyncio.to_thread(time.sleep, 0.02)
        passed = clock.monotonic() - before
        waiting.cancel()
        return passed

    with asyncio.Runner(loop_factory=lambda: PacedLoop(60)) as runner:
        assert 0.0 == runner.run(main())


def test_paced_sleepers_wake_at_their_time_however_late_the_loop_is_woken() -> None:
    async def main() -> list[tuple[str, float]]:
        clock = running_clock()
        woken: list[tuple[str, float]] = []

        async def sleeper(name: str, *naps: float) -> None:
            for seconds in naps:
                await clock.sleep(seconds)
                woken.append((name, clock.monotonic()))

        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper("late", 30))
            group.create_task(sleeper("often", 10, 0.25, 0.25, 19.5))
            group.create_task(sleeper("also early", 10))
        return woken

    expected = [
        ("often", 10.0),
        ("also early", 10.0),
        ("often", 10.25),
        ("often", 10.5),
        ("late", 30.0),
        ("often", 30.0),
    ]
    assert expected == run_paced(main(), Machine(work=lambda: 0.3, late=lambda: 2.0))


def test_paced_timers_that_are_close_to_each_other_cost_no_speed() -> None:
    machine = Machine()
    began = machine.seconds

    async def main() -> None:
        for _ in range(10_000):  # the system cannot wait for as little as that
            await running_clock().sleep(0.001)

    run_paced(main(), machine)

    assert 10 / 60 == pytest.approx(machine.seconds - began, rel=0.05)


async def a_request(port: int, answers: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"what time is it?\n")
    answers.append(float(await reader.readline()))
    writer.close()


def test_sockets_are_served_while_paced_timers_keep_the_loop_busy() -> None:
    async def main() -> list[float]:
        clock = running_clock()
        answers: list[float] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(f"{clock.monotonic()}\n".encode())
            writer.close()

        async def never_idle() -> None:
            while True:
                await clock.sleep(0.0001)

        busy = asyncio.create_task(never_idle())
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            for _ in range(3):
                await a_request(port, answers)
        busy.cancel()
        return answers

    answers = run_paced(main(), speed=1000)

    assert 3 == len(answers)
    assert sorted(answers) == answers


def test_cancelled_timers_of_a_paced_loop_are_not_kept() -> None:
    async def main() -> int:
        clock = running_clock()
        for _ in range(10_000):
            clock.call_later(3600, lambda: None).cancel()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PacedLoop)
        return len(loop._paced_timers)

    assert run_paced(main()) < 300


def test_a_paced_timer_can_be_cancelled_in_the_turn_in_which_it_is_due() -> None:
    async def main() -> list[str]:
        clock = running_clock()
        called: list[str] = []
        others: list[Timer] = []

        def cancel_others() -> None:
            for timer in others:
                timer.cancel()

        clock.call_later(1, cancel_others)
        others.append(clock.call_later(1, lambda: called.append("second")))
        await clock.sleep(2)
        return called

    assert [] == run_paced(main())
