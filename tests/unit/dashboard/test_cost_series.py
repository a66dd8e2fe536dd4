"""Cost over time: a point every half minute, at most 2,000 drawn, with every peak kept."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from karpenter.dashboard.answers.cost_series import CostSeries, Point, downsampled, moments
from karpenter.dashboard.contract import Totals, View
from karpenter.decision_log.record import moment_text

START = datetime(2026, 11, 16, tzinfo=UTC)


def moment(after: float) -> datetime:
    """The time so many seconds after the start."""
    return START + timedelta(seconds=after)


def view(after: float, hourly: float = 1.0) -> View:
    """A view so many seconds after the start."""
    return View(
        at=moment_text(moment(after)), totals=Totals(nodes=2, pods=3, hourly=hourly, unpriced=1)
    )


def test_a_point_is_taken_every_half_minute() -> None:
    series = CostSeries()

    taken = [series.note(view(after), moment(after)) for after in (0, 1, 29.9, 30, 45, 61)]

    assert [True, False, False, True, False, True] == taken
    found = series.between(None, None)
    start = int(START.timestamp())
    assert [start, start + 30, start + 61] == found.at
    assert ([1.0] * 3, [2] * 3, [3] * 3, [1] * 3) == (
        found.hourly,
        found.nodes,
        found.pods,
        found.unpriced,
    )


def test_a_cluster_in_which_nothing_changes_costs_all_the_same() -> None:
    series = CostSeries()
    unchanged = view(0)

    taken = [series.note(unchanged, moment(after)) for after in (0, 30, 60)]

    assert [True] * 3 == taken
    assert [int(moment(after).timestamp()) for after in (0, 30, 60)] == series.between(
        None, None
    ).at
    assert not series.note(View(), moment(90))


def test_a_span_has_both_of_its_ends() -> None:
    series = CostSeries()
    for after in range(0, 300, 30):
        series.note(view(after), moment(after))

    found = series.between(START + timedelta(seconds=60), START + timedelta(seconds=120))

    assert [60, 90, 120] == [at - int(START.timestamp()) for at in found.at]


def test_only_a_day_is_kept() -> None:
    series = CostSeries(every=timedelta(hours=1))
    for hour in range(40):
        series.note(view(hour * 3600), moment(hour * 3600))

    found = series.between(None, None)

    assert list(range(15, 40)) == [(at - int(START.timestamp())) // 3600 for at in found.at]


@given(
    st.lists(st.floats(0, 1000), max_size=80),
    st.integers(4, 40),
)
def test_what_is_drawn_keeps_ends_peaks_and_order(costs: list[float], most: int) -> None:
    points = [Point(at, cost, 0, 0, 0) for at, cost in enumerate(costs)]

    found = downsampled(points, most)

    assert len(found) <= most
    assert sorted(set(found)) == found
    assert set(found) <= set(points)
    if points:
        assert (points[0], points[-1]) == (found[0], found[-1])
        for extreme in (min, max):
            assert extreme(costs) == extreme(point.hourly for point in found)


def test_a_day_is_drawn_with_at_most_2000_points() -> None:
    points = [Point(at * 30, float(at % 7), 0, 0, 0) for at in range(2881)]

    assert len(moments(points).at) <= 2000
