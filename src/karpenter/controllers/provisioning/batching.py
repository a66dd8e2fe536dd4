"""Waiting a little, so that pods that arrive together are planned together.

Notation
    opened    when the first trigger came
    last      when the last trigger came that was news

A window closes at ``min(last + idle, opened + longest)``. The same object triggers once in a
window, whatever it does meanwhile; a trigger without a name is always news. What triggers while a
plan is made belongs to the next window, whose time runs already.
"""

import asyncio
from datetime import timedelta
from typing import Final

from karpenter.clock import Clock


class Window:
    """One window, told of triggers and their times, in seconds of any clock."""

    __slots__ = ("_idle", "_last", "_longest", "_opened", "_seen")

    def __init__(self, idle: float, longest: float) -> None:
        self._idle = idle
        self._longest = longest
        self._opened: float | None = None
        self._last = 0.0
        self._seen: set[str] = set()

    def trigger(self, uid: str, at: float) -> bool:
        """Take note of a trigger; say whether it is news. An empty uid names nothing."""
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
        """When the window closes unless there is news, or None while nothing has triggered."""
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
        """Ask for a plan on account of an object, or of something that has no name."""
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
