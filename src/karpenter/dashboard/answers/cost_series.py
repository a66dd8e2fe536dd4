"""Cost over time: a point every half minute, for a day, drawn with at most 2,000 points."""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from karpenter.dashboard.contract import Moments, View

EVERY: Final = timedelta(seconds=30)
KEPT: Final = timedelta(hours=24)
MOST_POINTS: Final = 2000


class Point(NamedTuple):
    """The cost of a cluster at one moment."""

    at: int  # seconds
    hourly: float
    nodes: int
    pods: int
    unpriced: int


class CostSeries:
    """The cost of a cluster from moment to moment, the oldest dropped."""

    def __init__(self, *, every: timedelta = EVERY, span: timedelta = KEPT) -> None:
        """Begin without points."""
        self._every = int(every.total_seconds())
        self._points: deque[Point] = deque(maxlen=max(1, int(span / every)) + 1)

    def note(self, view: View, now: datetime) -> bool:
        """Take a point from a view, unless one was taken just before; say whether it was taken.

        The time is not the view's: while nothing changes the view is an old one, and still true.
        """
        if not view.at:
            return False
        at = int(now.timestamp())
        if self._points and at < self._points[-1].at + self._every:
            return False
        totals = view.totals
        self._points.append(Point(at, totals.hourly, totals.nodes, totals.pods, totals.unpriced))
        return True

    def between(self, since: datetime | None, until: datetime | None) -> Moments:
        """The points of a span, both ends included."""
        first = since.timestamp() if since is not None else float("-inf")
        last = until.timestamp() if until is not None else float("inf")
        return moments([point for point in self._points if first <= point.at <= last])


def moments(points: Sequence[Point], most: int = MOST_POINTS) -> Moments:
    """Points in the order of time as columns; of more than ``most`` those that keep every peak."""
    found = downsampled(points, most)
    return Moments(
        at=[point.at for point in found],
        hourly=[point.hourly for point in found],
        nodes=[point.nodes for point in found],
        pods=[point.pods for point in found],
        unpriced=[point.unpriced for point in found],
    )


def downsampled(points: Sequence[Point], most: int) -> list[Point]:
    """At most so many of the points: the first, the last, and the extremes of equal stretches."""
    if len(points) <= most:
        return list(points)
    inner = points[1:-1]
    stretches = (most - 2) // 2
    chosen = [points[0]]
    for number in range(stretches):
        start = len(inner) * number // stretches
        end = len(inner) * (number + 1) // stretches
        stretch = inner[start:end]
        low = min(stretch, key=lambda point: (point.hourly, point.at))
        high = max(stretch, key=lambda point: (point.hourly, -point.at))
        chosen += sorted({low, high}, key=lambda point: point.at)
    chosen.append(points[-1])
    return chosen
