"""Curves: a value at each moment, drawn by day, by points, or from a file."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from karpenter.api.times import in_seconds, later
from karpenter.simulate.chance import Chance
from karpenter.simulate.lengths import seconds, share
from karpenter.simulate.scenario.models import Diurnal

DAY: Final = 86_400.0
_SATURDAY: Final = 5
# Half of a plateau, and of the slope on either side of it
_FLAT: Final = 4 * 3600.0
_SLOPE: Final = 4 * 3600.0

# The value at so many seconds since the start of the scenario
CurveAt: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Days:
    """A curve with a day's period; its noise is drawn anew for every interval."""

    of: Diurnal
    start: datetime
    chance: Chance
    name: str

    def at(self, moment: float) -> float:
        """The value at a moment."""
        of = self.of
        then = later(self.start, in_seconds(moment))
        hour, minute = map(int, of.peak_at.split(":"))
        midnight = then.replace(hour=0, minute=0, second=0, microsecond=0)
        from_peak = (then - midnight).total_seconds() - (hour * 3600 + minute * 60)
        away = abs((from_peak + DAY / 2) % DAY - DAY / 2)  # from the nearest peak
        value = of.low + (of.high - of.low) * _height(away, of.shape)
        if then.weekday() >= _SATURDAY:
            value *= of.weekend
        if noise := share(of.noise):
            number = int(moment / max(seconds(of.every), 1.0))
            value *= 1 + noise * self.chance.normal("noise", self.name, number)
        return max(0.0, value)


@dataclass(frozen=True, slots=True)
class Points:
    """A value that holds until the next point."""

    points: Sequence[tuple[float, float]]  # by time

    def at(self, moment: float) -> float:
        """The value at a moment; before the first point, zero."""
        value = 0.0
        for begins, height in self.points:
            if begins > moment:
                break
            value = height
        return value


@dataclass(frozen=True, slots=True)
class Buckets:
    """Values of intervals of one length; nothing after the last."""

    values: Sequence[float]
    length: float

    def at(self, moment: float) -> float:
        """The value at a moment."""
        number = int(moment / self.length)
        return self.values[number] if 0 <= number < len(self.values) else 0.0


def _height(away: float, shape: str) -> float:
    """How high the curve is so many seconds from its peak: 1 at the peak, 0 half a day away."""
    if shape == "plateau":
        away = max(0.0, away - _FLAT)
        return 0.0 if away >= _SLOPE else (1 + math.cos(math.pi * away / _SLOPE)) / 2
    return (1 + math.cos(2 * math.pi * away / DAY)) / 2
