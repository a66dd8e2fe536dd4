"""Summaries: quantiles over the last minutes, count and sum over everything."""

import math

import pytest

from karpenter.telemetry import Metrics
from karpenter.telemetry.summaries import QUANTILES, Summary


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def told(summary: Summary) -> dict[str, float]:
    """What a summary without labels tells, by quantile or suffix."""
    (family,) = summary.collect()
    return {
        sample.labels.get("quantile", sample.name.removeprefix("waits_")): sample.value
        for sample in family.samples
    }


def waits(clock: Hand, *values: float) -> Summary:
    summary = Summary("waits", "How long.", (), clock)
    for value in values:
        summary.observe(value)
    return summary


def test_quantiles_of_a_hundred_values() -> None:
    summary = waits(Hand(), *(float(value) for value in range(100, 0, -1)))

    expected = {"0": 1, "0.5": 50, "0.9": 90, "0.99": 99, "1": 100, "sum": 5050, "count": 100}
    assert expected == told(summary)


def test_one_value_is_every_quantile() -> None:
    expected = {"0": 7, "0.5": 7, "0.9": 7, "0.99": 7, "1": 7, "sum": 7, "count": 1}
    assert expected == told(waits(Hand(), 7.0))


def test_nothing_has_no_quantiles() -> None:
    found = told(waits(Hand()))

    assert (0, 0) == (found.pop("sum"), found.pop("count"))
    assert len(QUANTILES) == len(found)
    assert all(math.isnan(value) for value in found.values())


def test_old_values_count_but_have_no_say() -> None:
    clock = Hand()
    summary = waits(clock, 1000.0)
    clock.now = 601.0
    summary.observe(1.0)

    found = told(summary)

    assert (1, 1001, 2) == (found["1"], found["sum"], found["count"])


def test_memory_is_bounded() -> None:
    summary = waits(Hand(), *(float(value) for value in range(10_000)))

    found = told(summary)

    assert (8000, 9999, 10_000) == (found["0"], found["1"], found["count"])


def test_a_series_for_each_set_of_labels() -> None:
    metrics = Metrics()
    summary = metrics.nodes_termination_duration_seconds

    summary.labels(nodepool="a").observe(3)
    summary.labels(nodepool="b").observe(4)
    summary.remove(nodepool="a")

    text = metrics.exposition().decode()
    assert 'karpenter_nodes_termination_duration_seconds_sum{nodepool="b"} 4.0\n' in text
    assert 'nodepool="a"' not in text


def test_labels_must_be_those_of_the_summary() -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Metrics().nodes_termination_duration_seconds.labels(pool="a")
