"""The parts of JSON objects as an API server keeps them, for the builders of benches and tests.

What a test is about is said in the builders that use these; wire models are made by ``builders``.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from karpenter.clock import EPOCH
from karpenter.cloud.provider import Instance
from karpenter.model import labels

JsonObject = dict[str, Any]


def at(seconds: float) -> str:
    """A time so long after the beginning of the test, as Kubernetes writes it."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(
    kind: str,
    status: str = "True",
    reason: str = "",
    *,
    since: float = 0.0,
    generation: int | None = 1,
) -> JsonObject:
    """A condition; those of Kubernetes' own kinds have no generation."""
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": "",
        "lastTransitionTime": at(since),
        **({} if generation is None else {"observedGeneration": generation}),
    }


def container(cpu: str = "1", memory: str = "64Mi") -> JsonObject:
    """A container that asks for so much."""
    return {
        "name": "app",
        "image": "pause",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }


def pod(
    name: str,
    *,
    containers: Sequence[JsonObject],
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A pod of the default namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"containers": list(containers), **spec},
        **({} if status is None else {"status": dict(status)}),
    }


def claim_to_launch(
    name: str,
    node_class: Mapping[str, str],
    requirements: Sequence[Mapping[str, Any]],
    *,
    requests: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any],
    **spec: Any,
) -> JsonObject:
    """A claim as the provisioner writes it."""
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "nodeClassRef": dict(node_class),
            "requirements": list(requirements),
            "resources": {"requests": dict(requests or {"cpu": "1", "pods": "2"})},
            **spec,
        },
    }


def claim_metadata(
    pool: str, more_labels: Mapping[str, str], annotations: Mapping[str, str] | None
) -> JsonObject:
    """The metadata of a claim of a pool."""
    held = {labels.NODEPOOL: pool, **more_labels}
    return {"labels": held, "annotations": dict(annotations or {})}


def launched_metadata(instance: Instance) -> JsonObject:
    """What the controllers write to a claim's metadata once it has an instance."""
    metadata = {"labels": dict(instance.labels), "annotations": dict(instance.annotations)}
    return {"metadata": metadata}


def launched_status(instance: Instance, **more: str) -> JsonObject:
    """What they write to its status."""
    status = {
        "providerID": instance.provider_id,
        "capacity": dict(instance.capacity),
        "allocatable": dict(instance.allocatable),
        **more,
    }
    return {"status": status}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> JsonObject:
    """A taint."""
    return {"key": key, "effect": effect, **({"value": value} if value else {})}
