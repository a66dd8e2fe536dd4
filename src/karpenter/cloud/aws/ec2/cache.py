"""Results that are kept: a TTL cache on an injected clock, and single-flight for equal work."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import Any, Generic, TypeVar

from karpenter.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values that expire ``seconds`` after they were put, unless put again."""

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


class Sharing(Generic[V]):
    """Single-flight with a small cache: equal work, concurrent or recent, is done once.

    Results that are still being worked out are shared too; failures are not kept.
    """

    def __init__(self, most: int = 0) -> None:
        """Share work under way, and keep so many results of the past."""
        self._most = most
        self._tasks: dict[Hashable, asyncio.Task[V]] = {}  # in the order they were begun

    async def get(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The result for ``key``, worked out by ``work`` unless that has been begun already."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(work())
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        # shielded: cancelling one waiter must not cancel the work for the others
        return await asyncio.shield(task)

    def _ended(self, key: Hashable, task: asyncio.Task[V]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._tasks.pop(key, None)
        done = [key for key, each in self._tasks.items() if each.done()]
        for old in done[: max(len(done) - self._most, 0)]:
            del self._tasks[old]


class IdentityKey:
    """An object as a key by identity, not by equality."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)
