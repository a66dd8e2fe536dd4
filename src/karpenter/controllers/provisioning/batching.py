"""The batch window: pods that arrive together are planned together.

Notation
    opened    when the first trigger came
    last      when the last trigger came that was new

A window closes at ``min(last + idle, opened + longest)``. The same object triggers once in a
window, however often it changes; a trigger without a name is always new. A trigger that arrives
while a plan is being made belongs to the next window, which it opens.
"""

import asyncio
from datetime import timedelta
from typing import Final

from karpenter.clock import Clock


class Window:
    """One batch window; the times of triggers are seconds of any clock."""

    __slots__ = ("_idle", "_last", "_longest", "_opened", "_seen")

    def __init__(self, idle: float, longest: float) -> None:
        self._idle = idle
        self._longest = longest
        self._opened: float | None = None
        self._last = 0.0
        self._seen: set[str] = set()

    def trigger(self, uid: str, at: float) -> bool:
        """Record a trigger; return whether it is new. An empty uid is always new."""
        if uid in self._seen:
            return False
        if uid:
            self._seen.add(uid)
        if self._opened is None:
            self._opened = at
        self._last = at
        return True

    @property
    def closes_at(self) -> float | None:
        """When the window closes without further triggers; None while nothing has triggered."""
        if self._opened is None:
            return None
        return min(self._last + self._idle, self._opened + self._longest)


class Batcher:
    """Collects triggers until a window closes."""

    def __init__(self, clock: Clock, *, idle: timedelta, longest: timedelta) -> None:
        self._clock: Final = clock
        self._idle: Final = idle.total_seconds()
        self._longest: Final = longest.total_seconds()
        self._window = Window(self._idle, self._longest)
        self._news = asyncio.Event()

    def trigger(self, uid: str = "") -> None:
        """Request a plan because of an object, or of something that has no uid."""
        if self._window.trigger(uid, self._clock.monotonic()):
            self._news.set()

    async def batch(self) -> None:
        """Wait until something has triggered and its window has closed."""
        while True:
            self._news.clear()
            closes_at = self._window.closes_at
            if closes_at is None:
                await self._news.wait()
                continue
            left = closes_at - self._clock.monotonic()
            if left <= 0:
                break
            await self._clock.wait(self._news, seconds=left)
        self._window = Window(self._idle, self._longest)
