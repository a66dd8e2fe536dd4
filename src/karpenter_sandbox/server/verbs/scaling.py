"""The scale of an object: how many replicas are wanted and how many there are.

Every kind that can be scaled shows the same small object. Kubernetes' own keep the numbers in
``spec.replicas`` and ``status.replicas``; a CRD says where its kind keeps them.
"""

from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.schema import Schema, builtin_schema
from karpenter_sandbox.server.options import WriteOptions
from karpenter_sandbox.server.selectors import selector_text
from karpenter_sandbox.server.structure import read_as
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs import ownership
from karpenter_sandbox.server.verbs.patches import APPLY_PATCH, patched
from karpenter_sandbox.server.verbs.read import find
from karpenter_sandbox.server.verbs.writing import Written, replace
from karpenter_sandbox.status import bad_request, internal, invalid

_VERSION: Final = "autoscaling/v1"
_SPEC: Final = ("spec", "replicas")
_STATUS: Final = ("status", "replicas")
_SUBRESOURCE: Final = "scale"
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get_scale(backend: Backend, target: Target) -> JsonObject:
    """The scale of an object.

    Raises:
        ApiError: the object does not say how many replicas it wants.
    """
    obj = versions.served(find(backend, target).obj, target.resource)
    path = _paths(target.resource)[0]
    if target.resource.custom is not None and _value(obj, path) is None:
        raise internal(f'the spec replicas field ".{".".join(path)}" does not exist')
    return scale_of(obj, target.resource)


def scale_of(obj: JsonObject, resource: Resource) -> JsonObject:
    """The scale of an object in the version of ``resource``."""
    spec_path, status_path, _ = _paths(resource)
    status: JsonObject = {"replicas": _value(obj, status_path) or 0}
    selector = _selector(obj, resource)
    if selector:
        status["selector"] = selector
    wanted = _value(obj, spec_path)
    return {
        "kind": "Scale",
        "apiVersion": _VERSION,
        "metadata": {key: obj["metadata"][key] for key in _SHOWN if key in obj["metadata"]},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def update_scale(
    backend: Backend, target: Target, scale: JsonObject, options: WriteOptions
) -> Written:
    """Set the number of replicas; the outcome is the new scale."""
    existing = find(backend, target)
    resource, name = target.resource, target.name
    scale = read_as(scale, _VERSION, "Scale")
    if (scale.get("metadata") or {}).get("name", name) != name:
        raise bad_request(
            f"the name of the object ({scale['metadata']['name']}) does not match"
            f" the name on the URL ({name})"
        )
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        error = FieldError(ErrorKind.INVALID, _SPEC, detail, replicas)
        raise invalid("autoscaling", "Scale", name, [error])
    obj = versions.served(existing.obj, resource)
    wanted = scale.get("metadata") or {}
    metadata = dict(obj["metadata"])
    for key in ("uid", "resourceVersion"):
        if wanted.get(key):
            metadata[key] = wanted[key]
    changed = _with_value({**obj, "metadata": metadata}, _paths(resource)[0], replicas)
    if options.track_fields:
        changed = _tracked(backend, obj, changed, target, options)
    whole = Target(resource, target.namespace, name)
    warnings: list[str] = []
    written = replace(backend, whole, existing, changed, options, warnings, tracks=False)
    return Written(scale_of(written.obj, resource), warnings=warnings)


def _tracked(
    backend: Backend, old: JsonObject, new: JsonObject, target: Target, options: WriteOptions
) -> JsonObject:
    """The writer of a scale owns the number of replicas; servers record no time for it."""
    tracked = ownership.tracked(backend, old, new, target, options)
    metadata = tracked["metadata"]
    entries = [
        {key: part for key, part in entry.items() if key != "time"}
        if entry.get("subresource") == _SUBRESOURCE
        else entry
        for entry in metadata.get("managedFields") or []
    ]
    return {**tracked, "metadata": {**metadata, "managedFields": entries}} if entries else tracked


def patch_scale(
    backend: Backend, target: Target, patch_type: str, body: Any, options: WriteOptions
) -> Written:
    """Change the scale of an object in part."""
    if patch_type == APPLY_PATCH:
        # The number of replicas is all that a client may say about a scale
        return update_scale(backend, target, _object(body), options)
    current = scale_of(versions.served(find(backend, target).obj, target.resource), target.resource)
    changed = patched(current, body, patch_type, target.resource, schema=_schema())
    return update_scale(backend, target, changed, options)


def _schema() -> Schema | None:
    return builtin_schema(_VERSION, "Scale")


def _object(body: Any) -> JsonObject:
    if not isinstance(body, dict):
        raise bad_request("the body of the request must be an object")
    return body


def _paths(resource: Resource) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
    if resource.custom is None or resource.custom.scale is None:
        return _SPEC, _STATUS, None
    scale = resource.custom.scale
    return (_split(scale.spec_replicas), _split(scale.status_replicas), scale.selector)


def _selector(obj: JsonObject, resource: Resource) -> str:
    if resource.custom is not None:
        path = _paths(resource)[2]
        value = _value(obj, _split(path)) if path else None
        return value if isinstance(value, str) else ""
    selector = (obj.get("spec") or {}).get("selector")
    if resource.kind == "ReplicationController":
        selector = {"matchLabels": selector or {}}
    return selector_text(selector)


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.lstrip(".").split("."))


def _value(obj: JsonObject, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _with_value(obj: JsonObject, path: tuple[str, ...], value: int) -> JsonObject:
    if len(path) == 1:
        return {**obj, path[0]: value}
    inner = obj.get(path[0])
    return {**obj, path[0]: _with_value(inner if isinstance(inner, dict) else {}, path[1:], value)}
