"""How fast one AWS service may be called: as fast as one likes, until it complains.

A service that throttles is called at half the rate from then on; every second without a complaint
the rate grows again, until the limit is dropped. This keeps a controller that came up after an
outage from spending its whole quota on retries.
"""

from typing import Final

from karpenter.clock import Clock
from karpenter.cloud.aws.errors import AwsError, AwsThrottledError

_STARTING_RATE: Final = 20.0  # calls per second after the first complaint
_SLOWEST: Final = 0.5
_GROWTH: Final = 1.0  # calls per second, gained each second
_CAREFREE: Final = 100.0  # from this rate on there is no limit


class Pace:
    """The rate of one service."""

    __slots__ = ("_changed_at", "_clock", "_free_at", "_rate")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate = 0.0  # no limit
        self._changed_at = 0.0
        self._free_at = 0.0

    async def take(self) -> None:
        """Wait until a call may be made."""
        rate = self._rate_now()
        if not rate:
            return
        now = self._clock.monotonic()
        mine = max(self._free_at, now)
        self._free_at = mine + 1.0 / rate
        if mine > now:
            await self._clock.sleep(mine - now)

    def note(self, error: AwsError) -> None:
        """Slow down if ``error`` is a complaint about too many calls."""
        if not isinstance(error, AwsThrottledError):
            return
        rate = self._rate_now()
        self._rate = max(rate / 2.0, _SLOWEST) if rate else _STARTING_RATE
        self._changed_at = self._clock.monotonic()

    def _rate_now(self) -> float:
        if not self._rate:
            return 0.0
        grown = self._rate + (self._clock.monotonic() - self._changed_at) * _GROWTH
        if grown >= _CAREFREE:
            self._rate = 0.0
        return grown if self._rate else 0.0
