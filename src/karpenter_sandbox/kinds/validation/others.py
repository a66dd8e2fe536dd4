"""What is wrong with the kinds that do not run pods."""

import base64
from typing import Final

from karpenter.admission.errors import ErrorKind, Path
from karpenter.api.meta import JsonObject
from karpenter.model.quantity import parse
from karpenter_sandbox.kinds.validation import grammar
from karpenter_sandbox.kinds.validation.metadata import label_errors
from karpenter_sandbox.kinds.validation.placing import taint_problems
from karpenter_sandbox.kinds.validation.problems import (
    MapKey,
    PathFieldError,
    Problems,
    Verbatim,
    duplicate,
    forbidden,
    immutable,
    one_of,
    present,
    required,
    unsupported,
    wrong,
)
from karpenter_sandbox.kinds.validation.selecting import selector_problems

_SPEC: Final[Path] = ("spec",)
_LARGEST_SECRET: Final = 1024 * 1024
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_SYSTEM_PREFIX: Final = "system-"
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000


def node_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a Node."""
    spec = obj.get("spec") or {}
    # API servers report this path: taints were once an annotation
    yield from taint_problems(spec.get("taints") or [], ("metadata", "taints"))
    for part in ("capacity", "allocatable"):
        for name, amount in ((obj.get("status") or {}).get(part) or {}).items():
            if parse(amount) < 0:
                detail = "must be greater than or equal to 0"
                yield wrong(("status", part, Verbatim(name)), amount, detail)
    if old is None:
        return
    before = (old.get("spec") or {}).get("providerID")
    if before and before != spec.get("providerID"):
        detail = 'node updates may not change providerID except from "" to valid'
        yield forbidden((*_SPEC, "providerID"), detail)
    ranges = (old.get("spec") or {}).get("podCIDRs")
    if ranges and ranges != spec.get("podCIDRs"):
        detail = 'node updates may not change podCIDR except from "" to valid'
        yield forbidden((*_SPEC, "podCIDRs"), detail)


def service_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a Service."""
    spec = obj.get("spec") or {}
    kind = spec.get("type")
    if kind not in _SERVICE_TYPES:
        yield unsupported((*_SPEC, "type"), kind, _SERVICE_TYPES)
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required((*_SPEC, "ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required((*_SPEC, "externalName"))
    yield from label_errors(spec.get("selector") or {}, (*_SPEC, "selector"))
    yield from one_of(_SPEC, spec, "sessionAffinity", "ClientIP", "None")
    yield from _service_port_problems(ports, (*_SPEC, "ports"))
    before = (old or {}).get("spec") or {}
    has_address = "ExternalName" not in {kind, before.get("type")}
    address = before.get("clusterIP")
    if address and has_address and address != spec.get("clusterIP"):
        detail = "may not change once set"
        yield wrong((*_SPEC, "clusterIPs", 0), [spec.get("clusterIP")], detail)


def _service_port_problems(ports: list[JsonObject], path: Path) -> Problems:
    names, numbers = set(), set()
    for index, port in enumerate(ports):
        place, name = (*path, index), port.get("name", "")
        if not name and len(ports) > 1:
            yield required((*place, "name"))
        elif name:
            for problem in grammar.dns_label(name):
                yield wrong((*place, "name"), name, problem)
            if name in names:
                yield duplicate((*place, "name"), name)
            names.add(name)
        number = port.get("port", 0)
        for problem in grammar.port_number(number):
            yield wrong((*place, "port"), number, problem)
        target = port.get("targetPort", 0)
        found = (
            grammar.port_name(target) if isinstance(target, str) else grammar.port_number(target)
        )
        for problem in found:
            yield wrong((*place, "targetPort"), target, problem)
        yield from one_of(place, port, "protocol", "SCTP", "TCP", "UDP")
        identity = (port.get("protocol"), number)
        if identity in numbers:
            yield duplicate(place, {"port": number, "protocol": port.get("protocol")})
        numbers.add(identity)


def config_map_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a ConfigMap."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for part, content in (("data", data), ("binaryData", binary)):
        for key in content:
            for problem in grammar.config_key(key):
                yield wrong((part, MapKey(key)), key, problem)
    for key in data.keys() & binary.keys():
        yield wrong(("data", MapKey(key)), key, "duplicate of key present in binaryData")
    size = sum(len(text.encode()) for text in data.values())
    if size > _LARGEST_SECRET:
        detail = f"may not be more than {_LARGEST_SECRET} bytes"
        yield PathFieldError(ErrorKind.TOO_LONG, (), detail)
    yield from _sealed_problems(obj, old, "data", "binaryData")


def secret_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a Secret."""
    data = obj.get("data") or {}
    for key in data:
        for problem in grammar.config_key(key):
            yield wrong(("data", MapKey(key)), key, problem)
    size = sum(len(base64.b64decode(text)) for text in data.values())
    if size > _LARGEST_SECRET:
        detail = f"may not be more than {_LARGEST_SECRET} bytes"
        yield PathFieldError(ErrorKind.TOO_LONG, ("data",), detail)
    if old is not None:
        yield from immutable((), obj, old, "type")
    yield from _sealed_problems(obj, old, "data")


def _sealed_problems(obj: JsonObject, old: JsonObject | None, *names: str) -> Problems:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden(("immutable",), "field is immutable when `immutable` is set")
    for name in names:
        if obj.get(name) != old.get(name):
            yield forbidden((name,), "field is immutable when `immutable` is set")


def claim_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a PersistentVolumeClaim."""
    spec = obj.get("spec") or {}
    yield from _access_problems(spec)
    yield from selector_problems(spec.get("selector"), (*_SPEC, "selector"))
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    place = (*_SPEC, "resources", MapKey("storage"))
    if size is None:
        yield required(place)
    elif parse(size) <= 0:
        yield wrong(place, size, "must be greater than zero")
    if old is not None:
        yield from _claim_changes(obj, old)


def _claim_changes(obj: JsonObject, old: JsonObject) -> Problems:
    new, before = dict(obj.get("spec") or {}), dict(old.get("spec") or {})
    free = [] if before.get("volumeName") else ["volumeName"]
    if (obj.get("status") or {}).get("phase") == "Bound":
        free += ["resources", "volumeAttributesClassName"]
    # A claim from before there was a default class may be given one
    if "storageClassName" not in before:
        free.append("storageClassName")
    for name in free:
        new.pop(name, None)
        before.pop(name, None)
    if new != before:
        detail = (
            "spec is immutable after creation except resources.requests"
            " and volumeAttributesClassName for bound claims"
        )
        yield forbidden(_SPEC, detail)


def volume_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with a PersistentVolume."""
    spec = obj.get("spec") or {}
    yield from _access_problems(spec)
    if not spec.get("capacity"):
        yield required((*_SPEC, "capacity"))
    elif "storage" not in spec["capacity"]:
        yield unsupported((*_SPEC, "capacity"), spec["capacity"], ("storage",))
    policies = ("Delete", "Recycle", "Retain")
    yield from one_of(_SPEC, spec, "persistentVolumeReclaimPolicy", *policies)


def _access_problems(spec: JsonObject) -> Problems:
    modes, path = spec.get("accessModes") or [], (*_SPEC, "accessModes")
    if not modes:
        yield required(path, "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported(path, mode, _ACCESS_MODES)
    yield from one_of(_SPEC, spec, "volumeMode", "Block", "Filesystem")


def storage_class_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a StorageClass."""
    yield from present((), obj, "provisioner")
    yield from one_of((), obj, "reclaimPolicy", "Delete", "Retain")
    yield from one_of((), obj, "volumeBindingMode", "Immediate", "WaitForFirstConsumer")
    if old is None:
        return
    for name in ("parameters", "provisioner", "reclaimPolicy"):
        if obj.get(name) != old.get(name):
            yield forbidden((name,), f"updates to {name} are forbidden.")
    yield from immutable((), obj, old, "volumeBindingMode")


def priority_class_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a PriorityClass."""
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith(_SYSTEM_PREFIX):
        if name not in {"system-cluster-critical", "system-node-critical"}:
            detail = "priority class names with 'system-' prefix are reserved for system use only."
            yield forbidden(
                ("metadata", "name"), f"{detail} error: {name} is not a known system priority class"
            )
    elif value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        yield forbidden(("value",), detail)
    yield from one_of((), obj, "preemptionPolicy", "PreemptLowerPriority", "Never")
    if old is not None and value != old.get("value", 0):
        yield forbidden(("value",), "may not be changed in an update.")


def role_binding_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a RoleBinding or ClusterRoleBinding."""
    role = obj.get("roleRef") or {}
    yield from present(("roleRef",), role, "name")
    kinds = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if role.get("kind") not in kinds:
        yield unsupported(("roleRef", "kind"), role.get("kind", ""), kinds)
    if old is not None and role != old.get("roleRef"):
        yield wrong(("roleRef",), role, "cannot change roleRef")


def lease_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with a Lease."""
    spec = obj.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield wrong((*_SPEC, "leaseDurationSeconds"), duration, "must be greater than 0")
    transitions = spec.get("leaseTransitions", 0)
    if transitions < 0:
        detail = "must be greater than or equal to 0"
        yield wrong((*_SPEC, "leaseTransitions"), transitions, detail)


def event_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with an Event."""
    place = (obj.get("involvedObject") or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace", "")
    # Events about objects without a namespace are kept in the default one
    if (place or "default") != namespace:
        detail = "does not match event.namespace"
        yield wrong(("involvedObject", "namespace"), place, detail)
