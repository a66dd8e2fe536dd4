"""Creating and updating objects.

The order follows an API server: identity, structure, defaults, validation, and last the store. A
dry run does everything but the last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import traits, versions
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server import crds
from karpenter_sandbox.server.admission import admission
from karpenter_sandbox.server.options import WriteOptions
from karpenter_sandbox.server.structure import identified, shaped
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs import deletion, namespaces, ownership
from karpenter_sandbox.status import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    modified,
    name_not_generated,
    not_found,
)
from karpenter_sandbox.store.errors import AlreadyExistsError, TooLargeError
from karpenter_sandbox.store.store import Stored

# What only the server writes
_SYSTEM_FIELDS: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "selfLink",
    "uid",
)
# Attempts at a generated name; random suffixes rarely collide, so more would not help
_NAME_ATTEMPTS: Final = 8


@dataclass(slots=True)
class Written:
    """The outcome of a write: the object as the client sees it."""

    obj: JsonObject
    is_new: bool = False
    warnings: list[str] = field(default_factory=list)


def create(
    backend: Backend,
    target: Target,
    body: object,
    options: WriteOptions,
    duplicates: Sequence[str] = (),
) -> Written:
    """Create an object."""
    warnings: list[str] = []
    resource = target.resource
    obj = identified(body, resource)
    obj = shaped(obj, resource, options.field_validation, warnings, duplicates)
    if obj["metadata"].get("resourceVersion"):
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    return insert(backend, target, obj, options, warnings)


def insert(
    backend: Backend,
    target: Target,
    obj: JsonObject,
    options: WriteOptions,
    warnings: list[str],
    *,
    tracks: bool = True,
) -> Written:
    """Create an object whose shape has been checked."""
    resource = target.resource
    for attempt in range(_NAME_ATTEMPTS):
        try:
            return _insert_once(backend, target, obj, options, warnings, tracks=tracks)
        except AlreadyExistsError as error:
            name = error.key.name
            if obj["metadata"].get("name"):
                raise already_exists(resource.group, resource.plural, name) from error
            if attempt == _NAME_ATTEMPTS - 1:
                raise name_not_generated(resource.group, resource.plural, name) from error
    raise AssertionError("the last attempt either succeeds or raises")


def _insert_once(
    backend: Backend,
    target: Target,
    obj: JsonObject,
    options: WriteOptions,
    warnings: list[str],
    *,
    tracks: bool,
) -> Written:
    resource = target.resource
    obj = {**obj, "metadata": _new_metadata(backend, target, obj["metadata"])}
    metadata = obj["metadata"]
    if resource.namespaced:
        namespaces.require_open(backend, resource, metadata["namespace"], metadata.get("name", ""))
    if resource.custom is not None:
        crds.require_open(backend, resource)
    if not traits.is_created_with_status(resource):
        obj.pop("status", None)
    if tracks and options.track_fields:
        obj = admission.filled(resource, obj, None, "")
        obj = ownership.tracked(backend, None, obj, target, options)
    final, found = admission.admitted(backend, resource, obj, None, "")
    warnings.extend(found)
    key = backend.key(resource, metadata.get("namespace", ""), metadata["name"])
    if options.dry_run:
        if backend.store.find(key) is not None:
            raise AlreadyExistsError(key)
        return Written(versions.served(final, resource), is_new=True, warnings=warnings)
    stored = _kept(lambda obj: backend.store.add(key, obj), final, is_lightened=tracks)
    return Written(versions.served(stored.obj, resource), is_new=True, warnings=warnings)


def update(
    backend: Backend,
    target: Target,
    body: object,
    options: WriteOptions,
    duplicates: Sequence[str] = (),
) -> Written:
    """Replace an object, or the part of it that the subresource names."""
    warnings: list[str] = []
    resource = target.resource
    existing = backend.store.find(backend.key(resource, target.namespace, target.name))
    known = versions.served(existing.obj, resource) if existing is not None else None
    obj = identified(body, resource)
    obj = shaped(obj, resource, options.field_validation, warnings, duplicates, known)
    name = obj["metadata"].get("name")
    if not name:
        raise bad_request("name must be provided")
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    if existing is None:
        return _create_by_update(backend, target, obj, options, warnings)
    return replace(backend, target, existing, obj, options, warnings)


def replace(
    backend: Backend,
    target: Target,
    existing: Stored,
    new: JsonObject,
    options: WriteOptions,
    warnings: list[str],
    *,
    tracks: bool = True,
) -> Written:
    """Store ``new`` in the place of ``existing``, as far as the request may change it."""
    resource = target.resource
    old = versions.served(existing.obj, resource)
    _check_preconditions(resource, old, new)
    _check_deletion(resource, old["metadata"], new["metadata"])
    new = admission.prepared(resource, new, old, target.subresource)
    new = {**new, "metadata": _kept_metadata(target, new["metadata"], old["metadata"])}
    if tracks and options.track_fields:
        new = admission.filled(resource, new, old, target.subresource)
        new = ownership.tracked(backend, old, new, target, options)
    final, found = admission.admitted(backend, resource, new, existing.obj, target.subresource)
    warnings.extend(found)
    if traits.counts_generations(resource) and _is_changed(final, existing.obj):
        generation = old["metadata"].get("generation", 0) + 1
        final = {**final, "metadata": {**final["metadata"], "generation": generation}}
    return _store(backend, resource, existing, final, options, warnings, is_lightened=tracks)


def _store(
    backend: Backend,
    resource: Resource,
    existing: Stored,
    final: JsonObject,
    options: WriteOptions,
    warnings: list[str],
    *,
    is_lightened: bool,
) -> Written:
    final = ownership.with_old_times(final, existing.obj)
    if deletion.is_finished_by(final, existing.obj, resource):
        if not options.dry_run:
            backend.store.remove(existing.key)
        return Written(versions.served(final, resource), warnings=warnings)
    if final == existing.obj or options.dry_run:
        return Written(versions.served(final, resource), warnings=warnings)
    stored = _kept(
        lambda obj: backend.store.put(existing.key, obj), final, is_lightened=is_lightened
    )
    return Written(versions.served(stored.obj, resource), warnings=warnings)


def _kept(keep: Callable[[JsonObject], Stored], obj: JsonObject, *, is_lightened: bool) -> Stored:
    """Store an object; managedFields are dropped if the object is too large only with them."""
    try:
        return keep(obj)
    except TooLargeError:
        if not is_lightened or "managedFields" not in obj["metadata"]:
            raise
        metadata = {key: part for key, part in obj["metadata"].items() if key != "managedFields"}
        return keep({**obj, "metadata": metadata})


def _create_by_update(
    backend: Backend, target: Target, obj: JsonObject, options: WriteOptions, warnings: list[str]
) -> Written:
    resource = target.resource
    if target.subresource or not traits.is_created_by_update(resource):
        raise not_found(resource.group, resource.plural, target.name)
    if obj["metadata"].get("uid"):
        raise conflict(
            resource.group,
            resource.plural,
            target.name,
            f"Precondition failed: UID in precondition: {obj['metadata']['uid']},"
            " UID in object meta: ",
        )
    return insert(backend, target, obj, options, warnings)


def _new_metadata(backend: Backend, target: Target, given: JsonObject) -> JsonObject:
    resource = target.resource
    metadata = {key: value for key, value in given.items() if key not in _SYSTEM_FIELDS}
    metadata.pop("resourceVersion", None)
    _set_namespace(metadata, target)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = backend.identity.name(metadata["generateName"])
    metadata["uid"] = backend.identity.uid()
    metadata["creationTimestamp"] = backend.timestamp()
    if traits.counts_generations(resource):
        metadata["generation"] = 1
    return metadata


def _set_namespace(metadata: JsonObject, target: Target) -> None:
    given = metadata.get("namespace") or ""
    if not target.resource.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = target.namespace


def _check_preconditions(resource: Resource, old: JsonObject, new: JsonObject) -> None:
    wanted, actual = new["metadata"], old["metadata"]
    name = actual["name"]
    if wanted.get("uid") and wanted["uid"] != actual["uid"]:
        problem = (
            f"Precondition failed: UID in precondition: {wanted['uid']},"
            f" UID in object meta: {actual['uid']}"
        )
        raise conflict(resource.group, resource.plural, name, problem)
    version = wanted.get("resourceVersion")
    if version and not version.isdigit():
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version:
        if version != actual["resourceVersion"]:
            raise modified(resource.group, resource.plural, name)
    elif traits.requires_version(resource):
        detail = "must be specified for an update"
        path = ("metadata", "resourceVersion")
        missing = FieldError(ErrorKind.INVALID, path, detail, 0)
        raise invalid(resource.group, resource.plural, name, [missing])


def _check_deletion(resource: Resource, old: JsonObject, new: JsonObject) -> None:
    """Refuse to begin or put off a deletion by an update."""
    changed = [
        FieldError(ErrorKind.INVALID, ("metadata", name), "field is immutable", new[name])
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if new.get(name) is not None and new[name] != old.get(name)
    ]
    if changed:
        raise invalid(resource.group, resource.kind, old["name"], changed)


def _kept_metadata(target: Target, new: JsonObject, old: JsonObject) -> JsonObject:
    """Metadata as the client wants it, with what only the server writes as it was."""
    metadata = {key: value for key, value in new.items() if key not in _SYSTEM_FIELDS}
    _set_namespace(metadata, target)
    for key in _SYSTEM_FIELDS:
        if key in old:
            metadata[key] = old[key]
    metadata["resourceVersion"] = old["resourceVersion"]
    return metadata


def _is_changed(new: JsonObject, old: JsonObject) -> bool:
    """Whether anything besides metadata and status differs."""
    names = (new.keys() | old.keys()) - {"apiVersion", "kind", "metadata", "status"}
    return any(new.get(name) != old.get(name) for name in names)
