"""Whether a namespace is there and open for new objects."""

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.status import forbidden, not_found
from karpenter_sandbox.store.store import Key


def find(backend: Backend, name: str) -> JsonObject | None:
    """The namespace called ``name``."""
    return backend.store.get(Key("", "namespaces", "", name))


def require_open(backend: Backend, resource: Resource, namespace: str, name: str) -> None:
    """Refuse a new object in a namespace that is missing or on its way out."""
    found = find(backend, namespace)
    if found is None:
        raise not_found("", "namespaces", namespace)
    if "deletionTimestamp" not in found["metadata"]:
        return
    refusal = forbidden(
        resource.group,
        resource.plural,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    refusal.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    raise refusal
