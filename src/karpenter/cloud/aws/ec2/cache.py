"""A TTL cache for discovered values, on an injected clock."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from karpenter.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values that are forgotten ``seconds`` after they were put, unless put again."""

    __slots__ = ("_clock", "_entries", "_next_sweep", "_seconds")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._entries: dict[K, tuple[float, V]] = {}  # key -> end of life and value
        self._next_sweep = 0.0

    def get(self, key: K) -> V | None:
        """The value of a key that is still fresh."""
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._clock.monotonic():
            return None
        return entry[1]

    def put(self, key: K, value: V, seconds: float | None = None) -> V:
        """Keep a value for its lifetime, or for ``seconds``, and return it."""
        now = self._clock.monotonic()
        if now >= self._next_sweep:
            self._sweep(now)
        self._entries[key] = (now + (self._seconds if seconds is None else seconds), value)
        return value

    def drop(self, key: K) -> None:
        """Forget a key."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def items(self) -> Iterator[tuple[K, V]]:
        """The keys that are still fresh, with their values."""
        now = self._clock.monotonic()
        return iter([(key, value) for key, (end, value) in self._entries.items() if end > now])

    def __contains__(self, key: K) -> bool:
        """Whether a key is still fresh."""
        entry = self._entries.get(key)
        return entry is not None and entry[0] > self._clock.monotonic()

    def _sweep(self, now: float) -> None:
        self._next_sweep = now + 60.0
        for key in [key for key, (end, _) in self._entries.items() if end <= now]:
            del self._entries[key]
