"""Housekeeping outlives its failures, those nobody foresaw included."""

import pytest

from helpers.clusters import running
from karpenter.clock import Clock, run_virtual, running_clock
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.cloud.provider import CloudError
from karpenter.telemetry import Metrics


class Stumbling(Rounds):
    name = "stumbling"

    def __init__(self, clock: Clock, error: Exception) -> None:
        super().__init__(clock, Metrics())
        self.at: list[float] = []
        self._error = error

    async def step(self) -> float:
        self.at.append(round(self.clock.monotonic()))
        if len(self.at) <= 3:
            raise self._error
        return 100.0


@pytest.mark.parametrize(
    "error",
    [CloudError("AWS is away"), KeyError("nobody foresaw this")],
    ids=lambda e: type(e).__name__,
)
def test_after_a_failure_it_goes_on_with_growing_pauses(error: Exception) -> None:
    async def scene() -> list[float]:
        clock = running_clock()
        work = Stumbling(clock, error)
        began = clock.monotonic()
        async with running(work.run()):
            await clock.sleep(50)
        return [at - began for at in work.at]

    assert [0, 1, 3, 7] == run_virtual(scene())
