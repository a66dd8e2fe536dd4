"""Summaries with quantiles, which the Prometheus client for Python does not have.

Quantiles are over the last ten minutes, and over the newest observations only where there are very
many; count and sum are over everything. Without recent observations a quantile is not a number.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Monotonic: TypeAlias = Callable[[], float]

QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)
_WINDOW_SECONDS: Final = 600.0
_MOST_KEPT: Final = 2_000


class Series:
    """The observations for one set of label values."""

    __slots__ = ("_count", "_monotonic", "_recent", "_sum")

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._recent: deque[tuple[float, float]] = deque(maxlen=_MOST_KEPT)  # when, what
        self._count = 0
        self._sum = 0.0

    def observe(self, amount: float) -> None:
        """Take in one observation."""
        self._recent.append((self._monotonic(), amount))
        self._count += 1
        self._sum += amount

    def add_to(self, metric: Metric, labels: dict[str, str]) -> None:
        """Add the samples of these observations to a metric."""
        oldest = self._monotonic() - _WINDOW_SECONDS
        while self._recent and self._recent[0][0] < oldest:
            self._recent.popleft()
        values = sorted(value for _, value in self._recent)
        for quantile in QUANTILES:
            metric.add_sample(
                metric.name, {**labels, "quantile": f"{quantile:g}"}, _quantile(values, quantile)
            )
        metric.add_sample(f"{metric.name}_sum", labels, self._sum)
        metric.add_sample(f"{metric.name}_count", labels, self._count)


class Summary(Collector):
    """A family of summaries, one for each set of label values."""

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], monotonic: Monotonic
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._monotonic = monotonic
        self._series: dict[tuple[str, ...], Series] = {}
        if not labels:
            self.labels()

    def labels(self, **values: str) -> Series:
        """The series with these label values; every label needs one."""
        if values.keys() != set(self._labels):
            raise ValueError(f"{self._name} has the labels {self._labels}, not {tuple(values)}")
        key = tuple(str(values[label]) for label in self._labels)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(self._monotonic)
        return series

    def observe(self, amount: float) -> None:
        """Take in one observation of a summary without labels."""
        self.labels().observe(amount)

    def remove(self, **values: str) -> None:
        """Forget the series with these label values."""
        self._series.pop(tuple(values[label] for label in self._labels), None)

    def describe(self) -> Iterable[Metric]:
        """Declare the metric names to the registry."""
        return [Metric(self._name, self._meaning, "summary")]

    def collect(self) -> Iterable[Metric]:
        """Everything observed, for one scrape."""
        metric = Metric(self._name, self._meaning, "summary")
        for key, series in list(self._series.items()):
            series.add_to(metric, dict(zip(self._labels, key, strict=True)))
        return [metric]


def _quantile(ordered: Sequence[float], quantile: float) -> float:
    """The smallest value that so large a share of all values does not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(math.ceil(quantile * len(ordered)) - 1, 0)]
