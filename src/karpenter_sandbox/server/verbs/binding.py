"""Binding a pod to a node."""

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs.read import find
from karpenter_sandbox.status import ApiError, bad_request, conflict


def bind(backend: Backend, target: Target, binding: JsonObject, *, dry_run: bool = False) -> None:
    """Give a pod its node.

    Raises:
        ApiError: the pod has a node already, is going away, or waits behind a gate.
    """
    metadata = binding.get("metadata") or {}
    node = (binding.get("target") or {}).get("name")
    if metadata.get("name", target.name) != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    kind = (binding.get("target") or {}).get("kind", "")
    if kind not in {"", "Node"}:
        problem = f'Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        raise ApiError(500, "", f"target.kind: {problem}")
    if not node:
        raise ApiError(500, "", "target.name: Required value")
    stored = find(backend, target)
    pod = stored.obj
    _check(pod, metadata)
    changed = dict(pod["metadata"])
    for name in ("annotations", "labels"):
        if metadata.get(name):
            changed[name] = {**(changed.get(name) or {}), **metadata[name]}
    bound = {**pod, "metadata": changed, "spec": {**pod["spec"], "nodeName": node}}
    status = {k: v for k, v in (pod.get("status") or {}).items() if k != "nominatedNodeName"}
    bound["status"] = status
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    bound = with_condition(bound, condition, backend.timestamp())
    if not dry_run:
        backend.store.put(stored.key, bound)


def _check(pod: JsonObject, wanted: JsonObject) -> None:
    name, spec = pod["metadata"]["name"], pod["spec"]
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != pod["metadata"][field]:
            problem = (
                f"Precondition failed: {label} in precondition: {wanted[field]},"
                f" {label} in object meta: {pod['metadata'][field]}"
            )
            raise conflict("", "pods", name, problem)
    if "deletionTimestamp" in pod["metadata"]:
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        problem = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        problem = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict("", "pods/binding", name, problem)
