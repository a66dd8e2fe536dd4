"""Declares metrics: one call each, in a registry per instance, with shared buckets."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from karpenter.telemetry.summaries import Monotonic, Summary

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
SCORES: Final[Buckets] = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)

# Karpenter has no ``_created`` series, which would double the size of a scrape
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def doubling(first: float, steps: int) -> Buckets:
    """Buckets of which each is twice the one before."""
    return tuple(first * 2**step for step in range(steps))


class Families:
    """Declares metrics in one registry; labels are given as words in one string."""

    def __init__(self, registry: CollectorRegistry, monotonic: Monotonic) -> None:
        self._registry: Final = registry
        self._monotonic: Final = monotonic

    def counter(self, name: str, meaning: str, labels: str = "") -> Counter:
        """Declare a counter."""
        return Counter(name, meaning, labels.split(), registry=self._registry)

    def gauge(self, name: str, meaning: str, labels: str = "") -> Gauge:
        """Declare a gauge."""
        return Gauge(name, meaning, labels.split(), registry=self._registry)

    def histogram(
        self, name: str, meaning: str, labels: str = "", *, buckets: Buckets = DURATIONS
    ) -> Histogram:
        """Declare a histogram."""
        return Histogram(name, meaning, labels.split(), registry=self._registry, buckets=buckets)

    def summary(self, name: str, meaning: str, labels: str = "") -> Summary:
        """Declare a summary with quantiles."""
        summary = Summary(name, meaning, labels.split(), self._monotonic)
        self._registry.register(summary)
        return summary
