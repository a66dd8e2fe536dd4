"""Deletes the content of a namespace before the namespace."""

from collections import Counter
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.controllers.pods import is_leaving
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing
from karpenter_sandbox.store.store import Event

_FINALIZER: Final = "kubernetes"
# Conditions of a terminating namespace, always present
_QUIET: Final = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


class NamespaceController(Controller):
    name = "namespace-controller"

    def __init__(self, runtime: Runtime, client: Client, backend: Backend) -> None:
        super().__init__(runtime)
        self._client = client
        self._kinds = backend.kinds
        self._store = backend.store
        self._namespaces = runtime.informer("v1", "namespaces")
        self.follow(self._namespaces)
        self._store.on_change(self._look_when_emptied)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Delete the content of a terminating namespace, then remove its finalizer."""
        namespace = self._namespaces.get(*key)
        if namespace is None or not is_leaving(namespace):
            return None
        name = key[1]
        for resource in self._resources():
            for stored in self._store.entries(resource.storage_group, resource.plural, name):
                if not is_leaving(stored.obj):
                    await ignoring_missing(
                        self._client.delete(
                            resource.api_version,
                            resource.plural,
                            name,
                            stored.key.name,
                            propagation="Background",
                        )
                    )
                    # Yield: a large namespace must not block other controllers
                    await self.clock.sleep(0)
        left = self._content(name)
        if left:
            await self._report(namespace, left)
        elif _FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ()):
            others = [entry for entry in namespace["spec"]["finalizers"] if entry != _FINALIZER]
            spec = {**namespace["spec"], "finalizers": others}
            await self._client.finalize_namespace({**namespace, "spec": spec})
        return None

    def _resources(self) -> list[Resource]:
        """Each kind of object that lives in namespaces, in the version it is stored in."""
        return [
            resource
            for resource in self._kinds
            if resource.namespaced
            and "delete" in resource.served.verbs
            and (resource.group, resource.version)
            == (resource.storage_group, resource.storage_version)
        ]

    def _content(self, name: str) -> list[tuple[Resource, list[JsonObject]]]:
        found = []
        for resource in self._resources():
            objects = self._store.list(resource.storage_group, resource.plural, name)
            if objects:
                found.append((resource, objects))
        return found

    async def _report(
        self, namespace: JsonObject, left: list[tuple[Resource, list[JsonObject]]]
    ) -> None:
        """Write conditions that state what blocks the deletion."""
        now = timestamp(self.clock.now())
        changed = namespace
        for kind, value, reason, message in (*_QUIET, _remaining(left), _held(left)):
            condition = {"type": kind, "status": value, "reason": reason, "message": message}
            changed = with_condition(changed, condition, now)
        if changed["status"] != namespace.get("status"):
            await self._client.update_status(changed)

    def _look_when_emptied(self, event: Event) -> None:
        name = event.stored.key.namespace
        if event.type != "DELETED" or not name:
            return
        namespace = self._namespaces.get("", name)
        if namespace is not None and is_leaving(namespace):
            self.queue.add(("", name))


def _remaining(left: list[tuple[Resource, list[JsonObject]]]) -> tuple[str, str, str, str]:
    counts = ", ".join(
        f"{resource.qualified} has {len(objects)} resource instances" for resource, objects in left
    )
    text = f"Some resources are remaining: {counts}"
    return "NamespaceContentRemaining", "True", "SomeResourcesRemain", text


def _held(left: list[tuple[Resource, list[JsonObject]]]) -> tuple[str, str, str, str]:
    held = Counter(
        finalizer
        for _, objects in left
        for obj in objects
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    kind = "NamespaceFinalizersRemaining"
    if not held:
        text = "All content-preserving finalizers finished"
        return kind, "False", "ContentHasNoFinalizers", text
    counts = ", ".join(f"{name} in {count} resource instances" for name, count in held.items())
    text = f"Some content in the namespace has finalizers remaining: {counts}"
    return kind, "True", "SomeFinalizersRemain", text
