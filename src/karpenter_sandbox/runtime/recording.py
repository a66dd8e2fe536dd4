"""Stores events of the cluster's own components without validation, for speed.

Every pod that is placed and started leaves several events. They are made by one class of this
program and are right by construction, so they go to the store directly. What is stored is what a
create through the API would have stored.
"""

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server.verbs import namespaces
from karpenter_sandbox.status import already_exists
from karpenter_sandbox.store.errors import AlreadyExistsError
from karpenter_sandbox.store.store import Key


def record(backend: Backend, events: Resource, event: JsonObject) -> None:
    """Keep an event.

    Raises:
        ApiError: its namespace is missing or on its way out, or there is such an event.
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
