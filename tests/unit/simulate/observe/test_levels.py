"""Amounts over time: integrals, means on a grid, and percentiles by nearest rank."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.simulate.observe.levels import Grid, Level, nearest_rank


def test_means_and_peaks_of_each_interval() -> None:
    level = Level(Grid(0.0, 30.0, 10.0))
    level.set(5.0, 4.0)
    level.set(6.0, 0.0)
    level.set(20.0, 2.0)

    assert [0.4, 0.0, 2.0] == level.means(30.0)
    assert [4.0, 0.0, 2.0] == level.peaks(30.0)


def test_an_interval_that_has_begun_is_averaged_over_what_there_was_of_it() -> None:
    level = Level(Grid(0.0, 30.0, 10.0))
    level.set(0.0, 3.0)

    assert [3.0, 3.0] == level.means(15.0)


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.floats(-5, 5)), max_size=30),
    st.sampled_from([0.1, 7.3, 10.0, 43.2]),
)
def test_means_have_the_integral_of_the_amount(
    changes: list[tuple[float, float]], step: float
) -> None:
    level = Level(Grid(100.0, 1000.0, step))
    expected, since, value = 0.0, 100.0, 0.0
    for at, amount in sorted(changes):
        expected += value * max(0.0, at - since)
        since, value = max(at, 100.0), amount
        level.set(at, amount)
    expected += value * (1000.0 - since)

    grid = Grid(100.0, 1000.0, step)
    means = level.means(1000.0)
    found = math.fsum(mean * grid.length(n, 1000.0) for n, mean in enumerate(means))

    assert expected == pytest.approx(found, abs=1e-6)
    assert expected == pytest.approx(level.integral(1000.0), abs=1e-6)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(50, 2), (75, 3), (95, 4), (99, 4), (100, 4)],
)
def test_percentiles_are_values_that_there_were(percent: float, expected: float) -> None:
    assert expected == nearest_rank([1.0, 2.0, 3.0, 4.0], percent)
