"""A client-side rate limit for one operation of AWS, in force only after AWS has throttled it.

AWS throttles per operation, so each has its own limit. A throttled call halves the rate; every
second without one raises it again, until the limit is dropped. This keeps a controller that starts
after an outage from spending its whole quota on retries.
"""

import asyncio
from typing import Final

from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.errors import AwsError, AwsThrottledError

_STARTING_RATE: Final = 20.0  # calls per second after the first throttled call
_SLOWEST: Final = 0.5
_GROWTH: Final = 1.0  # calls per second, gained each second
_CAREFREE: Final = 100.0  # from this rate on there is no limit
# Throttled calls within this time count once: concurrent calls are throttled together
_SAME_COMPLAINT: Final = 1.0
_LOOK_AGAIN: Final = 1.0  # longest sleep before the rate, which may have grown, is read again
_TINY: Final = 1e-6  # seconds that are not worth waiting for


class Pace:
    """The rate of one operation."""

    __slots__ = ("_changed_at", "_clock", "_rate", "_taken_at", "_turn")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate = 0.0  # no limit
        self._changed_at = 0.0
        self._taken_at = 0.0  # when the last call was let through
        self._turn = asyncio.Lock()  # first come, first served

    async def take(self) -> None:
        """Wait until a call may be made."""
        if not self._rate_now():
            return
        async with self._turn:
            while (wait := self._wait()) > _TINY:
                await self._clock.sleep(min(wait, _LOOK_AGAIN))
            self._taken_at = self._clock.monotonic()

    def note(self, error: AwsError) -> None:
        """Halve the rate if ``error`` says that the call was throttled."""
        if not isinstance(error, AwsThrottledError):
            return
        now = self._clock.monotonic()
        rate = self._rate_now()
        if rate and now - self._changed_at < _SAME_COMPLAINT:
            return
        self._rate = max(rate / 2.0, _SLOWEST) if rate else _STARTING_RATE
        self._changed_at = now

    def _wait(self) -> float:
        rate = self._rate_now()
        return self._taken_at + 1.0 / rate - self._clock.monotonic() if rate else 0.0

    def _rate_now(self) -> float:
        if not self._rate:
            return 0.0
        grown = self._rate + (self._clock.monotonic() - self._changed_at) * _GROWTH
        if grown >= _CAREFREE:
            self._rate = 0.0
        return grown if self._rate else 0.0
