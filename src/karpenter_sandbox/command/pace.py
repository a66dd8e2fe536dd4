"""Measures the actual speed of a sandbox's clock against the requested one.

The clock stops while work is pending, so a busy cluster or a slow machine falls short.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from karpenter.clock import Clock

_LATELY: Final = 10.0  # real seconds over which the headline averages
_TOO_SHORT: Final = 5.0  # real seconds; a shorter measurement is not reported
_CLEARLY_LESS: Final = 0.75  # of what was asked for
_WHOLE: Final = 10.0  # from this speed on, shown without decimals


class Pace:
    """Compares a clock with the wall's, from the moment this is made."""

    def __init__(
        self, clock: Clock, speed: float, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin to measure.

        Args:
            clock: the time of the cluster.
            speed: how fast it is meant to pass.
            seconds: the real clock.
        """
        self._clock = clock
        self._speed = speed
        self._seconds = seconds
        self._began = self._mark()
        self._marks = deque([self._began])

    def headline(self) -> str:
        """The speed as shown after the time of day; empty at the speed of real time."""
        mark = self._mark()
        while len(self._marks) > 1 and mark[0] - self._marks[1][0] >= _LATELY:
            self._marks.popleft()
        self._marks.append(mark)
        reached = self._shortfall(self._marks[0], mark)
        if reached is not None:
            speed = f" at {_rounded(reached)} times the speed"
            return f"{speed}, not {self._speed:g}: there is much to do"
        return "" if self._speed == 1 else f" at {self._speed:g} times the speed"

    def shortfall(self) -> str:
        """The sentence for the end of the run; empty when the speed was reached."""
        reached = self._shortfall(self._began, self._mark())
        if reached is None:
            return ""
        return (
            f"Time passed at {_rounded(reached)} times the speed, not {self._speed:g}:"
            " it stands still while there is work to do."
        )

    def _shortfall(self, first: tuple[float, float], last: tuple[float, float]) -> float | None:
        """The speed that was reached, if it is clearly less than what was asked for."""
        real = last[0] - first[0]
        if real < _TOO_SHORT:
            return None
        reached = (last[1] - first[1]) / real
        return reached if reached < _CLEARLY_LESS * self._speed else None

    def _mark(self) -> tuple[float, float]:
        return self._seconds(), self._clock.monotonic()


def _rounded(speed: float) -> str:
    return f"{speed:.0f}" if speed >= _WHOLE else f"{speed:.2g}"
