"""Pods that arrive together are planned together, and none waits longer than it must."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.clock import run_virtual, running_clock
from karpenter.controllers.provisioning.batching import Batcher, Window

IDLE, LONGEST = timedelta(seconds=5), timedelta(seconds=10)


@pytest.mark.parametrize(
    ("triggers", "closed"),
    [
        pytest.param([(0, "a"), (3, "a")], 5, id="SCH-17 the same pod again changes nothing"),
        pytest.param([(0, "a"), (3, "b")], 8, id="SCH-18 a new pod restarts the idle time"),
        pytest.param(
            [(0, "a"), (3, "b"), (6, "c"), (9, "d")], 10, id="SCH-19 the window has an end"
        ),
        pytest.param([(0, ""), (3, "")], 8, id="a trigger without a name is always news"),
        pytest.param([(0, "a"), (4, "")], 9, id="a trigger without a name restarts the idle time"),
        pytest.param([(2, "")], 7, id="a trigger without a name opens a window"),
    ],
)
def test_a_window_closes(triggers: Sequence[tuple[float, str]], closed: float) -> None:
    async def scenario() -> float:
        clock = running_clock()
        batcher = Batcher(clock, idle=IDLE, longest=LONGEST)
        for at, uid in triggers:
            clock.call_later(at, partial(batcher.trigger, uid))
        await batcher.batch()
        return clock.monotonic()

    assert closed == run_virtual(scenario())


def test_a_pod_triggers_again_once_its_window_has_closed() -> None:
    async def scenario() -> list[float]:
        clock = running_clock()
        batcher = Batcher(clock, idle=IDLE, longest=LONGEST)
        closed = []
        for at in (0, 20):
            clock.call_later(at, lambda: batcher.trigger("a"))
        for _ in range(2):
            await batcher.batch()
            closed.append(clock.monotonic())
        return closed

    assert [5.0, 25.0] == run_virtual(scenario())


def test_what_came_while_a_plan_was_made_does_not_wait_from_the_start() -> None:
    async def scenario() -> float:
        clock = running_clock()
        batcher = Batcher(clock, idle=IDLE, longest=LONGEST)
        clock.call_later(1, lambda: batcher.trigger("a"))
        await clock.sleep(4)
        await batcher.batch()
        return clock.monotonic()

    assert 6.0 == run_virtual(scenario())


def test_nothing_is_planned_while_nothing_triggers() -> None:
    async def scenario() -> bool:
        clock = running_clock()
        batcher = Batcher(clock, idle=IDLE, longest=LONGEST)
        waiting = asyncio.create_task(batcher.batch())
        await clock.sleep(3600)
        has_closed = waiting.done()
        waiting.cancel()
        return has_closed

    assert run_virtual(scenario()) is False


@given(
    st.lists(
        st.tuples(st.floats(0, 30, allow_nan=False), st.sampled_from(["", "a", "b", "c"])),
        min_size=1,
    )
)
def test_a_window_closes_neither_before_the_idle_time_nor_after_the_longest(
    triggers: list[tuple[float, str]],
) -> None:
    window = Window(idle=5, longest=10)
    ordered = sorted(triggers, key=lambda each: each[0])
    news = [at for at, uid in ordered if window.trigger(uid, at)]

    closes_at = window.closes_at

    assert closes_at is not None
    assert news[0] + 5 <= closes_at <= news[0] + 10
    assert closes_at <= news[-1] + 5
