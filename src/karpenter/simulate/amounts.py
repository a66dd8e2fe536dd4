"""Amounts of time that differ: constants, distributions, and samples of measured ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import exp, log
from typing import Final, TypeAlias

from karpenter.simulate.chance import Chance
from karpenter.simulate.lengths import seconds
from karpenter.simulate.scenario.models import Column, Spread, Time, Times

# Measured amounts by file and column, as the reader of the scenario has read them
Samples: TypeAlias = Mapping[tuple[str, str], Sequence[float]]

_P95: Final = 1.6448536269514722  # how many standard deviations the 95th percentile lies above


@dataclass(frozen=True, slots=True)
class Drawer:
    """Draws amounts of time of one stream; the same name gives the same amount."""

    chance: Chance
    stream: str
    samples: Samples

    def drawn(self, time: Time, key: str, number: int = 0) -> float:
        """The amount of seconds with that name."""
        if isinstance(time, str):
            return seconds(time)
        return _spread(time, self._uniform(key, number), self._normal(key, number), self.samples)

    def of_machine(self, times: Times, offering: str, number: int = 0) -> float:
        """The amount for a machine of an offering, named ``type/zone/capacity-type``."""
        if not isinstance(times, list):
            return self.drawn(times, offering, number)
        for each in times:
            if matches(each.match, offering):
                return self.drawn(each.is_, offering, number)
        return 0.0

    def _uniform(self, key: str, number: int) -> Callable[[], float]:
        return lambda: self.chance.uniform(self.stream, key, number)

    def _normal(self, key: str, number: int) -> Callable[[], float]:
        return lambda: self.chance.normal(self.stream, key, number)


def matches(pattern: str, offering: str) -> bool:
    """Whether each part of an offering matches its part of a pattern."""
    wanted, given = pattern.split("/"), offering.split("/")
    return all(fnmatchcase(part, shape) for part, shape in zip(given, wanted, strict=True))


def _spread(
    spread: Spread, uniform: Callable[[], float], normal: Callable[[], float], samples: Samples
) -> float:
    if spread.uniform is not None:
        low, high = map(seconds, spread.uniform)
        return low + (high - low) * uniform()
    if spread.normal is not None:
        of = spread.normal
        drawn = seconds(of.mean) + seconds(of.stddev) * normal()
        return _capped(max(seconds(of.min), drawn), of.max)
    if spread.lognormal is not None:
        p50, p95 = seconds(spread.lognormal.p50), seconds(spread.lognormal.p95)
        if not p50:
            return 0.0
        drawn = p50 * exp(log(p95 / p50) / _P95 * normal())
        return _capped(drawn, spread.lognormal.max)
    if spread.exponential is not None:
        drawn = -log(uniform()) * seconds(spread.exponential.mean)
        return _capped(drawn, spread.exponential.max)
    return _sampled(spread, uniform, samples)


def _sampled(spread: Spread, uniform: Callable[[], float], samples: Samples) -> float:
    source = spread.empirical
    if isinstance(source, Column):
        values = samples[source.csv, source.column]
    else:
        values = [seconds(each) for each in source or ()]
    return values[int(uniform() * len(values))]


def _capped(drawn: float, most: str | None) -> float:
    return drawn if most is None else min(drawn, seconds(most))
