"""Declares metrics: one call each, in a registry per instance, with shared buckets.

Most of what a controller exports without series for pods and nodes are the buckets of histograms.
With the detail ``pool`` a histogram therefore has six of its buckets, at bounds of the full set.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from karpenter.telemetry.family import COUNTER, HISTOGRAM, SUMMARY, Detail, Family
from karpenter.telemetry.summaries import QUANTILES, Monotonic, Summary

Buckets: TypeAlias = Sequence[float]

# 5 ms to 10 minutes, close together where controllers usually are
DURATIONS: Final[Buckets] = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
    *(6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 150.0, 300.0, 450.0, 600.0),
)
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
LIFETIMES: Final[Buckets] = (
    *(_HOUR / 4, _HOUR / 2, _HOUR, 2 * _HOUR, 4 * _HOUR, 6 * _HOUR, 8 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 3 * _DAY, 5 * _DAY, 7 * _DAY, 10 * _DAY, 15 * _DAY, 20 * _DAY, 30 * _DAY),
)
_MOST_BUCKETS: Final = 6
_FEWER_DURATIONS: Final[Buckets] = (0.05, 0.5, 2.0, 10.0, 30.0, 300.0)  # bounds used by alerts
SCORES: Final[Buckets] = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)

# Karpenter has no ``_created`` series, which would double the size of a scrape
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def doubling(first: float, steps: int) -> Buckets:
    """Buckets of which each is twice the one before."""
    return tuple(first * 2**step for step in range(steps))


def thinned(buckets: Buckets) -> Buckets:
    """Six of these buckets, spread evenly, with the first and the last among them."""
    if buckets is DURATIONS:
        return _FEWER_DURATIONS
    last = len(buckets) - 1
    if last < _MOST_BUCKETS:
        return buckets
    return tuple(buckets[round(step * last / (_MOST_BUCKETS - 1))] for step in range(_MOST_BUCKETS))


class Families:
    """Declares metrics in one registry; labels are given as words in one string."""

    def __init__(
        self,
        registry: CollectorRegistry,
        monotonic: Monotonic,
        declared: list[Family],
        detail: Detail = Detail.OBJECT,
    ) -> None:
        """Declare in a registry.

        Args:
            registry: where the metrics are.
            monotonic: seconds that only grow.
            declared: called with every family.
            detail: how many buckets histograms have.
        """
        self._registry: Final = registry
        self._monotonic: Final = monotonic
        self._declared: Final = declared
        self._detail: Final = detail

    def counter(self, name: str, meaning: str, labels: str = "") -> Counter:
        """Declare a counter."""
        self._declared.append(Family(name, meaning, labels, COUNTER))
        return Counter(name, meaning, labels.split(), registry=self._registry)

    def gauge(self, name: str, meaning: str, labels: str = "") -> Gauge:
        """Declare a gauge."""
        self._declared.append(Family(name, meaning, labels))
        return Gauge(name, meaning, labels.split(), registry=self._registry)

    def histogram(
        self, name: str, meaning: str, labels: str = "", *, buckets: Buckets = DURATIONS
    ) -> Histogram:
        """Declare a histogram."""
        if self._detail is Detail.POOL:
            buckets = thinned(buckets)
        series = len(buckets) + 3  # without end, count and sum
        self._declared.append(Family(name, meaning, labels, HISTOGRAM, series))
        return Histogram(name, meaning, labels.split(), registry=self._registry, buckets=buckets)

    def summary(self, name: str, meaning: str, labels: str = "") -> Summary:
        """Declare a summary with quantiles."""
        self._declared.append(Family(name, meaning, labels, SUMMARY, len(QUANTILES) + 2))
        summary = Summary(name, meaning, labels.split(), self._monotonic)
        self._registry.register(summary)
        return summary
