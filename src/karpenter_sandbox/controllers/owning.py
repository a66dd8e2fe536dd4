"""Base of controllers that own objects: adoption, release, creation and deletion with events.

An owner adopts objects without an owner that its selector matches, and releases those that it no
longer matches; that is how users take a pod out of its set to debug it.
"""

from collections.abc import Iterable
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.pods import controller_reference, is_active, is_leaving
from karpenter_sandbox.matching import Selector, read_selector
from karpenter_sandbox.runtime.events import NORMAL, WARNING, Recorder
from karpenter_sandbox.runtime.informer import Informer, ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import (
    Controller,
    Runtime,
    controller_of,
    controller_uids,
    ignoring_missing,
)
from karpenter_sandbox.status import ApiError

BY_CONTROLLER: Final = "controller"
WITHOUT_CONTROLLER: Final = "namespace without controller"
FAILED_CREATE: Final = "FailedCreate"
# The most objects that one reconcile creates or deletes; the rest waits for the next
BURST: Final = 500
# Debounce: changes of dependents within so many seconds cause one reconcile
GATHERING: Final = 0.05
# A reconcile of a large set costs more, so the debounce grows with its size
_GATHERING_EACH: Final = 0.0002
_LONGEST_GATHERING: Final = 1.0


class OwningController(Controller):
    """Base of the controllers whose objects own pods, or other objects."""

    api_version: str = "apps/v1"
    resource: str = ""
    kind: str = ""

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self.client: Final = client
        self.recorder: Final = recorder(runtime, client, self.name)
        self.owners: Final = runtime.informer(self.api_version, self.resource)
        self._selectors: dict[ObjectKey, tuple[object, Selector]] = {}  # as written, and compiled
        self._sizes: dict[ObjectKey, int] = {}  # owner -> objects it owned at the last reconcile
        self.follow(self.owners)
        self.owners.on_change(self._forget)

    def own(self, dependents: Informer) -> None:
        """Follow the objects that this controller manages, and those it may adopt."""
        dependents.add_index(BY_CONTROLLER, controller_uids)
        dependents.add_index(WITHOUT_CONTROLLER, _orphan_places)
        dependents.on_change(self._follow_dependent)

    def selector_of(self, owner: JsonObject) -> Selector:
        """The compiled selector of an owner."""
        key, written = key_of(owner), self.written_selector(owner)
        known = self._selectors.get(key)
        if known is None or known[0] != written:
            known = self._selectors[key] = (written, read_selector(written))
        return known[1]

    def written_selector(self, owner: JsonObject) -> Any:
        """The selector of an owner, as it is written."""
        return owner["spec"].get("selector")

    async def owned(self, owner: JsonObject, dependents: Informer) -> list[JsonObject]:
        """The objects of ``owner``, after adoption and release by its selector."""
        selector = self.selector_of(owner)
        kept = []
        for obj in dependents.by_index(BY_CONTROLLER, owner["metadata"]["uid"]):
            if selector.matches(obj["metadata"].get("labels") or {}):
                kept.append(obj)
            elif not is_leaving(owner):
                await self._release(owner, obj)
        self._sizes[key_of(owner)] = len(kept)
        if is_leaving(owner):
            return kept
        free = dependents.by_index(WITHOUT_CONTROLLER, owner["metadata"]["namespace"])
        meant = [obj for obj in free if selector.matches(obj["metadata"].get("labels") or {})]
        return kept + [await self._adopt(owner, obj) for obj in meant if is_active(obj)]

    async def create_pod(self, owner: JsonObject, pod: JsonObject) -> JsonObject:
        """Create a pod and record an event on its owner.

        Raises:
            ApiError: the server refuses it; also recorded as an event on the owner.
        """
        try:
            created = await self.client.create(pod)
        except ApiError as error:
            if not is_terminating_namespace(error):
                self.recorder.emit(owner, WARNING, FAILED_CREATE, f"Error creating: {error}")
            raise
        message = f"Created pod: {created['metadata']['name']}"
        self.recorder.emit(owner, NORMAL, "SuccessfulCreate", message)
        # Yield: hundreds of pods in a row must not block other controllers
        await self.clock.sleep(0)
        return created

    async def delete_pod(self, owner: JsonObject, pod: JsonObject) -> None:
        """Delete a pod and record an event on its owner."""
        metadata = pod["metadata"]
        await ignoring_missing(
            self.client.delete("v1", "pods", metadata["namespace"], metadata["name"])
        )
        message = f"Deleted pod: {metadata['name']}"
        self.recorder.emit(owner, NORMAL, "SuccessfulDelete", message)
        await self.clock.sleep(0)

    async def write_status(self, owner: JsonObject, status: JsonObject) -> JsonObject:
        """Replace the status of ``owner`` where it differs, and return the object as it is then."""
        if (owner.get("status") or {}) == status:
            return owner
        return await self.client.update_status({**owner, "status": status})

    def _follow_dependent(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for obj in (old, new):
            for key in self._owner_keys(obj) if obj is not None else ():
                wait = GATHERING + self._sizes.get(key, 0) * _GATHERING_EACH
                self.queue.add_after(key, min(wait, _LONGEST_GATHERING))

    def _forget(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None and old is not None:
            self._selectors.pop(key_of(old), None)
            self._sizes.pop(key_of(old), None)

    def _owner_keys(self, dependent: JsonObject) -> tuple[ObjectKey, ...]:
        namespace = dependent["metadata"]["namespace"]
        reference = controller_of(dependent)
        if reference is not None:
            return ((namespace, reference["name"]),) if reference["kind"] == self.kind else ()
        if not is_active(dependent):
            return ()
        labels = dependent["metadata"].get("labels") or {}
        return tuple(
            key_of(owner)
            for owner in self.owners.list(namespace)
            if self.selector_of(owner).matches(labels)
        )

    async def _adopt(self, owner: JsonObject, obj: JsonObject) -> JsonObject:
        references = obj["metadata"].get("ownerReferences") or []
        return await self._write_references(obj, [*references, controller_reference(owner)])

    async def _release(self, owner: JsonObject, obj: JsonObject) -> None:
        uid = owner["metadata"]["uid"]
        references = obj["metadata"].get("ownerReferences") or []
        others = [reference for reference in references if reference["uid"] != uid]
        await self._write_references(obj, others)

    async def _write_references(self, obj: JsonObject, references: list[JsonObject]) -> JsonObject:
        changed = {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}
        return await self.client.update(changed)


def recorder(runtime: Runtime, client: Client, component: str) -> Recorder:
    """A recorder whose events are written while the runtime runs."""
    made = Recorder(client, runtime.clock, component)
    runtime.add_task(f"{component}-events", made.run)
    return made


def is_terminating_namespace(error: ApiError) -> bool:
    """Whether a write was refused because its namespace is terminating."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def nonzero(fields: JsonObject) -> JsonObject:
    """The fields without those at zero, which objects do not write."""
    return {key: value for key, value in fields.items() if value not in (0, None, [], {}, "")}


def by_age(objects: Iterable[JsonObject]) -> list[JsonObject]:
    """Objects, the oldest first."""
    return sorted(objects, key=_age)


def _age(obj: JsonObject) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["creationTimestamp"], metadata["name"]


def _orphan_places(obj: JsonObject) -> tuple[str, ...]:
    return () if controller_of(obj) else (obj["metadata"].get("namespace", ""),)
