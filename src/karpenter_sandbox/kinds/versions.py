"""One object in the several versions it is served in.

Objects are stored in one version. Asked for in another, they are converted on the way out, and on
the way back in. Versions of a CRD differ in name only, except those of Karpenter's own kinds, which
have a conversion of their own. Two of Kubernetes' kinds have two shapes: autoscalers and events.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.conversion import v1beta1
from karpenter_sandbox.kinds.registry import Resource

PoolExpiry = Callable[[str], str | None]

_OWN_GROUPS: Final = frozenset({"karpenter.sh", "karpenter.k8s.aws"})
_OWN_KINDS: Final = frozenset({"NodePool", "NodeClaim", "EC2NodeClass"})
_AUTOSCALING_NOTES: Final = "autoscaling.alpha.kubernetes.io/"

# Names of the same facts in v1 and in events.k8s.io/v1
_EVENT_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def is_converted(resource: Resource) -> bool:
    """Whether a resource is asked for in another version than it is stored in."""
    return resource.api_version != resource.storage_api_version


def served(obj: JsonObject, resource: Resource) -> JsonObject:
    """A stored object in the version of ``resource``."""
    if not is_converted(resource):
        return obj
    if resource.custom is not None:
        return custom(obj, resource.api_version)
    if resource.kind == "Event":
        return _renamed(obj, resource.api_version, _EVENT_NAMES)
    return _autoscaler_down(obj)


def stored(obj: JsonObject, resource: Resource, pool_expiry: PoolExpiry) -> JsonObject:
    """An object in the version of ``resource``, as it is stored."""
    if not is_converted(resource):
        return obj
    if resource.custom is not None:
        return custom(obj, resource.storage_api_version, pool_expiry)
    if resource.kind == "Event":
        back = {new: old for old, new in _EVENT_NAMES.items()}
        return _renamed(obj, resource.storage_api_version, back)
    return _autoscaler_up(obj)


def custom(
    obj: JsonObject, api_version: str, pool_expiry: PoolExpiry = lambda _: None
) -> JsonObject:
    """An object of a CRD in another of its versions."""
    group, _, version = api_version.partition("/")
    _, _, before = obj["apiVersion"].partition("/")
    if group in _OWN_GROUPS and obj["kind"] in _OWN_KINDS:
        match before, version:
            case "v1beta1", "v1":
                return v1beta1.up(obj, pool_expiry)
            case "v1", "v1beta1":
                return v1beta1.down(obj)
    return {**obj, "apiVersion": api_version}


def _renamed(obj: JsonObject, api_version: str, names: Mapping[str, str]) -> JsonObject:
    renamed = {names.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": api_version}


def _autoscaler_down(obj: JsonObject) -> JsonObject:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    notes: dict[str, str] = {}
    target, others = _cpu_first(spec.pop("metrics", None) or [], "target")
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target
    current, seen = _cpu_first(status.pop("currentMetrics", None) or [], "current")
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    kept = {
        "metrics": others,
        "behavior": spec.pop("behavior", None),
        "current-metrics": seen,
        "conditions": status.pop("conditions", None),
    }
    for name, value in kept.items():
        if value:
            notes[_AUTOSCALING_NOTES + name] = json.dumps(value, separators=(",", ":"))
    return _assembled(obj, "autoscaling/v1", spec, status, notes)


def _autoscaler_up(obj: JsonObject) -> JsonObject:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    notes = (obj.get("metadata") or {}).get("annotations") or {}
    kept = {
        name: json.loads(notes[_AUTOSCALING_NOTES + name])
        for name in ("metrics", "behavior", "current-metrics", "conditions")
        if _AUTOSCALING_NOTES + name in notes
    }
    metrics = kept.get("metrics", [])
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *metrics]
    if metrics:
        spec["metrics"] = metrics
    if "behavior" in kept:
        spec["behavior"] = kept["behavior"]
    seen = kept.get("current-metrics", [])
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": used}}
        seen = [{"type": "Resource", "resource": resource}, *seen]
    if seen:
        status["currentMetrics"] = seen
    if "conditions" in kept:
        status["conditions"] = kept["conditions"]
    return _assembled(obj, "autoscaling/v2", spec, status, {})


def _cpu_first(metrics: list[dict[str, Any]], part: str) -> tuple[int | None, list[dict[str, Any]]]:
    """Take the first CPU utilisation out of metrics, and return it with the others."""
    for index, metric in enumerate(metrics):
        resource = metric.get("resource") or {}
        percentage = (resource.get(part) or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and percentage is not None:
            return percentage, [*metrics[:index], *metrics[index + 1 :]]
    return None, metrics


def _assembled(
    obj: JsonObject, api_version: str, spec: JsonObject, status: JsonObject, notes: dict[str, str]
) -> JsonObject:
    metadata = dict(obj.get("metadata") or {})
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.startswith(_AUTOSCALING_NOTES)
    }
    annotations.update(notes)
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    result = {**obj, "apiVersion": api_version, "metadata": metadata, "spec": spec}
    if status:
        result["status"] = status
    return result
