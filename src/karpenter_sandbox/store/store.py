"""Objects as bytes, one counter of resource versions, and a history that watches follow.

Every change stamps ``metadata.resourceVersion`` with the next number of one counter, which is
shared by all resources. Each resource keeps its last changes, which watches follow and which take
a list back to an earlier resource version, so that paging is consistent.

Objects handed out are shared and immutable by convention: a change builds a new one. The store
belongs to one event loop; nothing here is safe to call from two threads.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.store.errors import (
    AlreadyExistsError,
    ConflictError,
    MissingError,
    NotYet,
    TooLargeError,
)
from karpenter_sandbox.store.history import Collection, Watch

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
_Objects: TypeAlias = list[JsonObject]
_Entries: TypeAlias = "list[Stored]"

# Changes kept per resource: a reader may lag by minutes, and memory stays bounded
HISTORY: Final = 8192
# As etcd has it by default, for the object with all its managed fields
LARGEST_OBJECT: Final = 1536 * 1024
# Zero means "any version" in requests, so no object ever has it
_FIRST_VERSION: Final = 1


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Where an object is kept; ``resource`` is the plural, ``namespace`` empty when there is none."""

    group: str
    resource: str
    namespace: str
    name: str


class Stored:
    """One version of one object: its bytes, and the parsed object once it was read."""

    __slots__ = ("_obj", "data", "key", "rv")

    def __init__(self, key: Key, data: bytes, rv: int, obj: JsonObject | None = None) -> None:
        self.key = key
        self.data = data
        self.rv = rv
        self._obj = obj

    @property
    def obj(self) -> JsonObject:
        """The object, shared by all who ask: read it, never change it."""
        if self._obj is None:
            self._obj = msgspec.json.decode(self.data)
        assert self._obj is not None
        return self._obj

    def forget_parsed(self) -> None:
        """Give up the parsed object; it is read again when needed."""
        self._obj = None


@dataclass(frozen=True, slots=True)
class Event:
    """One change: ``stored`` is the object after it, or as it was last when it is deleted."""

    type: EventType
    stored: Stored
    previous: Stored | None

    @property
    def rv(self) -> int:
        """The resource version this change made."""
        return self.stored.rv

    @property
    def obj(self) -> JsonObject:
        """The object of this event, shared and read-only."""
        return self.stored.obj


class Store:
    """All objects of a cluster."""

    def __init__(self, *, history: int = HISTORY) -> None:
        self.resource_version = _FIRST_VERSION
        self._history = history
        self._floor = 0
        self._collections: dict[tuple[str, str], Collection] = {}  # (group, plural) -> objects
        self._listeners: list[Callable[[Event], None]] = []
        self._recorder: Callable[[Event], None] | None = None

    def on_change(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` right after every change."""
        self._listeners.append(listener)

    def record_with(self, recorder: Callable[[Event], None]) -> None:
        """Call ``recorder`` before every change; if it raises, the change is not made."""
        self._recorder = recorder

    def get(self, key: Key) -> JsonObject | None:
        """The object at ``key``, shared and read-only."""
        stored = self.find(key)
        return stored.obj if stored is not None else None

    def find(self, key: Key) -> Stored | None:
        """What is stored at ``key``."""
        collection = self._collections.get((key.group, key.resource))
        return collection.entries.get((key.namespace, key.name)) if collection else None

    def list(self, group: str, resource: str, namespace: str | None = None) -> _Objects:
        """Objects in the order of their keys, shared and read-only."""
        return [stored.obj for stored in self.entries(group, resource, namespace)]

    def entries(
        self, group: str, resource: str, namespace: str | None = None, *, rv: int | None = None
    ) -> _Entries:
        """What is stored, in the order of the keys; with ``rv``, as it was at that version.

        Raises:
            Gone: the history does not reach back to ``rv``.
            NotYet: ``rv`` lies in the future.
        """
        collection = self.collection(group, resource)
        entries, order = collection.entries, collection.order
        if rv is not None:
            if rv > self.resource_version:
                raise NotYet(rv, self.resource_version)
            entries, order = collection.at(rv)
        if namespace is not None:
            # The upper bound of the range scan: the smallest string after ``namespace``
            after = (namespace + "\0", "")
            order = order[bisect_left(order, (namespace, "")) : bisect_left(order, after)]
        return [entries[key] for key in order]

    def count(self, group: str, resource: str) -> int:
        """How many objects of a resource there are."""
        collection = self._collections.get((group, resource))
        return len(collection.entries) if collection else 0

    def create(self, key: Key, obj: JsonObject) -> JsonObject:
        """Store a new object and return it as stored."""
        return self.add(key, obj).obj

    def add(self, key: Key, obj: JsonObject) -> Stored:
        """Store a new object.

        Raises:
            AlreadyExistsError: there is an object at ``key``.
            TooLargeError: the object is too large to be kept.
            NotKeptError: the change cannot be written down.
        """
        if self.find(key) is not None:
            raise AlreadyExistsError(key)
        return self._happen("ADDED", key, obj, None)

    def replace(self, key: Key, obj: JsonObject, expected_rv: str | None = None) -> JsonObject:
        """Store another version of an object and return it as stored."""
        return self.put(key, obj, expected_rv).obj

    def put(
        self, key: Key, obj: JsonObject, expected_rv: str | None = None, *, is_read: bool = False
    ) -> Stored:
        """Store another version of an object.

        With ``is_read``, it is made of what was read from JSON and nothing else, and nobody changes
        it, so it need not be read again.

        Raises:
            MissingError: there is no object at ``key``.
            ConflictError: the object is not at ``expected_rv``.
            TooLargeError: the object is too large to be kept.
            NotKeptError: the change cannot be written down.
        """
        previous = self._existing(key, expected_rv)
        return self._happen("MODIFIED", key, obj, previous, is_read=is_read)

    def remove(self, key: Key, expected_rv: str | None = None) -> JsonObject:
        """Remove an object and return its last state, at the version of the removal.

        Raises:
            MissingError: there is no object at ``key``.
            ConflictError: the object is not at ``expected_rv``.
            NotKeptError: the change cannot be written down.
        """
        previous = self._existing(key, expected_rv)
        return self._happen("DELETED", key, previous.obj, previous).obj

    def watch(self, group: str, resource: str, namespace: str | None, from_rv: int) -> Watch:
        """Follow the changes of a resource after ``from_rv``.

        Raises:
            Gone: the history does not reach back to ``from_rv``.
        """
        collection = self.collection(group, resource)
        return Watch(collection, namespace, collection.position(from_rv))

    def drop(self, group: str, resource: str) -> None:
        """Forget a resource that is no longer served, and end its watches."""
        collection = self._collections.pop((group, resource), None)
        if collection is not None:
            collection.is_open = False
            collection.wake()

    def compact(self) -> None:
        """Drop the changes from before the previous call, except the latest of each resource."""
        for collection in self._collections.values():
            collection.compact()

    def collection(self, group: str, resource: str) -> Collection:
        """The objects of a resource with their history."""
        collection = self._collections.get((group, resource))
        if collection is None:
            collection = Collection(self._floor, self._history)
            self._collections[group, resource] = collection
        return collection

    def everything(self) -> Iterator[Stored]:
        """Every object, resource by resource."""
        for _, collection in sorted(self._collections.items()):
            for key in collection.order:
                yield collection.entries[key]

    def restore(self, entries: Iterator[Stored], rv: int) -> None:
        """Fill an empty store with what was stored before; the history starts at ``rv``."""
        self.resource_version = max(rv, _FIRST_VERSION)
        self._floor = self.resource_version
        for stored in entries:
            collection = self.collection(stored.key.group, stored.key.resource)
            collection.entries[stored.key.namespace, stored.key.name] = stored
        for collection in self._collections.values():
            collection.order = sorted(collection.entries)

    def _existing(self, key: Key, expected_rv: str | None) -> Stored:
        previous = self.find(key)
        if previous is None:
            raise MissingError(key)
        if expected_rv is not None and expected_rv != str(previous.rv):
            raise ConflictError(key, expected_rv, str(previous.rv))
        return previous

    def _happen(
        self,
        change: EventType,
        key: Key,
        obj: JsonObject,
        previous: Stored | None,
        *,
        is_read: bool = False,
    ) -> Stored:
        rv = self.resource_version + 1
        whole = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(rv)}}
        # Encoding and recording first: what cannot be kept must change nothing
        stored = Stored(key, msgspec.json.encode(whole), rv, whole if is_read else None)
        if len(stored.data) > LARGEST_OBJECT and change != "DELETED":
            raise TooLargeError(key, len(stored.data))
        event = Event(change, stored, previous)
        if self._recorder is not None:
            self._recorder(event)
        self.resource_version = rv
        self.collection(key.group, key.resource).apply(event)
        # Last, because a listener may change the store in turn
        for listener in self._listeners:
            listener(event)
        return stored
