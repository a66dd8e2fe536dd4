"""Refreshes instance types, prices and the cluster's version periodically."""

from collections.abc import Awaitable, Callable
from typing import Final

from karpenter.clock import Clock
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.telemetry import Metrics

HALF_A_DAY: Final = 12 * 3600.0
FIVE_MINUTES: Final = 300.0
HALF_AN_HOUR: Final = 1800.0


class Refresh(Rounds):
    """Runs one refresh periodically."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        metrics: Metrics,
        refresh: Callable[[], Awaitable[object]],
        period: float,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Call ``refresh`` every ``period`` seconds, first of all unless it ``is_fresh``."""
        self.name = name
        super().__init__(clock, metrics)
        self._refresh = refresh
        self._period = period
        self._is_fresh = is_fresh

    async def step(self) -> float:
        """Refresh once."""
        if self._is_fresh:
            self._is_fresh = False
        else:
            await self._refresh()
        return self._period
