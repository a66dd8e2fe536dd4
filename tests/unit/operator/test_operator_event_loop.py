"""Long turns of the event loop are told of; waiting is not work."""

import asyncio
from collections.abc import Iterator

import pytest

from karpenter.operator.event_loop import WatchedSelector, watched_loop


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param([0.0, 0.01, 5.0, 5.02, 9.0], [], id="short turns between long waits"),
        pytest.param([0.0, 0.3, 0.4, 0.41, 9.0], [(0.3, 7.0)], id="a long turn"),
        pytest.param([0.0, 0.01, 1.0, 1.25, 9.0], [(0.25, 7.0)], id="a long turn after a wait"),
    ],
)
def test_turns_are_measured_from_the_end_of_a_wait_to_the_next(
    times: list[float], expected: list[tuple[float, float]]
) -> None:
    clock: Iterator[float] = iter(times)
    seven = iter(range(0, 700, 7))
    selector = WatchedSelector(lambda: next(clock), lambda: float(next(seven)))
    told: list[tuple[float, float]] = []
    selector.report = lambda seconds, processor: told.append((seconds, processor))

    selector.select(0)
    selector.select(0)
    selector.close()

    assert expected == told


def test_a_loop_works_with_it() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return await asyncio.to_thread(lambda: "done")

    with asyncio.Runner(loop_factory=lambda: watched_loop(WatchedSelector())) as runner:
        assert "done" == runner.run(work())
