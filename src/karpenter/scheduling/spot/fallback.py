"""Claims that fell back to on-demand, and when they go back to spot.

A pool with the annotation ``return-to-spot`` wants its machines on spot again once spot has been on
sale for some time. Everything about that is kept on the NodeClaim:

    spot-price        by the planner: the least its pods would cost an hour on spot, sold out or not
    fell-back         at the launch: when it was launched on-demand although spot was cheaper
    spot-on-sale      since when which of the types that fit have been on sale without a break
    return-failed     how many returns have failed; each doubles the wait
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.times import later
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import durations, labels
from karpenter.model.conditions import moment_of, timestamp
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

RETURN_TO_SPOT: Final = "cost.karpenter.sh/return-to-spot"
LEAST_TYPES: Final = 15  # on sale all the time, before a machine goes back to spot
MOST_TYPES: Final = 60  # followed for one claim
LONGEST_WAIT: Final = timedelta(hours=6)
_MOST_FAILURES: Final = 32  # the wait has long been the longest


@dataclass(frozen=True, slots=True)
class OnSale:
    """The types that have been on sale on spot since a moment, cheapest first."""

    since: datetime
    types: tuple[str, ...]

    def text(self) -> str:
        """As it is kept in the annotation."""
        return f"{timestamp(self.since)} {','.join(self.types)}"


@dataclass(frozen=True, slots=True)
class Return:
    """When a claim that fell back may return to spot."""

    wait: timedelta
    failures: int
    on_sale: OnSale | None

    @property
    def due(self) -> datetime | None:
        """When it returns if nothing is sold out until then; None while too little is on sale."""
        if self.on_sale is None or len(self.on_sale.types) < LEAST_TYPES:
            return None
        return later(self.on_sale.since, self.wait)

    def is_due(self, now: datetime) -> bool:
        """Whether it may return now."""
        return self.due is not None and now >= self.due

    @property
    def types(self) -> frozenset[str]:
        """The types it may return to."""
        return frozenset(self.on_sale.types if self.on_sale is not None else ())

    def in_words(self) -> str:
        """What it waits for."""
        lasting = durations.text(self.wait)
        if self.due is not None:
            return f"it fell back to on-demand, and returns to spot at {timestamp(self.due)}"
        return (
            f"it fell back to on-demand, and returns to spot once {LEAST_TYPES} instance types that"
            f" fit have been on sale for {lasting}"
        )


def return_wait(pool: NodePool) -> timedelta | None:
    """How long spot must have been on sale for machines of a pool to return; None for never."""
    text = pool.metadata.annotations.get(RETURN_TO_SPOT)
    return None if text is None else durations.period(text.strip())


def invalid_return(pool: NodePool) -> list[str]:
    """One sentence if the annotation of a pool cannot be read."""
    text = pool.metadata.annotations.get(RETURN_TO_SPOT)
    if text is None or text.strip() == durations.NEVER or return_wait(pool) is not None:
        return []
    said = f"{text!r} is neither a duration such as 30m nor Never"
    return [f"annotation {RETURN_TO_SPOT}: {said}; it counts as Never"]


def return_of(claim: NodeClaim, pool: NodePool) -> Return | None:
    """When a claim may return to spot; None when it did not fall back or its pool does not ask."""
    held = claim.metadata.annotations
    if labels.FELL_BACK not in held:
        return None
    wait = return_wait(pool)
    if wait is None:
        return None
    failures = failures_of(held)
    stretched = min(wait * 2 ** min(failures, _MOST_FAILURES), max(wait, LONGEST_WAIT))
    return Return(stretched, failures, on_sale_of(held))


def failures_of(annotations: Mapping[str, str]) -> int:
    """How many returns of a claim have failed."""
    text = annotations.get(labels.RETURN_FAILED, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0


def failed_return(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """What a failed return changes in the annotations of a claim; counting begins anew."""
    failures = str(failures_of(annotations) + 1)
    return {labels.RETURN_FAILED: failures, labels.SPOT_ON_SALE: None}


def on_sale_of(annotations: Mapping[str, str]) -> OnSale | None:
    """What has been on sale for a claim; None where that cannot be read or was never noted."""
    moment, _, names = annotations.get(labels.SPOT_ON_SALE, "").partition(" ")
    since = moment_of(moment)
    return OnSale(since, tuple(filter(None, names.split(",")))) if since is not None else None


def followed(before: OnSale | None, now_on_sale: Sequence[str], now: datetime) -> OnSale | None:
    """What has been on sale without a break, after another look.

    Types that are sold out drop off; when fewer are left than a return needs, counting begins anew
    with what is on sale now. None when that is too little as well.

    Args:
        now_on_sale: the types that fit and can be bought on spot now, cheapest first.
    """
    if before is not None and len(before.types) >= LEAST_TYPES:
        on_sale = frozenset(now_on_sale)
        left = tuple(name for name in before.types if name in on_sale)
        if len(left) >= LEAST_TYPES:
            return OnSale(before.since, left)
    if len(now_on_sale) < LEAST_TYPES:
        return None
    return OnSale(now, tuple(now_on_sale[:MOST_TYPES]))


def spot_offerings(
    types: Iterable[InstanceType], wanted: Requirements, needs: Resources
) -> list[tuple[Offering, InstanceType]]:
    """The spot offerings of types that suit a machine, sold out or not, cheapest of each type.

    Args:
        types: those of its pool.
        wanted: what the machine must be; its capacity type is not looked at.
        needs: what pods and daemons take.
    """
    asked = Requirements(entry for entry in wanted if entry.key not in _OPEN)
    found = []
    for kind in types:
        if not kind.requirements.intersects(asked):
            continue
        suiting = [
            each
            for each in kind.offerings
            if each.capacity_type == labels.SPOT
            and each.price == each.price
            and each.requirements.intersects(asked)
            and _holds(kind.allocatable_of(each), needs)
        ]
        if suiting:
            found.append((min(suiting, key=lambda each: each.price), kind))
    return found


def types_on_sale(
    types: Iterable[InstanceType], wanted: Requirements, needs: Resources
) -> list[str]:
    """The types that suit a machine and can be bought on spot now, cheapest first."""
    selling = (
        kind.with_offerings(tuple(each for each in kind.offerings if each.is_launchable))
        for kind in types
    )
    found = spot_offerings(selling, wanted, needs)
    ranked = ((offering.price, kind.name) for offering, kind in found)
    return [name for _, name in heapq.nsmallest(MOST_TYPES, ranked)]


_OPEN: Final = frozenset({labels.CAPACITY_TYPE, labels.INSTANCE_TYPE, labels.HOSTNAME})


def _holds(has: Resources, needs: Resources) -> bool:
    return all(has[name] >= amount for name, amount in needs.items())
