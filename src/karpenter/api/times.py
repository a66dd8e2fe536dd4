"""Times and durations from outside, and their sums, which never overflow.

An API server accepts a grace period of three thousand years, a condition dated in the year 9999 and
a heartbeat of the year 0; Python's times end at the years 1 and 9999, and sums beyond raise. Input
must never cause that: times beyond the range are clamped to its end, times before it to its start.
All code that adds a duration to a time from outside, or makes a duration of a number from outside,
uses this module; a test finds code that does not.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)
_NOTHING: Final = timedelta(0)
_NANOSECONDS: Final = 1000  # in a microsecond
# Years that the server writes and Python cannot represent; a server writes times in UTC
_BEYOND: Final = re.compile(r"(?P<year>[+-]?\d{4,})-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
_LONGEST: Final = 64


def later(moment: datetime, length: timedelta) -> datetime:
    """The sum, clamped; a negative length gives an earlier time."""
    try:
        return moment + length
    except OverflowError:
        return LAST if length > _NOTHING else FIRST


def earlier(moment: datetime, length: timedelta) -> datetime:
    """The difference, clamped; a negative length gives a later time."""
    try:
        return moment - length
    except OverflowError:
        return FIRST if length > _NOTHING else LAST


def in_seconds(amount: float) -> timedelta:
    """A duration of ``amount`` seconds, clamped."""
    try:
        return timedelta(seconds=amount)
    except OverflowError:
        return timedelta.max if amount > 0 else timedelta.min


def in_nanoseconds(amount: int) -> timedelta:
    """A duration of ``amount`` nanoseconds, clamped.

    It is truncated towards zero to whole microseconds, the resolution of ``timedelta``.
    """
    whole = abs(amount) // _NANOSECONDS
    try:
        return timedelta(microseconds=whole if amount > 0 else -whole)
    except OverflowError:
        return timedelta.max if amount > 0 else timedelta.min


def in_utc(moment: datetime) -> datetime:
    """The same time in UTC."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return FIRST if moment.year == FIRST.year else LAST


def within_bounds(text: str) -> str:
    """The text of a time, or that of the nearest time Python can represent."""
    beyond = _BEYOND.fullmatch(text) if len(text) <= _LONGEST else None
    if beyond is None:
        return text
    year = int(beyond["year"])
    if FIRST.year <= year <= LAST.year:
        return text
    return (FIRST if year < FIRST.year else LAST).isoformat()
