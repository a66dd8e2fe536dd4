"""Interruptions and machine hours of spot, by instance type and zone, of the last two weeks.

They are kept by day, as text that fits in a ConfigMap: one row for each type and zone, with what was
seen on each day. What is older than two weeks is dropped, and of a text that is too long the rows
with the fewest machine hours, unless they were interrupted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from karpenter.scheduling.spot.risk import Place, Seen

DAYS: Final = 14
LONGEST: Final = 64 * 1024 - 1024  # bytes; an object has a name and metadata besides
_NOTHING: Final = Seen()


@dataclass(slots=True)
class SpotHistory:
    """What was seen, by place and day; the day is the number of days since year 1."""

    rows: dict[Place, dict[int, Seen]] = field(default_factory=dict)

    def add(self, place: Place, at: datetime, *, interruptions: int = 0, hours: float = 0) -> None:
        """Count what was seen at a place."""
        days = self.rows.setdefault(place, {})
        day = at.date().toordinal()
        before = days.get(day, _NOTHING)
        days[day] = Seen(before.interruptions + interruptions, before.hours + hours)

    def forget(self, now: datetime) -> None:
        """Drop what is older than two weeks."""
        first = now.date().toordinal() - DAYS + 1
        kept = {
            place: {day: seen for day, seen in days.items() if day >= first}
            for place, days in self.rows.items()
        }
        self.rows = {place: days for place, days in kept.items() if days}

    def seen(self) -> dict[Place, Seen]:
        """What was seen at each place, on all days together."""
        return {place: _total(days.values()) for place, days in self.rows.items()}

    def text(self, longest: int = LONGEST) -> str:
        """As it is kept: the rows that were used most, by name, as long as they fit."""
        lines = []
        left = longest
        for place in sorted(self.rows, key=self._rank):
            line = _line(place, self.rows[place])
            left -= len(line.encode()) + 1
            if left < 0:
                break
            lines.append(line)
        return "\n".join(sorted(lines))

    def _rank(self, place: Place) -> tuple[float, float, Place]:
        total = _total(self.rows[place].values())
        return -total.interruptions, -total.hours, place

    @classmethod
    def of_text(cls, text: str) -> "SpotHistory":
        """What was kept; what cannot be read is left out."""
        history = cls()
        for line in text.splitlines():
            row = _read(line)
            if row is not None:
                history.rows[row[0]] = row[1]
        return history


def _total(seen: Iterable[Seen]) -> Seen:
    found = list(seen)
    return Seen(sum(each.interruptions for each in found), sum(each.hours for each in found))


def _line(place: Place, days: Mapping[int, Seen]) -> str:
    told = (f"{day}:{seen.interruptions:g}:{seen.hours:.2f}" for day, seen in sorted(days.items()))
    return " ".join((place.instance_type, place.zone, *told))


def _read(line: str) -> tuple[Place, dict[int, Seen]] | None:
    instance_type, _, rest = line.partition(" ")
    zone, _, told = rest.partition(" ")
    days: dict[int, Seen] = {}
    for word in told.split():
        parts = word.split(":")
        try:
            day, interruptions, hours = int(parts[0]), float(parts[1]), float(parts[2])
        except (ValueError, IndexError):
            return None
        if not (0 <= interruptions < 1e9 and 0 <= hours < 1e9):
            return None
        days[day] = Seen(interruptions, hours)
    return (Place(instance_type, zone), days) if instance_type and zone and days else None
