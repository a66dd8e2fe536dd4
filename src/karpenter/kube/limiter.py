"""A token-bucket rate limit; callers are served in order of arrival."""

from karpenter.clock import Clock


class Bucket:
    """Tokens that come back at a steady rate; taking one never waits, it works or it does not."""

    __slots__ = ("_clock", "_filled_at", "_rate", "_size", "_tokens")

    def __init__(self, clock: Clock, rate: float, size: float) -> None:
        """Start full: ``size`` tokens, refilled at ``rate`` per second."""
        self._clock = clock
        self._rate = rate
        self._size = size
        self._tokens = size
        self._filled_at = clock.monotonic()

    def try_take(self) -> bool:
        """Take a token if there is one."""
        self._refill()
        # Sums of small parts of a token fall short of it by a rounding error
        if self._tokens < 1.0 - 1e-9:
            return False
        self._tokens -= 1.0
        return True

    def borrow(self) -> float:
        """Take a token even if there is none, and return the seconds until it will be there."""
        self._refill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def give_back(self) -> None:
        """Undo one taking."""
        self._tokens = min(self._size, self._tokens + 1.0)

    @property
    def is_full(self) -> bool:
        """Whether nothing has been taken lately."""
        self._refill()
        return self._tokens >= self._size

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._size, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now


class Limiter:
    """Lets callers through at ``qps`` a second on average, ``burst`` of them at once at most.

    Each caller reserves its own slot when it arrives, so that none overtakes and none starves.
    """

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(
                f"a limit lets at least some through; {qps} per second, {burst} at once does not"
            )
        self._clock = clock
        self._bucket = Bucket(clock, qps, burst)

    async def take(self) -> None:
        """Wait for a token."""
        seconds = self._bucket.borrow()
        if seconds <= 0.0:
            return
        try:
            await self._clock.sleep(seconds)
        except BaseException:
            # Cancelled while waiting: return the token to later callers
            self._bucket.give_back()
            raise
