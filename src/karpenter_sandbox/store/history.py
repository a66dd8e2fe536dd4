"""The objects of one resource with their last changes, and the watches that follow these.

A watch is a position in the changes, so a slow reader costs no memory: it gets ``Gone`` once its
position has been dropped. The same changes, taken backwards, show the objects as they were. How
many changes are kept is bounded by their number, by their size, and by their age once ``compact``
is called regularly.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Final

from karpenter_sandbox.store.errors import Gone

if TYPE_CHECKING:
    from karpenter_sandbox.store.store import Event, Stored

# Bound on the changes kept for one resource; a change counts with the size of its object
HISTORY_BYTES: Final = 32 * 1024 * 1024
# The latest changes stay whatever their age: readers of a slow resource need not list again
_KEPT_BY_COMPACTION: Final = 512
# Trimming drops a quarter at once, so that the list is rarely shifted (amortised cost)
_KEPT_SHARE: Final = 0.75
# Parsed objects need several times the memory of their bytes; older events drop them
_PARSED_EVENTS: Final = 512
_PARSED_BYTES: Final = 4 * 1024 * 1024


class Collection:
    """All objects of one resource, with the changes they went through lately."""

    def __init__(self, floor: int, history: int) -> None:
        self.entries: dict[tuple[str, str], Stored] = {}  # (namespace, name) -> object
        self.order: list[tuple[str, str]] = []  # the keys of entries, sorted
        self.events: list[Event] = []
        self.first: int = 0  # position of events[0] since the beginning
        self.floor = floor  # changes up to this version may have been dropped
        self.is_open = True
        # Futures of watches that have seen everything, in the order in which they will wake
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._history = history
        self._bytes = 0  # of the events
        self._unparsed = 0  # position up to which events have dropped their parsed objects
        self._parsed_bytes = 0  # of the events after it
        self._compacted_at = 0  # position of the end when ``compact`` was called last

    def apply(self, event: "Event") -> None:
        """Apply ``event``: store the object, append to the history, wake the watches."""
        key = (event.stored.key.namespace, event.stored.key.name)
        if event.type == "DELETED":
            del self.entries[key]
            del self.order[bisect_left(self.order, key)]
        else:
            if key not in self.entries:
                insort(self.order, key)
            self.entries[key] = event.stored
        self.events.append(event)
        self._bytes += len(event.stored.data)
        self._parsed_bytes += len(event.stored.data)
        self._forget_parsed()
        self._trim()
        self.wake()

    def wake(self) -> None:
        """Wake every waiting watch."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def changed(self) -> None:
        """Wait for the next change."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def position(self, rv: int) -> int:
        """The position after the last change up to ``rv``.

        Raises:
            Gone: changes after ``rv`` have been dropped.
        """
        if rv < self.floor:
            raise Gone(rv, self.floor)
        return self.first + bisect_right(self.events, rv, key=lambda event: event.rv)

    def at(self, rv: int) -> tuple[dict[tuple[str, str], "Stored"], list[tuple[str, str]]]:
        """The objects, and their keys in order, as they were at ``rv``."""
        start = self.position(rv) - self.first
        if start == len(self.events):
            return self.entries, self.order
        entries = dict(self.entries)
        for event in reversed(self.events[start:]):
            key = (event.stored.key.namespace, event.stored.key.name)
            if event.type == "ADDED":
                del entries[key]
            else:
                assert event.previous is not None
                entries[key] = event.previous
        return entries, sorted(entries)

    def compact(self) -> None:
        """Drop the changes from before the previous call, as etcd is compacted regularly."""
        old = min(self._compacted_at - self.first, len(self.events) - _KEPT_BY_COMPACTION)
        if old > 0:
            self._drop(old)
        self._compacted_at = self.first + len(self.events)

    def forget_parsed(self) -> None:
        """Let all objects give up what was parsed of them."""
        for stored in self.entries.values():
            stored.forget_parsed()

    def _forget_parsed(self) -> None:
        """Let all but the latest events give up their parsed objects."""
        last = self.first + len(self.events)
        while last - self._unparsed > 1 and (
            last - self._unparsed > _PARSED_EVENTS or self._parsed_bytes > _PARSED_BYTES
        ):
            event = self.events[self._unparsed - self.first]
            self._unparsed += 1
            self._parsed_bytes -= len(event.stored.data)
            old = event.stored
            if self.entries.get((old.key.namespace, old.key.name)) is not old:
                old.forget_parsed()
            # It was skipped when its own event aged out, if it was the current object then
            if event.previous is not None:
                event.previous.forget_parsed()

    def _trim(self) -> None:
        # Trimmed at twice the length, so that each event is moved once (amortised cost)
        if len(self.events) >= 2 * self._history:
            self._drop(self._history)
        if self._bytes > HISTORY_BYTES and len(self.events) > 1:
            left, count = self._bytes, 0
            while left > _KEPT_SHARE * HISTORY_BYTES and count < len(self.events) - 1:
                left -= len(self.events[count].stored.data)
                count += 1
            self._drop(count)

    def _drop(self, count: int) -> None:
        """Forget the oldest changes."""
        dropped = self.events[:count]
        self._bytes -= sum(len(event.stored.data) for event in dropped)
        parsed = dropped[self._unparsed - self.first :]
        self._parsed_bytes -= sum(len(event.stored.data) for event in parsed)
        self.floor = dropped[-1].rv
        self.first += count
        self._unparsed = max(self._unparsed, self.first)
        del self.events[:count]


class Watch:
    """The changes of one resource after a resource version; iterate it, or take batches."""

    def __init__(self, collection: Collection, namespace: str | None, position: int) -> None:
        self._collection = collection
        self._namespace = namespace
        self._position = position
        self._pending: list[Event] = []

    def ready(self) -> list["Event"]:
        """Take the changes that have happened, without waiting.

        Raises:
            Gone: this watch was so slow that the changes it needs next have been dropped.
        """
        start = self._position - self._collection.first
        if start < 0:
            floor = self._collection.floor
            raise Gone(floor - 1, floor)
        events = self._collection.events[start:]
        self._position += len(events)
        if self._namespace is None:
            return events
        return [event for event in events if event.stored.key.namespace == self._namespace]

    async def batch(self) -> list["Event"]:
        """Wait for changes and take them all; an empty list means the resource is gone."""
        while True:
            events = self.ready()
            if events or not self._collection.is_open:
                return events
            await self._collection.changed()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> "Event":
        if not self._pending:
            self._pending = await self.batch()
            self._pending.reverse()
        if not self._pending:
            raise StopAsyncIteration
        return self._pending.pop()
