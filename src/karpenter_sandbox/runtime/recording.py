"""Keeping the events of the cluster's own parts, which makes them cheap.

Every pod that is placed and started leaves several events. They are made by one class of this
program and are right by construction, so they go to the store without being checked once more. What
is stored is what a create through the API would have stored.
"""

from karpenter.sandbox import namespaces
from karpenter.sandbox.backend import Backend
from karpenter.sandbox.kinds import Resource
from karpenter.sandbox.status import already_exists
from karpenter.sandbox.store import JsonObject, Key
from karpenter.sandbox.store_errors import AlreadyExistsError


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
