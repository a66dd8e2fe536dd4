"""The cache of an informer: the latest objects of one kind, with indexes and change handlers.

Reflectors fill it from lists and watches; a writer puts the server's answer in at once. An object
never goes back: a version older than the known one, by resource version, is ignored, so a
controller never acts on a state before its own last write. A deleted object does not come back
either, however late an answer about it arrives.

A handler of a guarded mirror that raises for an object is called again later; the mirror, the other
handlers and all other objects are not affected.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from karpenter.api.meta import Resource, kind_of
from karpenter.clock import Timer
from karpenter.kube.guard import Guard
from karpenter.kube.index import Index
from karpenter.kube.index import Key as Key

R = TypeVar("R", bound=Resource)
# Called with the object before and after; None stands for "not there"
ChangeHandler: TypeAlias = Callable[[R | None, R | None], None]
_Objects: TypeAlias = list[R]
_ValuesOf: TypeAlias = Callable[[R], Iterable[Hashable]]

_MOST_REMEMBERED: Final = 10_000


def key_of(obj: Resource) -> Key:
    """The namespace and name of an object."""
    return obj.metadata.namespace, obj.metadata.name


class Mirror(Generic[R]):
    """The objects of one kind, as far as they are known."""

    def __init__(self, kind: type[R], guard: Guard | None = None) -> None:
        """Start empty and unsynced.

        Args:
            kind: of the objects.
            guard: receives errors of handlers; without one they propagate to the writer of the
                mirror.
        """
        self.kind: Final = kind
        self._guard = guard
        self.synced: Final = asyncio.Event()
        self._objects: dict[Key, R] = {}
        self._indexes: dict[str, Index[R]] = {}
        self._followers: list[_Follower[R]] = []
        self._removed: dict[str, None] = {}  # uids that are gone for good, oldest first
        self._listed_at = ""  # the version of the latest complete list

    def __repr__(self) -> str:
        return f"<mirror of {kind_of(self.kind)}, {len(self._objects)} objects>"

    @property
    def is_synced(self) -> bool:
        """Whether the first list is complete."""
        return self.synced.is_set()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, name: str, namespace: str = "") -> R | None:
        """The object of that name, if it is known."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str | None = None) -> _Objects[R]:
        """All objects, or those of one namespace."""
        if namespace is None:
            return [*self._objects.values()]
        return [obj for (place, _), obj in self._objects.items() if place == namespace]

    def add_index(self, name: str, values_of: Callable[[R], Iterable[Hashable]]) -> None:
        """Index the objects by what ``values_of`` takes from each; the first call counts."""
        if name not in self._indexes:
            index = self._indexes[name] = Index(self._guarded(values_of))
            for key, obj in self._objects.items():
                index.change(key, None, obj)

    def by_index(self, name: str, value: Hashable) -> _Objects[R]:
        """The objects that have ``value`` in an index."""
        return self._indexes[name].get(value)

    def on_change(self, handler: ChangeHandler[R]) -> Callable[[], None]:
        """Call ``handler`` for every object there is now, and from now on for every change.

        Returns:
            A function that removes the handler.
        """
        follower = self._follow(handler)
        for key, obj in [*self._objects.items()]:
            follower.notify(key, None, obj)
        return lambda: self._end(follower)

    def watch(self, handler: ChangeHandler[R]) -> Callable[[], None]:
        """Call ``handler`` for every change from now on, and leave it in ``forget_followers``.

        For whoever only looks, whatever controllers begin and end meanwhile. What is there already is
        read with ``list``, as slowly as suits the reader.

        Returns:
            A function that removes the handler.
        """
        follower = self._follow(handler, is_onlooker=True)
        return lambda: self._end(follower)

    @property
    def followers(self) -> int:
        """The number of handlers, without those that only look."""
        return sum(not follower.is_onlooker for follower in self._followers)

    def forget_followers(self, beyond: int) -> None:
        """Keep only the first so many handlers; the others belong to a failed start."""
        acting = [follower for follower in self._followers if not follower.is_onlooker]
        for follower in acting[beyond:]:
            self._end(follower)

    def put(self, obj: R) -> bool:
        """Store an object; return whether it is new or newer."""
        key = key_of(obj)
        known = self._objects.get(key)
        if obj.metadata.uid in self._removed or (known is not None and _is_older(obj, known)):
            return False
        self._objects[key] = obj
        self._notify(key, known, obj)
        return True

    def absorb(self, answer: R) -> bool:
        """Store the server's answer to a request; return whether it is new or newer.

        The answer is ignored if a list made after it lacks the object: the object has been
        deleted, no watch event will report that, and it would stay in the mirror for ever.
        """
        is_listed = key_of(answer) in self._objects
        if not is_listed and not _is_newer(answer, self._listed_at, default=True):
            return False
        return self.put(answer)

    def drop(self, obj: R) -> bool:
        """Remove a deleted object; return whether it was known.

        Compared by uid, so a later object of the same name is not removed.
        """
        return self.drop_key(key_of(obj), obj.metadata.uid)

    def drop_key(self, key: Key, uid: str) -> bool:
        """Remove a deleted object of which only key and uid are known."""
        self._remember_removal(uid)
        known = self._objects.get(key)
        if known is None or known.metadata.uid != uid:
            return False
        self._forget(key)
        return True

    def replace_all(
        self, items: Iterable[R], resource_version: str = "", *, spared: Iterable[Key] = ()
    ) -> None:
        """Take in a complete list made at ``resource_version``, deletions included.

        Objects this process has written since the list was made are not in it, and stay.
        """
        items = list(items)
        self.forget_others(items, resource_version, spared=spared)
        for obj in items:
            self.put(obj)
        self.synced.set()

    def forget_others(
        self, items: Iterable[R], resource_version: str, *, spared: Iterable[Key] = ()
    ) -> None:
        """Remove what a complete list made at ``resource_version`` lacks, except ``spared``."""
        self._listed_at = resource_version
        present = {key_of(obj) for obj in items} | set(spared)
        for key, known in list(self._objects.items()):
            # Without recording the uid as removed: a list may lag, and the object may come again
            if key not in present and not _is_newer(known, resource_version):
                self._forget(key)

    def _forget(self, key: Key) -> None:
        known = self._objects.pop(key)
        self._notify(key, known, None)

    def _remember_removal(self, uid: str) -> None:
        self._removed[uid] = None
        if len(self._removed) > _MOST_REMEMBERED:
            del self._removed[next(iter(self._removed))]

    def _notify(self, key: Key, old: R | None, new: R | None) -> None:
        for index in self._indexes.values():
            index.change(key, old, new)
        for follower in tuple(self._followers):
            follower.notify(key, old, new)

    def _notify_again(self, follower: "_Follower[R]", key: Key) -> None:
        """Retry a handler that raised; then call the others, which may depend on its state."""
        obj = self._objects.get(key)
        if follower.notify(key, None, obj) and obj is not None:
            for other in tuple(self._followers):
                if other is not follower:
                    other.notify(key, obj, obj)

    def _follow(self, handler: ChangeHandler[R], *, is_onlooker: bool = False) -> "_Follower[R]":
        kind = kind_of(self.kind)
        follower = _Follower(
            kind, handler, self._guard, self._notify_again, is_onlooker=is_onlooker
        )
        self._followers.append(follower)
        return follower

    def _end(self, follower: "_Follower[R]") -> None:
        follower.end()
        if follower in self._followers:
            self._followers.remove(follower)

    def _guarded(self, values_of: Callable[[R], Iterable[Hashable]]) -> _ValuesOf[R]:
        """An index function that raises for an object yields no values for it."""

        def values(obj: R) -> Iterable[Hashable]:
            try:
                return tuple(values_of(obj))
            except Exception as error:
                if self._guard is None:
                    raise
                kind = kind_of(self.kind)
                self._guard.handler_failed(kind, key_of(obj), values_of, error, failures=0)
                return ()

        return values


@dataclass(frozen=True, slots=True)
class _Owed(Generic[R]):
    """A change that a handler has not processed, because it raised."""

    old: R | None  # the object as the handler last processed it
    failures: int
    timer: Timer


class _Follower(Generic[R]):
    """A handler with the changes it raised for, which are retried."""

    def __init__(
        self,
        kind: str,
        handler: ChangeHandler[R],
        guard: Guard | None,
        notify_again: "Callable[[_Follower[R], Key], None]",
        *,
        is_onlooker: bool = False,
    ) -> None:
        self.is_onlooker: Final = is_onlooker
        self._kind = kind
        self._handler = handler
        self._guard = guard
        self._notify_again = notify_again
        self._owed: dict[Key, _Owed[R]] = {}

    def notify(self, key: Key, old: R | None, new: R | None) -> bool:
        """Call the handler with a change since its last one; return whether it succeeded."""
        if self._guard is None:
            self._handler(old, new)
            return True
        owed = self._owed.pop(key, None) if self._owed else None
        if owed is not None:
            owed.timer.cancel()
            old = owed.old
        if old is None and new is None:
            return True  # created and deleted before the handler ever processed it
        try:
            self._handler(old, new)
        except Exception as error:  # noqa: BLE001 other handlers and objects must not be affected
            failures = owed.failures if owed is not None else 0
            seconds = self._guard.handler_failed(
                self._kind, key, self._handler, error, failures=failures
            )
            timer = self._guard.clock.call_later(seconds, lambda: self._notify_again(self, key))
            self._owed[key] = _Owed(old, failures + 1, timer)
            return False
        return True

    def end(self) -> None:
        """Stop calling the handler."""
        for owed in self._owed.values():
            owed.timer.cancel()
        self._owed.clear()


def _is_older(obj: Resource, known: Resource) -> bool:
    """Whether ``obj`` was there before ``known``, or is the same as it."""
    new, old = obj.metadata.resource_version, known.metadata.resource_version
    if new == old:
        return obj.metadata.uid == known.metadata.uid
    return new.isdigit() and old.isdigit() and int(new) < int(old)


def _is_newer(obj: Resource, resource_version: str, *, default: bool = False) -> bool:
    """Whether ``obj`` was written after a version; ``default`` where the two cannot be compared."""
    version = obj.metadata.resource_version
    if not (version.isdigit() and resource_version.isdigit()):
        return default
    return int(version) > int(resource_version)
