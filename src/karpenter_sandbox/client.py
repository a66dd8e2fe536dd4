"""A client for the cluster's own controllers: calls the API directly, without HTTP or JSON.

Returned objects are shared with the store and must not be changed. Objects passed in are stored
without a copy, so the caller must not change them afterwards either. Every refusal is an
``ApiError``, the same one that a client over HTTP would get.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server.options import DeleteOptions, ListOptions, WriteOptions
from karpenter_sandbox.server.selectors import Predicate
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs import (
    binding,
    deletion,
    eviction,
    namespaces,
    patches,
    read,
    scaling,
    writing,
)
from karpenter_sandbox.server.verbs.watching import narrowed
from karpenter_sandbox.status import already_exists, bad_request, expired
from karpenter_sandbox.store.errors import AlreadyExistsError, Gone
from karpenter_sandbox.store.history import Watch
from karpenter_sandbox.store.store import Event, Key

_Objects: TypeAlias = list[JsonObject]

PATCH_TYPES: Final = {
    "json": patches.JSON_PATCH,
    "merge": patches.MERGE_PATCH,
    "strategic": patches.STRATEGIC_PATCH,
    "apply": patches.APPLY_PATCH,
}


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of one object: ADDED, MODIFIED or DELETED."""

    type: str
    obj: JsonObject


class MemoryWatch:
    """The changes after a list; iterate it, or take what has happened so far."""

    def __init__(self, watch: Watch, target: Target, matches: Predicate | None) -> None:
        self._watch = watch
        self._target = target
        self._matches = matches
        self._pending: list[WatchEvent] = []

    def ready(self) -> Sequence[WatchEvent]:
        """Take the changes that have happened, without waiting.

        Raises:
            ApiError: 410, changes have been lost; list again.
        """
        try:
            return self._seen(self._watch.ready())
        except Gone as error:
            raise expired(str(error)) from error

    async def batch(self) -> Sequence[WatchEvent]:
        """Wait for changes and take them; none means the resource is no longer served.

        Raises:
            ApiError: 410, changes have been lost; list again.
        """
        while True:
            try:
                events = await self._watch.batch()
            except Gone as error:
                raise expired(str(error)) from error
            seen = self._seen(events)
            if seen or not events:
                return seen

    def __aiter__(self) -> "MemoryWatch":
        return self

    async def __anext__(self) -> WatchEvent:
        if not self._pending:
            self._pending = list(reversed(await self.batch()))
        if not self._pending:
            raise StopAsyncIteration
        return self._pending.pop()

    def _seen(self, events: Sequence[Event]) -> list[WatchEvent]:
        seen = []
        resource = self._target.resource
        for event in events:
            if self._matches is None:
                obj = versions.served(event.obj, resource)
                seen.append(WatchEvent(event.type, obj))
            elif (change := narrowed(event, self._matches)) is not None:
                seen.append(WatchEvent(change.type, change.served(self._target)))
        return seen


class Client:
    """Verbs on dictionaries; ``resource`` is a kind such as ``Pod`` or a plural such as ``pods``."""

    def __init__(self, backend: Backend, *, field_manager: str = "") -> None:
        self._backend = backend
        self._options = WriteOptions(
            field_manager=field_manager, track_fields=bool(field_manager), field_validation="Ignore"
        )

    async def get(
        self, api_version: str, resource: str, namespace: str | None, name: str
    ) -> JsonObject:
        """One object."""
        target = self._target(api_version, resource, namespace, name)
        return versions.served(read.find(self._backend, target).obj, target.resource)

    async def list(
        self,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> tuple[_Objects, str]:
        """All objects that are selected, and the resource version to watch from."""
        target = self._target(api_version, resource, namespace)
        options = ListOptions(label_selector=label_selector, field_selector=field_selector)
        listing = read.list_objects(self._backend, target, options)
        return read.served_objects(listing, target), str(listing.rv)

    def watch(
        self,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
    ) -> MemoryWatch:
        """Follow the changes after ``resource_version``.

        Raises:
            ApiError: 410, the history does not reach back so far; list again.
        """
        target = self._target(api_version, resource, namespace)
        options = ListOptions(label_selector=label_selector, field_selector=field_selector)
        kind = target.resource
        try:
            watch = self._backend.store.watch(
                kind.storage_group, kind.plural, target.namespace or None, int(resource_version)
            )
        except Gone as error:
            raise expired(str(error)) from error
        return MemoryWatch(watch, target, read.predicate(target, options))

    async def create(self, obj: JsonObject, *, namespace: str | None = None) -> JsonObject:
        """Create an object; its apiVersion, kind and namespace select the collection."""
        target = self._target_of(obj, namespace)
        return writing.create(self._backend, target, obj, self._options).obj

    async def record(self, event: JsonObject) -> None:
        """Create an Event that a component of this process has built."""
        _record(self._backend, self._target_of(event).resource, event)

    async def update(self, obj: JsonObject) -> JsonObject:
        """Replace an object, if it is still at the resourceVersion that it states."""
        target = self._target_of(obj, named=True)
        return writing.update(self._backend, target, obj, self._options).obj

    async def update_status(self, obj: JsonObject) -> JsonObject:
        """Replace the status of an object, if it is still at the resourceVersion that it states."""
        target = self._target_of(obj, named=True, subresource="status")
        return writing.update(self._backend, target, obj, self._options).obj

    async def patch(
        self,
        patch_type: str,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> JsonObject:
        """Change an object in part; ``patch_type`` is json, merge, strategic or apply."""
        target = self._target(api_version, resource, namespace, name, subresource)
        options = self._options
        if field_manager or force:
            options = WriteOptions(
                field_manager=field_manager or options.field_manager,
                force=force,
                field_validation="Ignore",
            )
        kind = PATCH_TYPES[patch_type]
        return patches.patch(self._backend, target, kind, patch, options).obj

    async def patch_status(
        self, api_version: str, resource: str, namespace: str | None, name: str, status: JsonObject
    ) -> JsonObject:
        """Merge ``status`` into an object's status."""
        body = {"status": status}
        return await self.patch(
            "merge", api_version, resource, namespace, name, body, subresource="status"
        )

    async def delete(
        self,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_period: int | None = None,
    ) -> JsonObject:
        """Delete an object and return it as it is now, or was last."""
        target = self._target(api_version, resource, namespace, name)
        options = DeleteOptions(
            grace_period=grace_period,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
        )
        return deletion.remove(self._backend, target, options).obj

    async def evict(self, namespace: str, name: str, *, grace_period: int | None = None) -> None:
        """Evict a pod; 429 when its disruption budget does not allow it."""
        target = self._target("v1", "Pod", namespace, name, "eviction")
        eviction.evict(self._backend, target, DeleteOptions(grace_period=grace_period))

    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node."""
        target = self._target("v1", "Pod", namespace, name, "binding")
        body: JsonObject = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        if uid:
            body["metadata"]["uid"] = uid
        binding.bind(self._backend, target, body)

    async def scale(
        self, api_version: str, resource: str, namespace: str | None, name: str, replicas: int
    ) -> None:
        """Set the number of replicas through the scale subresource."""
        target = self._target(api_version, resource, namespace, name, "scale")
        body: JsonObject = {"metadata": {"name": name}, "spec": {"replicas": replicas}}
        scaling.update_scale(self._backend, target, body, self._options)

    async def finalize_namespace(self, obj: JsonObject) -> JsonObject:
        """Replace the finalizers in the specification of a namespace."""
        target = self._target_of(obj, named=True, subresource="finalize")
        return writing.update(self._backend, target, obj, self._options).obj

    def _target(
        self,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str = "",
        subresource: str = "",
    ) -> Target:
        found = self._backend.kinds.named(api_version, resource)
        if found is None:
            raise bad_request(f'no matches for kind "{resource}" in version "{api_version}"')
        place = (namespace or "") if found.namespaced else ""
        return Target(found, place, name, subresource)

    def _target_of(
        self,
        obj: JsonObject,
        namespace: str | None = None,
        *,
        named: bool = False,
        subresource: str = "",
    ) -> Target:
        metadata = obj.get("metadata") or {}
        place = namespace or metadata.get("namespace")
        name = metadata["name"] if named else ""
        return self._target(obj["apiVersion"], obj["kind"], place, name, subresource)


def _record(backend: Backend, events: Resource, event: JsonObject) -> None:
    """Store an event of the cluster's own components without validation, for speed.

    Every pod that is placed and started leaves several events. ``Recorder`` alone builds them, and
    builds valid ones; what is stored is what a create through the API would have stored.

    Raises:
        ApiError: its namespace is missing or terminating, or the event exists already.
    """
    name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
    namespaces.require_open(backend, events, namespace, name)
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": backend.identity.uid(),
        "creationTimestamp": backend.timestamp(),
    }
    try:
        key = Key(events.storage_group, events.plural, namespace, name)
        backend.store.add(key, {**event, "metadata": metadata})
    except AlreadyExistsError as error:
        raise already_exists(events.group, events.plural, name) from error
