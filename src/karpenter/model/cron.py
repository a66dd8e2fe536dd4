"""Cron schedules: five fields or a shorthand, and the moments they name."""

import calendar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.times import later

_SHORTHANDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {name.lower(): n for n, name in enumerate(calendar.month_abbr) if name}
_DAYS: Final = {name: n for n, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 7, _DAYS),
)
_ANYTHING: Final = ("*", "?")
# The 29th of February recurs within eight years, also around 2100, which is no leap year
_HORIZON: Final = timedelta(days=366 * 8 + 1)
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


class ScheduleError(ValueError):
    """A schedule that cannot be parsed or never comes."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes, hours and days on which something is due."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    is_any_day: bool
    is_any_weekday: bool

    def next_after(self, moment: datetime) -> datetime:
        """The first time after ``moment``, in its time zone.

        Raises:
            ScheduleError: there is none, because the date does not exist.
        """
        candidate = later(moment.replace(second=0, microsecond=0), _MINUTE)
        last = later(moment, _HORIZON)
        while candidate < last:
            if candidate.month not in self.months or not self._has_day(candidate):
                candidate = later(candidate.replace(hour=0, minute=0), _DAY)
            elif candidate.hour not in self.hours:
                candidate = later(candidate.replace(minute=0), _HOUR)
            elif candidate.minute not in self.minutes:
                candidate = later(candidate, _MINUTE)
            else:
                return candidate
        raise ScheduleError("the schedule never comes due")

    def _has_day(self, moment: datetime) -> bool:
        on_day = moment.day in self.days
        on_weekday = moment.isoweekday() % 7 in self.weekdays
        # As in cron: with both fields restricted, either is enough; else both have to match
        if self.is_any_day or self.is_any_weekday:
            return on_day and on_weekday
        return on_day or on_weekday


def parse_schedule(text: str) -> Schedule:
    """Read a schedule of five fields, or one of the shorthands such as ``@daily``.

    Raises:
        ScheduleError: it is not such a schedule.
    """
    fields = _SHORTHANDS.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{text}]")
    minutes, hours, days, months, weekdays = (
        _values(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
    )
    return Schedule(
        minutes,
        hours,
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        is_any_day=_is_any(fields[2]),
        is_any_weekday=_is_any(fields[4]),
    )


def _is_any(field: str) -> bool:
    """Whether a field is ``*``; a step such as ``*/2`` restricts it."""
    spans = (part.partition("/") for part in field.split(","))
    return any(span in _ANYTHING and (not step or int(step) == 1) for span, _, step in spans)


def _values(field: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    values: set[int] = set()
    utmost = max(names.values(), default=high)  # 6 for weekdays, though 7 is accepted as Sunday
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        try:
            if span in _ANYTHING:
                start, end = low, utmost
            else:
                start = _number(first, names)
                end = _number(last, names) if dash else (utmost if step else start)
            width = int(step) if step else 1
        except ValueError as error:
            raise ScheduleError(f"failed to parse {part}") from error
        if not low <= start <= end <= high or width < 1:
            raise ScheduleError(f"{part} is not between {low} and {high}")
        values.update(range(start, end + 1, width))
    return frozenset(values)


def _number(text: str, names: dict[str, int]) -> int:
    return names[text.lower()] if text.lower() in names else int(text)
