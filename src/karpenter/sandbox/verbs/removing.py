"""Deleting one object, or all that a request selects."""

from collections.abc import Sequence

from karpenter.sandbox import traits, versions
from karpenter.sandbox.backend import Backend
from karpenter.sandbox.deletion import Deleted, delete
from karpenter.sandbox.options import DeleteOptions, ListOptions
from karpenter.sandbox.status import forbidden, success
from karpenter.sandbox.store import JsonObject
from karpenter.sandbox.target import Target
from karpenter.sandbox.verbs.read import Listing, find, list_objects

_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


def remove(backend: Backend, target: Target, options: DeleteOptions) -> Deleted:
    """Delete one object; the outcome is in the version that was asked for."""
    resource = target.resource
    if resource.plural == "namespaces" and resource.group == "":
        _refuse_protected(target)
    outcome = delete(backend, resource, find(backend, target), options)
    return Deleted(versions.served(outcome.obj, resource), outcome.is_gone)


def answer(outcome: Deleted, target: Target) -> JsonObject:
    """What a client is told about a deletion."""
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
