"""An informer: a mirror of one resource, kept by one list and a watch.

Reads are never stale: the mirror applies every pending change before it answers, so a controller
sees its own writes. When the watched history is lost (410), or the watch ends, the mirror lists
again and calls handlers with the differences, deletions included.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter.kube.index import Index
from karpenter_sandbox.runtime.api_client import ApiClient, Objects, WatchEvent, WatchStream
from karpenter_sandbox.status import ApiError

ObjectKey: TypeAlias = tuple[str, str]  # namespace, name
# Named here because inside the classes ``list`` is a method
Keys: TypeAlias = list[ObjectKey]
# Called with the object before and after; None stands for "not there"
ChangeHandler: TypeAlias = Callable[[JsonObject | None, JsonObject | None], None]
IndexFunction: TypeAlias = Callable[[JsonObject], Iterable[Hashable]]

_GONE: Final = 410
_RELIST_PAUSE: Final = 1.0


def key_of(obj: JsonObject) -> ObjectKey:
    """The namespace and the name of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Informer:
    """The objects of one resource, as they are now."""

    def __init__(self, client: ApiClient, api_version: str, resource: str) -> None:
        self.api_version: Final = api_version
        self.resource: Final = resource
        self.synced: Final = asyncio.Event()
        self._client = client
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._indexes: dict[str, Index[JsonObject]] = {}
        self._handlers: list[ChangeHandler] = []
        self._stream: WatchStream | None = None
        self._is_applying = False

    def get(self, namespace: str, name: str) -> JsonObject | None:
        """The object of that name, shared and read-only; the namespace is "" where there is none."""
        self._catch_up()
        return self._objects.get((namespace, name))

    def list(self, namespace: str | None = None) -> list[JsonObject]:
        """All objects, or those of one namespace, in the order in which they came."""
        self._catch_up()
        if namespace is None:
            return list(self._objects.values())
        return [obj for (place, _), obj in self._objects.items() if place == namespace]

    def keys(self) -> Keys:
        """The keys of all objects."""
        self._catch_up()
        return list(self._objects)

    def __len__(self) -> int:
        """How many objects there are."""
        self._catch_up()
        return len(self._objects)

    def add_index(self, name: str, values_of: IndexFunction) -> None:
        """Index the objects by what ``values_of`` takes from each; a second call changes nothing."""
        if name in self._indexes:
            return
        index = self._indexes[name] = Index(values_of)
        for key, obj in self._objects.items():
            index.change(key, None, obj)

    def by_index(self, name: str, value: Hashable) -> Objects:
        """The objects that have ``value`` in the index ``name``."""
        self._catch_up()
        return self._indexes[name].get(value)

    def values(self, name: str) -> Sequence[Hashable]:
        """The values that objects have in the index ``name``."""
        self._catch_up()
        return self._indexes[name].values()

    def on_change(self, handler: ChangeHandler) -> None:
        """Call ``handler`` for every object there is now, and from now on for every change."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            handler(None, obj)

    def refresh(self) -> None:
        """Apply pending changes; every read does this by itself."""
        self._catch_up()

    async def run(self, clock: Clock) -> None:
        """Follow the resource until cancelled."""
        while True:
            try:
                await self._follow()
            except ApiError as error:
                if error.status != _GONE:
                    await clock.sleep(_RELIST_PAUSE)
            finally:
                self._stream = None

    async def _follow(self) -> None:
        items, version = await self._client.list(self.api_version, self.resource)
        stream = self._client.watch(self.api_version, self.resource, resource_version=version)
        self._replace(items)
        self._stream = stream
        self.synced.set()
        while events := await stream.batch():
            self._apply(events)

    def _replace(self, items: Objects) -> None:
        """Call handlers with the differences between the mirror and a new list."""
        present = {key_of(obj): obj for obj in items}
        for key in [key for key in self._objects if key not in present]:
            self._change(key, None)
        for key, obj in present.items():
            known = self._objects.get(key)
            if known is None or _version(known) != _version(obj):
                self._change(key, obj)

    def _catch_up(self) -> None:
        # a handler that reads during a batch must not see later changes of the batch
        if self._stream is None or self._is_applying:
            return
        try:
            self._apply(self._stream.ready())
        except ApiError:
            self._stream = None  # the watching task meets the same refusal and lists again

    def _apply(self, events: Sequence[WatchEvent]) -> None:
        self._is_applying = True
        try:
            for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    self._change(key_of(event.obj), event.obj)
                elif event.type == "DELETED":
                    self._change(key_of(event.obj), None)
        finally:
            self._is_applying = False

    def _change(self, key: ObjectKey, new: JsonObject | None) -> None:
        old = self._objects.get(key)
        if new is not None:
            self._objects[key] = new
        elif old is not None:
            del self._objects[key]
        else:
            return
        for index in self._indexes.values():
            index.change(key, old, new)
        for handler in self._handlers:
            handler(old, new)


def _version(obj: JsonObject) -> str | None:
    version: str | None = obj["metadata"].get("resourceVersion")
    return version
