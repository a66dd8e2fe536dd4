"""Capacity reservations of node classes, and how many instances each of them still takes.

EC2's count lags. A launch subtracts one at once and a confirmed termination adds one, until the
next description brings EC2's own number.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api.node_classes.ec2 import (
    CapacityReservationSelectorTerm,
    CapacityReservationStatus,
    EC2NodeClass,
)
from karpenter.api.times import earlier
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsNotFoundError
from karpenter.cloud.aws.ec2.tags import Filter, equals, tag_filters

CAPACITY_BLOCK: Final = "capacity-block"
ACTIVE: Final = "active"
EXPIRING: Final = "expiring"
# EC2 ends the instances of a capacity block thirty minutes before its end; nodes need longer
ENDS_EARLY: Final = timedelta(minutes=40)
_PAGE: Final = 1000
_LIFETIME: Final = timedelta(minutes=1)
_COUNTS_LIVE: Final = timedelta(hours=24)


class CapacityReservations:
    """The capacity reservations of a region, as node classes select them."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self.sequence = 0  # grows with every change of a count
        self._calls = calls
        self._clock = clock
        self._found: TtlCache[tuple[str, int], tuple[dict[str, Any], ...]] = TtlCache(
            clock, _LIFETIME.total_seconds()
        )
        self._counts: TtlCache[str, int] = TtlCache(clock, _COUNTS_LIVE.total_seconds())

    async def list(self, node_class: EC2NodeClass) -> tuple[CapacityReservationStatus, ...]:
        """The reservations a node class selects that have not ended, each once, by id."""
        key = (node_class.metadata.uid, node_class.metadata.generation)
        entries = self._found.get(key)
        if entries is None:
            entries = self._found.put(key, await self._describe(node_class))
            for entry in entries:
                self._set(entry["CapacityReservationId"], entry.get("AvailableInstanceCount", 0))
        now = self._clock.now()
        found = [_status(entry, now) for entry in entries]
        return tuple(each for each in found if each.end_time is None or each.end_time > now)

    def available(self, reservation_id: str) -> int:
        """How many instances a reservation still takes."""
        return self._counts.get(reservation_id) or 0

    def launched(self, reservation_id: str) -> None:
        """Take note of an instance launched into a reservation."""
        self._set(reservation_id, max(0, self.available(reservation_id) - 1))

    def terminated(self, reservation_id: str) -> None:
        """Take note that an instance of a reservation is gone."""
        self._set(reservation_id, self.available(reservation_id) + 1)

    def exhaust(self, reservation_id: str) -> None:
        """Set the count of a reservation to zero, after EC2 refused a launch into it."""
        self._set(reservation_id, 0)

    def _set(self, reservation_id: str, count: int) -> None:
        if self._counts.get(reservation_id) != count:
            self.sequence += 1
        self._counts.put(reservation_id, count)

    async def _describe(self, node_class: EC2NodeClass) -> tuple[dict[str, Any], ...]:
        found: dict[str, dict[str, Any]] = {}
        for term in node_class.spec.capacity_reservation_selector_terms:
            for entry in await self._entries(term):
                found[entry["CapacityReservationId"]] = entry
        return tuple(found[key] for key in sorted(found))

    async def _entries(self, term: CapacityReservationSelectorTerm) -> Sequence[dict[str, Any]]:
        filters = [equals("state", [ACTIVE])]
        if term.id:
            try:
                return await self._pages(CapacityReservationIds=[term.id], Filters=filters)
            except AwsNotFoundError:
                return ()
        filters += _term_filters(term)
        return await self._pages(Filters=filters, MaxResults=_PAGE)

    async def _pages(self, **parameters: Any) -> Sequence[dict[str, Any]]:
        found: Sequence[dict[str, Any]] = await self._calls.pages(
            "ec2", "DescribeCapacityReservations", "CapacityReservations", **parameters
        )
        return found


def _term_filters(term: CapacityReservationSelectorTerm) -> list[Filter]:
    filters = tag_filters(term.tags)
    if term.owner_id:
        filters.append(equals("owner-id", [term.owner_id]))
    if term.instance_match_criteria:
        filters.append(equals("instance-match-criteria", [term.instance_match_criteria]))
    return filters


def _status(entry: dict[str, Any], now: datetime) -> CapacityReservationStatus:
    ends = entry.get("EndDate")
    kind = entry.get("ReservationType") or "default"
    is_expiring = kind == CAPACITY_BLOCK and ends is not None and now >= earlier(ends, ENDS_EARLY)
    return CapacityReservationStatus(
        id=entry["CapacityReservationId"],
        availability_zone=entry.get("AvailabilityZone", ""),
        instance_type=entry.get("InstanceType", ""),
        instance_match_criteria=entry.get("InstanceMatchCriteria", ""),
        owner_id=entry.get("OwnerId", ""),
        reservation_type=kind,
        state=EXPIRING if is_expiring else ACTIVE,
        interruptible=bool(entry.get("Interruptible", False)),
        end_time=ends,
    )
