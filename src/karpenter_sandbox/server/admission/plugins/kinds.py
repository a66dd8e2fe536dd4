"""What the cluster adds to objects of each kind, and what it leaves out of their updates."""

from collections.abc import Callable, Mapping
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.defaults.workloads import TEMPLATE_GENERATION
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server import crds
from karpenter_sandbox.server.admission.plugins import pods
from karpenter_sandbox.server.admission.plugins.addresses import addressed
from karpenter_sandbox.server.admission.plugins.limits import with_defaults

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"

Mutation = Callable[[Backend, JsonObject, JsonObject | None], JsonObject]


def mutated(
    backend: Backend, resource: Resource, obj: JsonObject, old: JsonObject | None
) -> JsonObject:
    """The object with what the cluster adds to it; ``old`` is what it was before an update.

    Raises:
        ApiError: the object refers to something that does not exist.
    """
    mutation = _MUTATIONS.get((resource.group, resource.kind))
    return mutation(backend, obj, old) if mutation is not None else obj


def parts_of(subresource: str) -> tuple[str, ...]:
    """The top-level fields a subresource writes."""
    return ("status",) if subresource in {"status", "approval"} else ("spec",)


def _pod(backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    if old is not None:
        return pods.updated(obj)
    return pods.completed(backend, with_defaults(backend, obj) if obj.get("spec") else obj)


def _namespace(_backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """Finalizers of a namespace are changed through ``finalize`` alone."""
    spec = obj.get("spec") or {}
    finalizers = ["kubernetes"]
    if old is not None:
        finalizers = (old.get("spec") or {}).get("finalizers") or []
    elif spec.get("finalizers"):
        finalizers = list(dict.fromkeys([*spec["finalizers"], *finalizers]))
    if finalizers:
        return {**obj, "spec": {**spec, "finalizers": finalizers}}
    return {**obj, "spec": {key: part for key, part in spec.items() if key != "finalizers"}}


def _node(_backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """A new node gets the not-ready taint, which the lifecycle controller removes."""
    spec = obj.get("spec") or {}
    taints = spec.get("taints") or []
    is_tainted = any(
        (taint.get("key"), taint.get("effect")) == tuple(_NOT_READY.values()) for taint in taints
    )
    if old is not None or is_tainted:
        return obj
    return {**obj, "spec": {**spec, "taints": [*taints, _NOT_READY]}}


def _volume(backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """A new volume gets the protection finalizer, and the time of its phase."""
    if old is not None:
        return obj
    status = {"phase": "Pending", "lastPhaseTransitionTime": backend.timestamp()}
    return {**_protected(obj, "kubernetes.io/pv-protection"), "status": status}


def _claim(backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """A claim that names no class gets the default one, the newest if there are several."""
    if old is not None:
        return obj
    obj = _protected(obj, "kubernetes.io/pvc-protection")
    spec = obj.get("spec") or {}
    if "storageClassName" in spec:
        return obj
    classes = [
        found["metadata"]
        for found in backend.store.list("storage.k8s.io", "storageclasses")
        if (found["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if not classes:
        return obj
    newest = max(classes, key=lambda found: (found["creationTimestamp"], found["name"]))
    return {**obj, "spec": {**spec, "storageClassName": newest["name"]}}


def _protected(obj: JsonObject, finalizer: str) -> JsonObject:
    """Add the finalizer that protects storage in use."""
    metadata = obj["metadata"]
    known = metadata.get("finalizers") or []
    if finalizer in known:
        return obj
    return {**obj, "metadata": {**metadata, "finalizers": [*known, finalizer]}}


def _job(_backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """A job selects its pods by its uid, unless ``manualSelector`` is set."""
    spec = obj.get("spec") or {}
    if old is not None or spec.get("manualSelector"):
        return obj
    metadata = obj["metadata"]
    own = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
    }
    template = spec.get("template") or {}
    inner = template.get("metadata") or {}
    inner = {**inner, "labels": {**own, **(inner.get("labels") or {})}}
    selector = spec.get("selector") or {
        "matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}
    }
    changed = {**spec, "selector": selector, "template": {**template, "metadata": inner}}
    # Jobs that have no labels of their own take those of their pods
    labels = metadata.get("labels") or inner["labels"]
    return {**obj, "metadata": {**metadata, "labels": labels}, "spec": changed}


def _daemon_set(_backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """Count the templates a set has had, in the annotation old clients read."""
    count = 1
    if old is not None:
        annotations = old["metadata"].get("annotations") or {}
        count = int(annotations.get(TEMPLATE_GENERATION, 1))
        count += (old.get("spec") or {}).get("template") != (obj.get("spec") or {}).get("template")
    annotations = {**(obj["metadata"].get("annotations") or {}), TEMPLATE_GENERATION: str(count)}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _service(backend: Backend, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    return addressed(backend, obj, old) if obj.get("spec") is not None else obj


def _definition(backend: Backend, obj: JsonObject, _old: JsonObject | None) -> JsonObject:
    return crds.completed(obj, backend.timestamp())


_MUTATIONS: Final[Mapping[tuple[str, str], Mutation]] = {
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
}
