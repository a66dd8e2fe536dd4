"""Periodic work that is retried after errors."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from karpenter.clock import Clock
from karpenter.kube.workqueue import Backoff
from karpenter.runtime import LoopController
from karpenter.telemetry import Metrics

HALF_A_DAY: Final = 12 * 3600.0
FIVE_MINUTES: Final = 300.0
HALF_AN_HOUR: Final = 1800.0

_log: Final = structlog.get_logger(__name__)


class Rounds(LoopController):
    """Base of periodic work; a failed round is retried with back-off."""

    backoff = Backoff(1.0, 60.0)

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        super().__init__(clock, _log, metrics)


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
        """Call ``refresh`` every ``period`` seconds, the first time at once unless ``is_fresh``."""
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
