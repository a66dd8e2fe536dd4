"""Amounts that change over time: their integrals, and their means on a grid.

A level costs nothing while it does not change: time is accounted for when it does. The warm-up comes
before the grid and counts nowhere.
"""

import math
from typing import Final

HOUR: Final = 3600.0


class Grid:
    """Equal intervals from the end of the warm-up until the end of the run."""

    def __init__(self, first: float, until: float, step: float) -> None:
        """Divide the seconds from ``first`` to ``until`` into intervals of ``step`` seconds."""
        self.first: Final = first
        self.step: Final = step
        self.until: Final = until

    def of(self, moment: float) -> int:
        """The number of the interval that a moment lies in."""
        return max(0, int((moment - self.first) / self.step))

    def begin(self, number: int) -> float:
        """When an interval begins."""
        return self.first + number * self.step

    def count(self, ended: float) -> int:
        """How many intervals a run that ended at a moment has begun."""
        return max(0, math.ceil((min(ended, self.until) - self.first) / self.step - 1e-9))

    def times(self, ended: float) -> list[float]:
        """When the intervals of a run begin."""
        return [round(self.begin(number), 6) for number in range(self.count(ended))]

    def length(self, number: int, ended: float) -> float:
        """How many seconds of an interval a run has covered."""
        return min(self.begin(number) + self.step, ended) - self.begin(number)


class Level:
    """One amount that changes over time."""

    __slots__ = ("_grid", "_most", "_since", "_sums", "value")

    def __init__(self, grid: Grid) -> None:
        self.value = 0.0
        self._grid = grid
        self._since = 0.0
        self._sums: list[float] = []  # amount x seconds in each interval
        self._most: list[float] = []  # the highest value in each interval

    def add(self, now: float, amount: float) -> None:
        """Change the amount."""
        self.set(now, self.value + amount)

    def set(self, now: float, value: float) -> None:
        """Set the amount."""
        if value == self.value:
            return
        self._spend(now)
        self.value = value
        if now >= self._grid.first:
            self._touch(self._grid.of(now))

    def integral(self, now: float) -> float:
        """Amount x seconds since the warm-up."""
        self._spend(now)
        return math.fsum(self._sums)

    def means(self, now: float) -> list[float]:
        """The mean of each interval that has begun."""
        self._spend(now)
        grid, count = self._grid, self._grid.count(now)
        sums = self._sums[:count] + [0.0] * (count - len(self._sums))
        return [amount / (grid.length(n, now) or 1.0) for n, amount in enumerate(sums)]

    def peaks(self, now: float) -> list[float]:
        """The highest value of each interval that has begun."""
        self._spend(now)
        count = self._grid.count(now)
        return self._most[:count] + [self.value] * (count - len(self._most))

    def _spend(self, now: float) -> None:
        """Account for the time since the last change."""
        grid, value = self._grid, self.value
        since = max(self._since, grid.first)
        self._since = max(now, self._since)
        while since < now:
            number = grid.of(since)
            # A boundary that rounding puts just before the moment it was computed from
            if grid.begin(number + 1) <= since:
                number += 1
            ends = min(now, grid.begin(number + 1))
            self._touch(number)
            self._sums[number] += value * (ends - since)
            since = ends

    def _touch(self, number: int) -> None:
        """Make room for an interval, and note the value in it."""
        missing = number + 1 - len(self._sums)
        if missing > 0:
            self._sums += [0.0] * missing
            self._most += [self.value] * missing
        elif self.value > self._most[number]:
            self._most[number] = self.value


class Levels:
    """Levels by name, made when they are first changed."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._levels: dict[str, Level] = {}

    def __getitem__(self, name: str) -> Level:
        level = self._levels.get(name)
        if level is None:
            level = self._levels[name] = Level(self._grid)
        return level

    def names(self) -> list[str]:
        """Every name, in order."""
        return sorted(self._levels)


def nearest_rank(sorted_values: list[float], percent: float) -> float | None:
    """The smallest value that so many percent of all values do not exceed."""
    if not sorted_values:
        return None
    rank = math.ceil(percent / 100 * len(sorted_values) - 1e-9)
    return sorted_values[max(0, rank - 1)]


def spread(values: list[float]) -> dict[str, float | int | None]:
    """Percentiles, the largest, the sum and the number of values."""
    known = sorted(values)
    return {
        "p50": nearest_rank(known, 50),
        "p95": nearest_rank(known, 95),
        "p99": nearest_rank(known, 99),
        "max": known[-1] if known else None,
        "sum": math.fsum(known),
        "count": len(known),
    }
