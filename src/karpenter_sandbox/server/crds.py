"""Kinds that CRDs add: checked, served as soon as they are stored, and cleaned up when removed.

A CRD keeps a finalizer of its own. When it is deleted its objects go first; their own finalizers
may hold them, and so the CRD, for as long as they like. Until then its kinds are still served.
"""

from collections.abc import Iterator
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.conditions import find_condition, with_condition
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.schema import crd_schema
from karpenter_sandbox.kinds.served import crd_resources
from karpenter_sandbox.kinds.validation.crds import compiled_versions
from karpenter_sandbox.server.options import DeleteOptions
from karpenter_sandbox.server.verbs import deletion
from karpenter_sandbox.status import method_not_allowed
from karpenter_sandbox.store.store import Event, Key

GROUP: Final = "apiextensions.k8s.io"
PLURAL: Final = "customresourcedefinitions"
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
# Compiling takes long, and is wanted twice: when a CRD is checked and when it is served
_CONDITIONS: Final = (
    {
        "type": "NamesAccepted",
        "status": "True",
        "reason": "NoConflicts",
        "message": "no conflicts found",
    },
    {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    },
)


class CustomKinds:
    """Follows the CRDs in the store and serves what they define."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._served: dict[str, Any] = {}  # name of a CRD -> the specification that is served
        self._leaving: dict[tuple[str, str], str] = {}  # (group, plural) -> CRD being deleted
        for crd in backend.store.list(GROUP, PLURAL):
            self._serve(crd)
        backend.store.on_change(self._follow)

    def _follow(self, event: Event) -> None:
        key = event.stored.key
        if (key.group, key.resource) == (GROUP, PLURAL):
            self._follow_crd(event)
        elif event.type == "DELETED" and (key.group, key.resource) in self._leaving:
            self._finish(self._leaving[key.group, key.resource])

    def _follow_crd(self, event: Event) -> None:
        crd = event.obj
        name = crd["metadata"]["name"]
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        if event.type == "DELETED":
            self._served.pop(name, None)
            self._leaving.pop((group, plural), None)
            self._backend.kinds.remove_custom(name)
            self._backend.store.drop(group, plural)
            return
        self._serve(crd)
        is_leaving = "deletionTimestamp" in crd["metadata"]
        if is_leaving and (group, plural) not in self._leaving:
            self._leaving[group, plural] = name
            self._clean_up(group, plural)
            self._finish(name)

    def _serve(self, crd: JsonObject) -> None:
        name = crd["metadata"]["name"]
        if self._served.get(name) == crd["spec"]:
            return
        self._served[name] = crd["spec"]
        resources = list(_resources(crd))
        self._backend.kinds.add_custom(crd, resources)
        if resources:
            self._rewrite(resources[0])

    def _rewrite(self, resource: Resource) -> None:
        """Bring objects from before the last change of the CRD into the version of storage."""
        wanted = resource.storage_api_version
        for stored in self._backend.store.entries(resource.group, resource.plural):
            if stored.obj["apiVersion"] != wanted:
                self._backend.store.put(stored.key, versions.custom(stored.obj, wanted))

    def _clean_up(self, group: str, plural: str) -> None:
        resource = self._backend.kinds.stored(group, plural)
        if resource is None:
            return
        for stored in self._backend.store.entries(group, plural):
            deletion.delete(self._backend, resource, stored, DeleteOptions())

    def _finish(self, name: str) -> None:
        """Let a CRD go once its objects are gone."""
        key = self._backend.key(self._definitions(), "", name)
        stored = self._backend.store.find(key)
        if stored is None:
            return
        spec = stored.obj["spec"]
        if self._backend.store.count(spec["group"], spec["names"]["plural"]):
            return
        metadata = stored.obj["metadata"]
        others = [entry for entry in metadata.get("finalizers") or [] if entry != FINALIZER]
        if not others:
            self._backend.store.remove(key)
        elif FINALIZER in metadata["finalizers"]:
            changed = {**stored.obj, "metadata": {**metadata, "finalizers": others}}
            self._backend.store.put(key, changed)

    def _definitions(self) -> Resource:
        definitions = self._backend.kinds.stored(GROUP, PLURAL)
        assert definitions is not None
        return definitions


def require_open(backend: Backend, resource: Resource) -> None:
    """Refuse a new object of a kind whose CRD is on its way out."""
    name = f"{resource.plural}.{resource.group}"
    crd = backend.store.get(Key(GROUP, PLURAL, "", name))
    if crd is not None and "deletionTimestamp" in crd["metadata"]:
        refusal = method_not_allowed(resource.group, resource.plural, "create")
        refusal.message = "create not allowed while custom resource definition is terminating"
        raise refusal


def completed(crd: JsonObject, now: str) -> JsonObject:
    """A CRD with what the server fills in, its status included."""
    spec = crd["spec"]
    status = dict(crd.get("status") or {})
    stored = next((v["name"] for v in spec.get("versions") or [] if v.get("storage")), "")
    known = status.get("storedVersions") or []
    status["storedVersions"] = known if stored in known else [*known, stored]
    status["acceptedNames"] = spec.get("names") or {}
    metadata = dict(crd["metadata"])
    if "deletionTimestamp" not in metadata:
        others = [name for name in metadata.get("finalizers") or [] if name != FINALIZER]
        metadata["finalizers"] = [*others, FINALIZER]
    complete = {**crd, "metadata": metadata, "status": status}
    for condition in _CONDITIONS:
        if find_condition(complete, condition["type"]) is None:
            complete = with_condition(complete, condition, now)
    return complete


def _resources(crd: JsonObject) -> Iterator[Resource]:
    compiled = compiled_versions(crd)
    storage = next(name for name, version in compiled.items() if version.is_stored)
    documents = {version["name"]: version for version in crd["spec"]["versions"]}
    for served in crd_resources(crd):
        document = documents[served.version]
        fields = document.get("selectableFields") or []
        yield Resource(
            served,
            served.group,
            storage,
            custom=compiled[served.version],
            schema=crd_schema((document.get("schema") or {}).get("openAPIV3Schema") or {}),
            selectable_fields=tuple(field["jsonPath"].lstrip(".") for field in fields),
        )
