"""What controllers ask about pods, and how they make them from a template."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import duration, parse_timestamp
from karpenter_sandbox.conditions import find_condition, is_true

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


def phase(pod: JsonObject) -> str:
    """The phase of a pod; Pending until a kubelet reports one."""
    found: str = (pod.get("status") or {}).get("phase") or "Pending"
    return found


def is_finished(pod: JsonObject) -> bool:
    """Whether the containers of a pod have ended for good."""
    return phase(pod) in _FINISHED


def is_leaving(obj: JsonObject) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: JsonObject) -> bool:
    """Whether a pod counts as a replica: neither finished nor terminating."""
    return not is_finished(pod) and not is_leaving(pod)


def is_ready(pod: JsonObject) -> bool:
    """Whether a pod is ready to serve."""
    return is_true(pod, "Ready")


def node_of(pod: JsonObject) -> str:
    """The node a pod is bound to, empty when there is none yet."""
    name: str = (pod.get("spec") or {}).get("nodeName") or ""
    return name


def nodes_of(pod: JsonObject) -> tuple[str, ...]:
    """The node of a pod, for an index of pods by node."""
    name = node_of(pod)
    return (name,) if name else ()


def created(obj: JsonObject) -> datetime:
    """When an object was created."""
    return parse_timestamp(obj["metadata"]["creationTimestamp"])


def ready_since(pod: JsonObject) -> datetime | None:
    """Since when a pod has been ready, or None when it is not."""
    condition = find_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    moment = condition.get("lastTransitionTime")
    return parse_timestamp(moment) if moment else None


def is_available(pod: JsonObject, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been ready for long enough."""
    if not is_ready(pod):
        return False
    if not min_ready_seconds:
        return True
    since = ready_since(pod)
    return since is not None and since + duration(min_ready_seconds) <= now


def next_available(
    pods: Iterable[JsonObject], min_ready_seconds: int, now: datetime
) -> float | None:
    """Seconds until the next ready pod counts as available, or None when none is waiting for it."""
    if not min_ready_seconds:
        return None
    waits = [
        (since + duration(min_ready_seconds) - now).total_seconds()
        for pod in pods
        if (since := ready_since(pod)) is not None
    ]
    return min((wait for wait in waits if wait > 0), default=None)


def restarts(pod: JsonObject) -> int:
    """The restarts of the container that was restarted most."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def deletion_cost(pod: JsonObject) -> int:
    """The pod's deletion cost: on scale-down, lower ones are deleted first."""
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def controller_reference(owner: JsonObject) -> JsonObject:
    """The reference by which an owner marks what it manages."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def from_template(
    template: JsonObject,
    owner: JsonObject,
    *,
    name: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: JsonObject | None = None,
) -> JsonObject:
    """A new pod as its template describes it, with what its owner adds.

    Without ``name`` the server generates one from ``generateName``, the owner's name; pods with a
    name carry ``generateName`` as well, as in Kubernetes.
    """
    given = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "namespace": owner["metadata"]["namespace"],
        "generateName": f"{owner['metadata']['name']}-",
        "ownerReferences": [controller_reference(owner)],
    }
    if name:
        metadata["name"] = name
    for key, more in (("labels", labels), ("annotations", annotations)):
        merged = {**(given.get(key) or {}), **(more or {})}
        if merged:
            metadata[key] = merged
    if given.get("finalizers"):
        metadata["finalizers"] = given["finalizers"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**(template.get("spec") or {}), **(spec or {})},
    }
