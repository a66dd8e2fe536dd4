"""A work queue of keys: deduplicated, never processed concurrently, with delays and back-off.

A key added while it waits is one piece of work; a key added while it is being worked on comes
again afterwards. Order is first come, first served, so a run in virtual time repeats itself.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from karpenter.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a key waits after each failure in a row, in seconds."""

    first: float = 0.005
    last: float = 1000.0

    def after(self, failures: int) -> float:
        """The wait after so many failures before this one."""
        return float(min(self.first * 2.0 ** min(failures, 60), self.last))


# The values of client-go: short delays at first, because most failures are races
QUICK: Final = Backoff()


class QueueObserver(Protocol):
    """Observes the activity of a queue."""

    def added(self) -> None:
        """Note that a key was asked for."""

    def retried(self) -> None:
        """Note that a key comes again because its work failed."""

    def taken(self, waited: float) -> None:
        """Note that work on a key begins after so many seconds."""


@dataclass(frozen=True, slots=True)
class _Later:
    due: float
    timer: Timer


class WorkQueue(Generic[K]):
    """A queue of keys for one controller."""

    def __init__(self, clock: Clock, backoff: Backoff = QUICK) -> None:
        self.observer: QueueObserver | None = None
        self._clock = clock
        self._backoff = backoff
        self._waiting: dict[K, float] = {}  # since when, in order of arrival
        self._working: set[K] = set()
        self._again: dict[K, None] = {}  # added while being worked on
        self._later: dict[K, _Later] = {}
        self._failures: dict[K, int] = {}  # failures in a row
        self._wakeup = asyncio.Event()

    def __len__(self) -> int:
        """How many keys wait, not counting those that wait for a time."""
        return len(self._waiting) + len(self._again)

    def add(self, key: K) -> None:
        """Enqueue ``key`` now."""
        if key in self._working:
            self._again[key] = None
            return
        if key not in self._waiting:
            self._waiting[key] = self._clock.monotonic()
            if self.observer is not None:
                self.observer.added()
        self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Enqueue ``key`` after a delay; an earlier time that is already set stays."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        planned = self._later.get(key)
        if planned is not None:
            if planned.due <= due:
                return
            planned.timer.cancel()
        self._later[key] = _Later(due, self._clock.call_later(seconds, lambda: self._is_due(key)))

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """Enqueue ``key`` after its back-off, and return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = max(self._backoff.after(failures), at_least)
        if self.observer is not None:
            self.observer.retried()
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """Reset the back-off of ``key``, because its work succeeded."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; call ``done`` when its work is over."""
        while not self._waiting:
            self._wakeup.clear()
            await self._wakeup.wait()
        key = next(iter(self._waiting))
        since = self._waiting.pop(key)
        if self.observer is not None:
            self.observer.taken(self._clock.monotonic() - since)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """End the work on ``key``; it waits again when it was added meanwhile."""
        self._working.discard(key)
        if key in self._again:
            del self._again[key]
            self.add(key)

    def clear(self) -> None:
        """Drop everything that waits, for now or for a time."""
        for later in self._later.values():
            later.timer.cancel()
        self._later.clear()
        self._waiting.clear()
        self._again.clear()
        self._failures.clear()

    def _is_due(self, key: K) -> None:
        del self._later[key]
        self.add(key)
