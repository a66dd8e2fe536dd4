"""Deleting objects: at once, gracefully, or once their finalizers are gone.

An object leaves the store when nothing holds it back. Finalizers do, and so does the grace period
of a pod. Until then it carries ``deletionTimestamp``. What happens to its dependents is written
into its finalizers, for the garbage collector to act upon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend, duration, parse_timestamp, timestamp
from karpenter_sandbox.kinds import traits, versions
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server.options import (
    BACKGROUND,
    FOREGROUND,
    ORPHAN,
    DeleteOptions,
    ListOptions,
)
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs.read import Listing, find, list_objects
from karpenter_sandbox.status import conflict, forbidden, success
from karpenter_sandbox.store.store import Stored

ORPHAN_FINALIZER: Final = "orphan"
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
_DEFAULT_GRACE: Final = 30
_FINISHED_PHASES: Final = frozenset({"Succeeded", "Failed"})
_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome: the object as it is now, or was last, and whether it is gone."""

    obj: JsonObject
    is_gone: bool


def delete(
    backend: Backend, resource: Resource, existing: Stored, options: DeleteOptions
) -> Deleted:
    """Delete an object as far as it can go now."""
    _check_preconditions(resource, existing.obj, options)
    outcome = _marked(existing.obj, resource, options, backend.clock.now())
    if outcome is None:
        return _removed(backend, resource, existing, options)
    if outcome == existing.obj or options.dry_run:
        return Deleted(outcome, is_gone=False)
    return Deleted(backend.store.put(existing.key, outcome).obj, is_gone=False)


def _removed(
    backend: Backend, resource: Resource, existing: Stored, options: DeleteOptions
) -> Deleted:
    last = existing.obj
    if (resource.group, resource.kind) == ("", "Pod"):
        # Two writes: watchers of a pod get MODIFIED with the mark before DELETED
        last = _without_grace(last, backend.clock.now())
        if not options.dry_run and last != existing.obj:
            backend.store.put(existing.key, last)
    if options.dry_run:
        return Deleted(last, is_gone=True)
    return Deleted(backend.store.remove(existing.key), is_gone=True)


def _without_grace(pod: JsonObject, now: datetime) -> JsonObject:
    metadata = {**pod["metadata"], "deletionGracePeriodSeconds": 0}
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = timestamp(now)
        metadata["generation"] = metadata.get("generation", 0) + 1
    return {**pod, "metadata": metadata}


def is_finished_by(new: JsonObject, old: JsonObject, resource: Resource) -> bool:
    """Whether an update takes away the last thing that kept a deleted object."""
    metadata = old["metadata"]
    if "deletionTimestamp" not in metadata or new["metadata"].get("finalizers"):
        return False
    if resource.kind == "Namespace" and (new.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _marked(
    obj: JsonObject, resource: Resource, options: DeleteOptions, now: datetime
) -> JsonObject | None:
    """The object marked for deletion, or None when nothing holds it back."""
    metadata = obj["metadata"]
    is_marked = "deletionTimestamp" in metadata
    if is_marked and metadata.get("deletionGracePeriodSeconds"):
        return _shortened(obj, options, now)
    finalizers = _finalizers(metadata.get("finalizers") or [], resource, options)
    grace = _grace(obj, resource, options) if not is_marked else 0
    if not finalizers and grace == 0 and not _is_open_namespace(obj, resource):
        return None
    changed = {**metadata, "finalizers": finalizers}
    if not finalizers:
        del changed["finalizers"]
    if not is_marked:
        changed["deletionTimestamp"] = timestamp(now + duration(grace))
        if "generation" in metadata:
            changed["generation"] = metadata["generation"] + 1
    changed["deletionGracePeriodSeconds"] = grace
    marked = {**obj, "metadata": changed}
    if resource.kind == "Namespace" and resource.group == "":
        del changed["deletionGracePeriodSeconds"]
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked


def _shortened(obj: JsonObject, options: DeleteOptions, now: datetime) -> JsonObject | None:
    """A pod that is going already; only a shorter wait changes anything."""
    metadata = obj["metadata"]
    current: int = metadata["deletionGracePeriodSeconds"]
    wanted = options.grace_period
    if wanted is None or wanted >= current:
        return obj
    wanted = 1 if wanted < 0 else wanted
    if wanted == 0 and not metadata.get("finalizers"):
        return None
    begun = parse_timestamp(metadata["deletionTimestamp"]) - duration(current)
    moment = begun + duration(wanted)
    if moment < now:
        # The grace period is over: at most one second is left, after which the kubelet removes it
        moment, wanted = now, min(wanted, 1)
    changed = {
        **metadata,
        "deletionTimestamp": timestamp(moment),
        "deletionGracePeriodSeconds": wanted,
    }
    return {**obj, "metadata": changed}


def _grace(obj: JsonObject, resource: Resource, options: DeleteOptions) -> int:
    """Seconds an object is given to finish; only pods are."""
    if (resource.group, resource.kind) != ("", "Pod"):
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _FINISHED_PHASES:
        return 0
    grace = options.grace_period
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    return 1 if grace < 0 else int(grace)


def _is_open_namespace(obj: JsonObject, resource: Resource) -> bool:
    """Whether a namespace still waits for its content to be removed."""
    is_namespace = (resource.group, resource.kind) == ("", "Namespace")
    return is_namespace and bool((obj.get("spec") or {}).get("finalizers"))


def _finalizers(current: list[str], resource: Resource, options: DeleteOptions) -> list[str]:
    if not traits.has_dependents(resource):
        return current
    policy = _propagation(current, resource, options)
    special = (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
    kept = [name for name in current if name not in special]
    if policy == ORPHAN:
        kept.append(ORPHAN_FINALIZER)
    elif policy == FOREGROUND:
        kept.append(FOREGROUND_FINALIZER)
    return current if set(kept) == set(current) else kept


def _propagation(current: list[str], resource: Resource, options: DeleteOptions) -> str:
    """The propagation policy of the request, else of the finalizers, else of the kind."""
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else BACKGROUND
    if options.propagation is not None:
        return options.propagation
    if ORPHAN_FINALIZER in current:
        return ORPHAN
    if FOREGROUND_FINALIZER in current:
        return FOREGROUND
    return ORPHAN if traits.orphans_by_default(resource) else BACKGROUND


def _check_preconditions(resource: Resource, obj: JsonObject, options: DeleteOptions) -> None:
    metadata = obj["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        problem = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record"
            f" ({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(resource.group, resource.kind, metadata["name"], problem)
    require_version(resource, metadata, options)


def require_version(resource: Resource, metadata: JsonObject, options: DeleteOptions) -> None:
    """Check the resource version that a deletion or eviction names.

    Raises:
        ApiError: the object has another one.
    """
    version = options.resource_version
    if version is not None and version != metadata["resourceVersion"]:
        problem = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({metadata['resourceVersion']})."
            " The object might have been modified"
        )
        raise conflict(resource.group, resource.kind, metadata["name"], problem)


def remove(backend: Backend, target: Target, options: DeleteOptions) -> Deleted:
    """Delete one object; the outcome is in the version that was asked for."""
    resource = target.resource
    if resource.plural == "namespaces" and resource.group == "":
        _refuse_protected(target)
    outcome = delete(backend, resource, find(backend, target), options)
    return Deleted(versions.served(outcome.obj, resource), outcome.is_gone)


def answer(outcome: Deleted, target: Target) -> JsonObject:
    """The answer to a deletion."""
    resource = target.resource
    if not outcome.is_gone or traits.answers_with_object(resource):
        return outcome.obj
    metadata = outcome.obj["metadata"]
    return success(resource.group, resource.plural, metadata["name"], metadata.get("uid", ""))


def remove_all(
    backend: Backend, target: Target, selection: ListOptions, options: DeleteOptions
) -> Sequence[JsonObject]:
    """Delete every object a request selects and return them as they were."""
    listing: Listing = list_objects(backend, target, selection)
    removed = []
    for entry in listing.entries:
        current = backend.store.find(entry.key)
        if current is not None:
            delete(backend, target.resource, current, options)
            removed.append(versions.served(current.obj, target.resource))
    return removed


def _refuse_protected(target: Target) -> None:
    if target.name in _PROTECTED_NAMESPACES:
        problem = "this namespace may not be deleted"
        raise forbidden("", "namespaces", target.name, problem)
