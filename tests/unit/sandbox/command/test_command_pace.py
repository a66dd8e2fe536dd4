"""A sandbox says how fast its time really passes, where that is clearly less than asked for."""

import pytest

from karpenter.clock import SystemClock
from karpenter_sandbox.command.pace import Pace


class Times(SystemClock):
    """Real time and that of a cluster, which a test moves."""

    def __init__(self) -> None:
        self.real = 50.0
        self.cluster = 7.0

    def monotonic(self) -> float:
        return self.cluster

    def seconds(self) -> float:
        return self.real

    def run(self, speed: float, seconds: float) -> None:
        self.real += seconds
        self.cluster += speed * seconds


@pytest.mark.parametrize(
    ("speed", "reached", "headline", "shortfall"),
    [
        pytest.param(60, 60, " at 60 times the speed", "", id="as asked for"),
        pytest.param(60, 46, " at 60 times the speed", "", id="a little less is not worth a word"),
        pytest.param(
            60,
            22.4,
            " at 22 times the speed, not 60: there is much to do",
            "Time passed at 22 times the speed, not 60: it stands still while there is work to do.",
            id="clearly less",
        ),
        pytest.param(
            2.5,
            0.456,
            " at 0.46 times the speed, not 2.5: there is much to do",
            "Time passed at 0.46 times the speed, not 2.5: it stands still while there is work to"
            " do.",
            id="slower than real time",
        ),
        pytest.param(1, 1, "", "", id="real time"),
    ],
)
def test_what_is_said(speed: float, reached: float, headline: str, shortfall: str) -> None:
    times = Times()
    pace = Pace(times, speed, times.seconds)

    times.run(reached, 6)

    assert (headline, shortfall) == (pace.headline(), pace.shortfall())


def test_nothing_is_told_from_a_moment() -> None:
    times = Times()
    pace = Pace(times, 60, times.seconds)

    times.run(1, 2)

    assert (" at 60 times the speed", "") == (pace.headline(), pace.shortfall())


def test_the_headline_is_about_the_last_seconds_and_the_end_about_all_of_it() -> None:
    times = Times()
    pace = Pace(times, 60, times.seconds)
    told = []
    for speed in (*[20] * 30, *[60] * 30):
        times.run(speed, 1)
        told.append(pace.headline())

    assert " at 20 times the speed, not 60: there is much to do" == told[29]
    assert " at 60 times the speed" == told[-1]
    assert pace.shortfall().startswith("Time passed at 40 times the speed, not 60: ")
