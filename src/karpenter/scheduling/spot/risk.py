"""What the risk of an interruption costs an hour, by instance type and zone.

The rate of interruptions is estimated from those that were seen in as many machine hours, both of
the last two weeks. Small counts are drawn towards one interruption in a thousand hours, which is
the rate where nothing is known: it is the same for all, so it changes no order within spot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PRIOR_INTERRUPTIONS: Final = 0.2
PRIOR_HOURS: Final = 200.0


class Place(NamedTuple):
    """Where spot machines are interrupted alike."""

    instance_type: str
    zone: str


class Seen(NamedTuple):
    """What was seen at one place."""

    interruptions: float = 0.0
    hours: float = 0.0  # of machines

    @property
    def rate(self) -> float:
        """Interruptions to be expected in one machine hour."""
        return (self.interruptions + PRIOR_INTERRUPTIONS) / (self.hours + PRIOR_HOURS)


@dataclass(frozen=True, slots=True)
class SpotRisk:
    """The price of interruptions."""

    cost: float  # dollars that one interrupted machine costs; above zero
    seen: Mapping[Place, Seen] = field(default_factory=dict)

    def hourly(self, instance_type: str, zone: str) -> float:
        """Dollars an hour to be added to the price of spot."""
        return self.cost * self.seen.get(Place(instance_type, zone), Seen()).rate
