"""Reserved capacity: how many claims a reservation can still serve in this pass.

Every claim that could use a reservation holds one unit of it, so that two claims never count on
the same instance. In strict mode a pod waits for a reservation rather than use other capacity;
otherwise a used-up reservation is ignored.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from karpenter.scheduling.compiled.offerings import OfferingIndex


class ReservedOut(Enum):
    """Why reservations keep a pod from a claim."""

    DEFER = "wait for the reservation"
    FAIL = "nothing but a used-up reservation"


class Reservations:
    """What is left of each reservation in a pass."""

    def __init__(
        self,
        universes: Iterable[OfferingIndex],
        *,
        strict: bool,
        credits: Mapping[str, int] | None = None,  # noqa: A002 -- what disrupted nodes will free
    ) -> None:
        """Count the reservations of every pool's types; one named twice counts as its lowest."""
        self._strict = strict
        self._left: dict[str, int] = {}
        for universe in universes:
            for name, count in universe.reservations:
                self._left[name] = min(self._left.get(name, count), count)
        self._credited = {
            name for name, n in (credits or {}).items() if n > 0 and name in self._left
        }
        for name in self._credited:
            self._left[name] += (credits or {})[name]

    def could_hold(self, universe: OfferingIndex, bits: int) -> bool:
        """Whether any of these offerings is of a reservation that a claim may wait for or hold."""
        return any(
            offering.reservation_capacity > 0 or offering.reservation_id in self._credited
            for bit in universe.members(bits & universe.reserved)
            for offering in (universe.offerings[bit],)
        )

    def judge(
        self, universe: OfferingIndex, bits: int, held: frozenset[str]
    ) -> frozenset[str] | ReservedOut:
        """Return the reservations a claim with these offerings would hold, or why it may not be."""
        usable: set[str] = set()  # those with capacity of their own or credited
        bookable: set[str] = set()
        full = False
        for bit in universe.members(bits & universe.reserved):
            offering = universe.offerings[bit]
            name = offering.reservation_id
            if offering.reservation_capacity <= 0 and name not in self._credited:
                full = True
                continue
            usable.add(name)
            if name in held or self._left.get(name, 0) > 0:
                bookable.add(name)
        if self._strict and ((usable and not bookable) or (held and not bookable)):
            return ReservedOut.DEFER
        if full and not usable and not bits & ~universe.reserved:
            return ReservedOut.DEFER if self._strict else ReservedOut.FAIL
        return frozenset(bookable)

    def rebook(self, universe: OfferingIndex, bits: int, held: frozenset[str]) -> frozenset[str]:
        """Hold what a claim with these offerings can use and release what it cannot."""
        wanted = self.judge(universe, bits, held)
        if isinstance(wanted, ReservedOut):
            wanted = frozenset()
        for name in held - wanted:
            self._left[name] += 1
        for name in wanted - held:
            self._left[name] -= 1
        return wanted
