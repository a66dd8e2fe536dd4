"""Single-flight with a small cache: equal work, concurrent or recent, is done once."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Sharing(Generic[V]):
    """Results by key, those that are still being worked out included; failures are not kept."""

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
