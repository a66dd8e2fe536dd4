"""The garbage collector: deletes objects whose owners are gone.

It indexes every object of every kind by uid, and the graph of owners and dependents. An owner that
is deleted in the background leaves dependents without an owner, which are deleted then. In the
foreground it waits, held by a finalizer, until those that block it are gone. Orphaning removes the
owner reference from its dependents.
"""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.pods import is_leaving
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing
from karpenter_sandbox.server.options import BACKGROUND, FOREGROUND, ORPHAN
from karpenter_sandbox.server.verbs.deletion import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from karpenter_sandbox.store.store import Event, Key, Stored

_DELETED: Final = "DELETED"


class GarbageCollector(Controller):
    name = "garbage-collector"

    def __init__(self, runtime: Runtime, client: Client, backend: Backend) -> None:
        super().__init__(runtime)
        self._client = client
        self._store = backend.store
        self._keys: dict[str, Key] = {}  # by uid
        self._owners: dict[str, tuple[str, ...]] = {}  # uid -> uids of its owners
        self._dependents: dict[str, dict[str, None]] = {}  # uid -> uids, in the order they came
        for stored in self._store.everything():
            if not _is_event(stored.key):
                self._see(stored)
        # The index is complete now: an owner that it lacks does not exist
        for uid in list(self._keys):
            self.queue.add(("", uid))
        self._store.on_change(self._follow)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Finish the foreground deletion of the object with a uid, or delete it without owners."""
        obj = self._object(key[1])
        if obj is None:
            return None
        finalizers = obj["metadata"].get("finalizers") or ()
        if not is_leaving(obj):
            await self._check_owners(obj)
        elif ORPHAN_FINALIZER in finalizers:
            await self._orphan_dependents(obj)
        elif FOREGROUND_FINALIZER in finalizers:
            await self._await_dependents(obj)
        return None

    async def _check_owners(self, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences") or []
        if not references:
            return
        solid: list[JsonObject] = []
        waiting: list[JsonObject] = []
        for reference in references:
            owner = self._owner(reference, metadata.get("namespace", ""))
            if owner is None:
                continue
            is_waiting = _waits_for_dependents(owner) and reference.get("blockOwnerDeletion")
            (waiting if is_waiting else solid).append(reference)
        if solid:
            if len(solid) < len(references):
                await self._patch(obj, {"ownerReferences": solid})
            return
        policy = BACKGROUND
        finalizers = metadata.get("finalizers") or ()
        if ORPHAN_FINALIZER in finalizers:
            policy = ORPHAN
        elif FOREGROUND_FINALIZER in finalizers or (waiting and self._dependents_of(obj)):
            policy = FOREGROUND
        await ignoring_missing(
            self._client.delete(
                obj["apiVersion"],
                obj["kind"],
                metadata.get("namespace"),
                metadata["name"],
                uid=metadata["uid"],
                propagation=policy,
            )
        )

    async def _orphan_dependents(self, obj: JsonObject) -> None:
        uid = obj["metadata"]["uid"]
        for dependent in self._dependents_of(obj):
            references = dependent["metadata"].get("ownerReferences") or []
            others = [reference for reference in references if reference["uid"] != uid]
            await self._patch(dependent, {"ownerReferences": others or None})
        await self._remove_finalizer(obj, ORPHAN_FINALIZER)

    async def _await_dependents(self, obj: JsonObject) -> None:
        uid = obj["metadata"]["uid"]
        is_blocked = False
        for dependent in self._dependents_of(obj):
            self.queue.add(("", dependent["metadata"]["uid"]))
            is_blocked = is_blocked or any(
                reference["uid"] == uid and reference.get("blockOwnerDeletion")
                for reference in dependent["metadata"].get("ownerReferences") or ()
            )
        if not is_blocked:
            await self._remove_finalizer(obj, FOREGROUND_FINALIZER)

    async def _remove_finalizer(self, obj: JsonObject, name: str) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        left = [finalizer for finalizer in finalizers if finalizer != name]
        await self._patch(obj, {"finalizers": left or None})

    async def _patch(self, obj: JsonObject, changes: JsonObject) -> None:
        """Patch the metadata of an object; the uid is a precondition against a successor."""
        metadata = obj["metadata"]
        patch = {"metadata": {**changes, "uid": metadata["uid"]}}
        place = (obj["apiVersion"], obj["kind"], metadata.get("namespace"), metadata["name"])
        await ignoring_missing(self._client.patch("merge", *place, patch))

    def _owner(self, reference: JsonObject, namespace: str) -> JsonObject | None:
        """The owner a reference means; one in another namespace does not count."""
        key = self._keys.get(reference["uid"])
        if key is None or key.namespace not in ("", namespace):
            return None
        return self._store.get(key)

    def _object(self, uid: str) -> JsonObject | None:
        key = self._keys.get(uid)
        return self._store.get(key) if key is not None else None

    def _dependents_of(self, obj: JsonObject) -> list[JsonObject]:
        uids = self._dependents.get(obj["metadata"]["uid"], ())
        return [found for uid in list(uids) if (found := self._object(uid)) is not None]

    def _follow(self, event: Event) -> None:
        if _is_event(event.stored.key):
            return
        uid = event.obj["metadata"]["uid"]
        if event.type == _DELETED:
            self._forget(uid)
            return
        before = self._owners.get(uid, ())
        self._see(event.stored)
        after = self._owners.get(uid, ())
        if after != before:
            for owner in dict.fromkeys((*before, *after)):
                self._look_if_leaving(owner)
        if any(owner not in self._keys for owner in after) or is_leaving(event.obj):
            self.queue.add(("", uid))

    def _see(self, stored: Stored) -> None:
        metadata = stored.obj["metadata"]
        uid = metadata["uid"]
        self._keys[uid] = stored.key
        references = metadata.get("ownerReferences")
        if references is None and uid not in self._owners:
            return
        owners = tuple(reference["uid"] for reference in references or ())
        before = self._owners.get(uid, ())
        if owners == before:
            return
        for owner in before:
            self._unlink(owner, uid)
        for owner in owners:
            self._dependents.setdefault(owner, {})[uid] = None
        self._owners[uid] = owners

    def _forget(self, uid: str) -> None:
        self._keys.pop(uid, None)
        for owner in self._owners.pop(uid, ()):
            self._unlink(owner, uid)
            self._look_if_leaving(owner)
        for dependent in self._dependents.get(uid, ()):
            self.queue.add(("", dependent))

    def _unlink(self, owner: str, uid: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.pop(uid, None)
            if not dependents:
                del self._dependents[owner]

    def _look_if_leaving(self, uid: str) -> None:
        owner = self._object(uid)
        if owner is not None and is_leaving(owner):
            self.queue.add(("", uid))


def _is_event(key: Key) -> bool:
    """Whether a key is that of an event; Kubernetes' collector leaves these out as well."""
    return (key.group, key.resource) == ("", "events")


def _waits_for_dependents(obj: JsonObject) -> bool:
    finalizers = obj["metadata"].get("finalizers") or ()
    return is_leaving(obj) and FOREGROUND_FINALIZER in finalizers
