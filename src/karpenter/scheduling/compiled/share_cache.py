"""Shares that one pass leaves to the next ones, while pools and prices stand.

Proving them is most of a search, and the pods of a cluster change all the time, but what there is to
buy does not: pods with the same demands keep their share for a while.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.times import later
from karpenter.scheduling.problem import PoolCatalogue

_KEPT: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KnownShares:
    """Shares that were proved, by what pods ask for."""

    at: datetime
    catalogues: Sequence[PoolCatalogue]  # what was on sale then
    share_of: Mapping[bytes, float]  # kind of pod -> dollars per hour
    groups: Mapping[str, str]  # pool -> the first of those that share pods with it


class ShareCache:
    """The latest shares that were proved."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: KnownShares | None = None

    def put(self, known: KnownShares) -> None:
        """Keep what a pass has found."""
        self._known = known

    def find(self, now: datetime, on_sale: Sequence[PoolCatalogue]) -> KnownShares | None:
        """What a pass has found for the same pools and prices, if that is not too long ago.

        State hands out the same objects until they change, so they are compared by identity.
        """
        known = self._known
        if known is None or not known.at <= now < later(known.at, _KEPT):
            return None
        is_same = len(on_sale) == len(known.catalogues) and all(
            one.node_pool is other.node_pool and one.instance_types is other.instance_types
            for one, other in zip(on_sale, known.catalogues, strict=True)
        )
        return known if is_same else None
