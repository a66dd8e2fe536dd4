"""A mirror of one kind of object: what was seen last, with indexes, and a word on every change.

Reflectors fill it from lists and watches; whoever writes an object puts the server's answer in at
once. An object never goes back: what is older than what is known, by resource version, is passed
over, so a controller never acts on the world before its own last write.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

from karpenter.api.meta import Resource, kind_of
from karpenter.kube.index import Index
from karpenter.kube.index import Key as Key

R = TypeVar("R", bound=Resource)
# Called with the object before and after; None stands for "not there"
ChangeHandler: TypeAlias = Callable[[R | None, R | None], None]
_Objects: TypeAlias = list[R]

_MOST_REMEMBERED: Final = 10_000


def key_of(obj: Resource) -> Key:
    """The namespace and name of an object."""
    return obj.metadata.namespace, obj.metadata.name


class Mirror(Generic[R]):
    """The objects of one kind, as far as they are known."""

    def __init__(self, kind: type[R]) -> None:
        self.kind: Final = kind
        self.synced: Final = asyncio.Event()
        self._objects: dict[Key, R] = {}
        self._indexes: dict[str, Index[R]] = {}
        self._handlers: list[ChangeHandler[R]] = []
        self._removed: dict[str, None] = {}  # uids that are gone for good, oldest first

    def __repr__(self) -> str:
        return f"<mirror of {kind_of(self.kind)}, {len(self._objects)} objects>"

    @property
    def is_synced(self) -> bool:
        """Whether everything that was there at the start has been seen."""
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
            index = self._indexes[name] = Index(values_of)
            for key, obj in self._objects.items():
                index.change(key, None, obj)

    def by_index(self, name: str, value: Hashable) -> _Objects[R]:
        """The objects that have ``value`` in an index."""
        return self._indexes[name].get(value)

    def on_change(self, handler: ChangeHandler[R]) -> Callable[[], None]:
        """Call ``handler`` for every object there is now, and from now on for every change.

        Returns:
            What to call to be told no more.
        """
        self._handlers.append(handler)
        for obj in self.list():
            handler(None, obj)
        return lambda: self._handlers.remove(handler)

    def put(self, obj: R) -> bool:
        """Take in an object; say whether it is news."""
        key = key_of(obj)
        known = self._objects.get(key)
        if obj.metadata.uid in self._removed or (known is not None and _is_older(obj, known)):
            return False
        self._objects[key] = obj
        self._tell(key, known, obj)
        return True

    def drop(self, obj: R) -> bool:
        """Forget an object that is gone; say whether it was known.

        The removal of an object says nothing about a later one of the same name.
        """
        self._remember_removal(obj.metadata.uid)
        key = key_of(obj)
        known = self._objects.get(key)
        if known is None or known.metadata.uid != obj.metadata.uid:
            return False
        self._forget(key)
        return True

    def replace_all(self, items: Iterable[R], resource_version: str = "") -> None:
        """Take in a complete list made at ``resource_version``, deletions included.

        Objects this process has written since the list was made are not in it, and stay.
        """
        items = list(items)
        self.forget_others(items, resource_version)
        for obj in items:
            self.put(obj)
        self.synced.set()

    def forget_others(self, items: Iterable[R], resource_version: str) -> None:
        """Forget what a complete list made at ``resource_version`` lacks."""
        present = {key_of(obj) for obj in items}
        for key, known in list(self._objects.items()):
            # a list may lag behind, so what it lacks is not known to be gone for good
            if key not in present and not _is_newer(known, resource_version):
                self._forget(key)

    def _forget(self, key: Key) -> None:
        known = self._objects.pop(key)
        self._tell(key, known, None)

    def _remember_removal(self, uid: str) -> None:
        self._removed[uid] = None
        if len(self._removed) > _MOST_REMEMBERED:
            del self._removed[next(iter(self._removed))]

    def _tell(self, key: Key, old: R | None, new: R | None) -> None:
        for index in self._indexes.values():
            index.change(key, old, new)
        for handler in tuple(self._handlers):
            handler(old, new)


def _is_older(obj: Resource, known: Resource) -> bool:
    """Whether ``obj`` was there before ``known``, or is the same as it."""
    new, old = obj.metadata.resource_version, known.metadata.resource_version
    if new == old:
        return obj.metadata.uid == known.metadata.uid
    return new.isdigit() and old.isdigit() and int(new) < int(old)


def _is_newer(obj: Resource, resource_version: str) -> bool:
    version = obj.metadata.resource_version
    both = version.isdigit() and resource_version.isdigit()
    return both and int(version) > int(resource_version)
