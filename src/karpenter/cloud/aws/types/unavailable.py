"""A cache of offerings that EC2 reported as sold out, so that launches avoid them for a while.

Entries live three minutes. An entry that has run out keeps counting until the next sweep, so that
expiry becomes visible to caches through ``sequence`` and never between two sweeps.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from karpenter.clock import Clock
from karpenter.model import labels

LIFETIME: Final = 180.0
SWEEP: Final = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """An offering, or all offerings of a placement group's part that share it."""

    instance_type: str
    zone: str
    capacity_type: str
    group: str = ""  # the id of a placement group
    partition: str = ""


class UnavailableOfferings:
    """The offerings that are sold out for the time being."""

    def __init__(self, clock: Clock) -> None:
        self.sequence = 0  # grows with every change, so that caches notice it
        self._clock = clock
        self._until: dict[Hashable, float] = {}  # Place, capacity type or subnet -> end
        self._next_sweep = 0.0

    def mark(self, place: Place) -> None:
        """Mark an offering as sold out; marking it again extends the entry."""
        self._mark(place)

    def mark_capacity_type(self, capacity_type: str) -> None:
        """Mark all offerings of a capacity type as unavailable."""
        self._mark(("capacity-type", capacity_type))

    def mark_subnet(self, subnet_id: str) -> None:
        """Mark a subnet as having no addresses left."""
        self._mark(("subnet", subnet_id))

    def is_unavailable(self, place: Place) -> bool:
        """Whether an offering is known to be sold out."""
        if not self._until:
            return False  # fast path: called for every offering
        self.sweep()
        plain = Place(place.instance_type, place.zone, place.capacity_type)
        known = self._until
        if plain in known or ("capacity-type", place.capacity_type) in known:
            return True
        if not place.group:
            return False
        grouped = Place(place.instance_type, place.zone, place.capacity_type, place.group)
        return grouped in known or place in known

    def are_full(self, subnet_ids: Iterable[str]) -> bool:
        """Whether every one of a zone's subnets has no addresses left."""
        self.sweep()
        listed = list(subnet_ids)
        return bool(listed) and all(("subnet", each) in self._until for each in listed)

    @property
    def marked_types(self) -> frozenset[str]:
        """The instance types some offering of which is sold out."""
        return frozenset(key.instance_type for key in self._until if isinstance(key, Place))

    @property
    def marked_capacity_types(self) -> frozenset[str]:
        """The capacity types that are unavailable as a whole."""
        return frozenset(
            each for each in labels.CAPACITY_TYPES if ("capacity-type", each) in self._until
        )

    def forget(self) -> None:
        """Drop all entries."""
        self._until.clear()
        self.sequence += 1

    def sweep(self) -> None:
        """Drop expired entries, at most once in a sweep interval."""
        now = self._clock.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP
        ended = [key for key, end in self._until.items() if end <= now]
        for key in ended:
            del self._until[key]
        self.sequence += bool(ended)

    def _mark(self, key: Hashable) -> None:
        self._until[key] = self._clock.monotonic() + LIFETIME
        self.sequence += 1
