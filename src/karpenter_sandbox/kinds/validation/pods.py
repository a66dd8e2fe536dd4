"""What is wrong with pods, and with the templates that workloads make pods from."""

from collections.abc import Iterable
from typing import Final

from karpenter.admission.errors import Path
from karpenter.api.meta import JsonObject
from karpenter.model.quantity import parse
from karpenter_sandbox.kinds.validation import grammar
from karpenter_sandbox.kinds.validation.metadata import label_errors
from karpenter_sandbox.kinds.validation.placing import placing_problems
from karpenter_sandbox.kinds.validation.problems import (
    MapKey,
    Problems,
    duplicate,
    forbidden,
    missing,
    one_of,
    present,
    required,
    unsupported,
    wrong,
)

_SPEC: Final[Path] = ("spec",)
_LARGEST_DEADLINE: Final = 2**31 - 1
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds`"
    " (allow it to be set to 1 if it was previously negative)"
)


def pod_problems(pod: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a pod, in itself and as a change."""
    spec = pod.get("spec") or {}
    yield from spec_problems(spec, _SPEC)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield forbidden((*_SPEC, "nodeName"), detail)
    if old is not None:
        yield from _change_problems(pod.get("spec") or {}, old.get("spec") or {})


def template_problems(template: JsonObject, path: Path) -> Problems:
    """What is wrong with a template of pods."""
    metadata = template.get("metadata") or {}
    yield from label_errors(metadata.get("labels") or {}, (*path, "metadata", "labels"))
    yield from spec_problems(template.get("spec") or {}, (*path, "spec"))


def spec_problems(spec: JsonObject, path: Path) -> Problems:
    """What is wrong with a specification of pods."""
    listed = spec.get("volumes") or []
    yield from _volume_problems(listed, (*path, "volumes"))
    volumes = {volume.get("name", "") for volume in listed}
    if not spec.get("containers"):
        yield required((*path, "containers"))
    names: set[str] = set()
    for part in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(part) or []):
            place = (*path, part, index)
            yield from _container_problems(container, place, volumes)
            name = container.get("name", "")
            if name and name in names:
                yield duplicate((*place, "name"), name)
            names.add(name)
    yield from one_of(path, spec, "restartPolicy", "Always", "OnFailure", "Never")
    yield from one_of(
        path, spec, "dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"
    )
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LARGEST_DEADLINE:
        detail = f"must be between 1 and {_LARGEST_DEADLINE}, inclusive"
        yield wrong((*path, "activeDeadlineSeconds"), deadline, detail)
    yield from label_errors(spec.get("nodeSelector") or {}, (*path, "nodeSelector"))
    for name in ("nodeName", "serviceAccountName", "priorityClassName", "runtimeClassName"):
        if spec.get(name):
            for problem in grammar.dns_subdomain(spec[name]):
                yield wrong((*path, name), spec[name], problem)
    yield from _gate_problems(spec.get("schedulingGates") or [], (*path, "schedulingGates"))
    yield from placing_problems(spec, path)


def _volume_problems(volumes: list[JsonObject], path: Path) -> Problems:
    names = set()
    for index, volume in enumerate(volumes):
        name, place = volume.get("name", ""), (*path, index)
        yield from _name_problems(name, (*place, "name"))
        if name and name in names:
            yield duplicate((*place, "name"), name)
        names.add(name)
        for source in [key for key in volume if key != "name"][1:]:
            yield forbidden((*place, source), "may not specify more than 1 volume type")


def _container_problems(container: JsonObject, path: Path, volumes: set[str]) -> Problems:
    yield from _name_problems(container.get("name", ""), (*path, "name"))
    image = container.get("image", "")
    if not image:
        yield required((*path, "image"))
    elif image != image.strip():
        yield wrong((*path, "image"), image, "must not have leading or trailing whitespace")
    yield from _port_problems(container.get("ports") or [], (*path, "ports"))
    for index, variable in enumerate(container.get("env") or []):
        yield from present((*path, "env", index), variable, "name")
    yield from _mount_problems(
        container.get("volumeMounts") or [], (*path, "volumeMounts"), volumes
    )
    yield from one_of(path, container, "imagePullPolicy", "Always", "IfNotPresent", "Never")
    yield from resource_problems(container.get("resources") or {}, (*path, "resources"))


def resource_problems(resources: JsonObject, path: Path) -> Problems:
    """What is wrong with what a container asks for."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount_problems(name, amount, (*path, part, MapKey(name)))
    for name, amount in requests.items():
        place = (*path, "requests")
        is_shared = "/" not in name and not name.startswith("hugepages-")
        if name not in limits:
            if not is_shared:
                detail = "Limit must be set for non overcommitable resources"
                yield required((*path, "limits"), detail)
        elif not is_shared and parse(amount) != parse(limits[name]):
            yield wrong(place, amount, f"must be equal to {name} limit of {limits[name]}")
        elif parse(amount) > parse(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield wrong(place, amount, detail)


def _amount_problems(name: str, amount: str, path: Path) -> Problems:
    for problem in grammar.label_key(name):
        yield wrong(path, name, problem)
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        yield wrong(path, name, "must be a standard resource type or fully qualified")
        yield wrong(path, name, "must be a standard resource for containers")
    value = parse(amount)
    if value < 0:
        yield wrong(path, amount, "must be greater than or equal to 0")
    if "/" in name and value != int(value):
        yield wrong(path, amount, "must be an integer")


def _port_problems(ports: list[JsonObject], path: Path) -> Problems:
    names = set()
    for index, port in enumerate(ports):
        place = (*path, index)
        name, number = port.get("name", ""), port.get("containerPort", 0)
        if name:
            problems = grammar.port_name(name)
            for problem in problems:
                yield wrong((*place, "name"), name, problem)
            if name in names:
                yield duplicate((*place, "name"), name)
            names.add(name)
        if not number:
            yield required((*place, "containerPort"))
        for field, value in (("containerPort", number), ("hostPort", port.get("hostPort", 0))):
            for problem in grammar.port_number(value) if value else ():
                yield wrong((*place, field), value, problem)
        yield from one_of(place, port, "protocol", "SCTP", "TCP", "UDP")


def _mount_problems(mounts: list[JsonObject], path: Path, volumes: set[str]) -> Problems:
    paths = set()
    for index, mount in enumerate(mounts):
        name, place = mount.get("name", ""), (*path, index)
        if not name:
            yield required((*place, "name"))
        elif name not in volumes:
            yield missing((*place, "name"), name)
        where = mount.get("mountPath", "")
        if not where:
            yield required((*place, "mountPath"))
        elif where in paths:
            yield wrong((*place, "mountPath"), where, "must be unique")
        paths.add(where)


def _gate_problems(gates: list[JsonObject], path: Path) -> Problems:
    names = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        for problem in grammar.label_key(name):
            yield wrong((*path, index), name, problem)
        if name in names:
            yield duplicate((*path, index), name)
        names.add(name)


def _name_problems(name: str, path: Path) -> Problems:
    if not name:
        yield required(path)
        return
    for problem in grammar.dns_label(name):
        yield wrong(path, name, problem)


def _change_problems(new: JsonObject, old: JsonObject) -> Problems:
    for part in ("containers", "initContainers"):
        if len(new.get(part) or []) != len(old.get(part) or []):
            yield forbidden((*_SPEC, part), "pod updates may not add or remove containers")
            return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and after is None:
        detail = "must not update from a positive integer to nil value"
        yield wrong((*_SPEC, "activeDeadlineSeconds"), None, detail)
    elif before is not None and after is not None and after > before:
        detail = "must be less than or equal to previous value"
        yield wrong((*_SPEC, "activeDeadlineSeconds"), after, detail)
    yield from _toleration_changes(new.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gate_changes(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if _fixed(new, old) != _fixed(old, old):
        detail = f"pod updates may not change fields other than {_CHANGEABLE}"
        yield forbidden(_SPEC, detail)


def _toleration_changes(new: list[JsonObject], old: list[JsonObject]) -> Problems:
    def identity(toleration: JsonObject) -> JsonObject:
        return {key: part for key, part in toleration.items() if key != "tolerationSeconds"}

    kept = [identity(toleration) for toleration in new]
    if any(identity(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden((*_SPEC, "tolerations"), detail)


def _gate_changes(new: list[JsonObject], old: list[JsonObject]) -> Problems:
    known = [gate.get("name") for gate in old]
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden((*_SPEC, "schedulingGates", index, "name"), detail)


def _fixed(spec: JsonObject, old: JsonObject) -> JsonObject:
    """What of a specification can never change."""
    free = {"activeDeadlineSeconds", "schedulingGates", "tolerations"}
    if old.get("schedulingGates"):
        # Before a pod is scheduled, its constraints may still be narrowed
        free |= {"nodeSelector", "affinity"}
    grace = old.get("terminationGracePeriodSeconds", 0)
    if grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        free |= {"terminationGracePeriodSeconds"}
    fixed = {key: part for key, part in spec.items() if key not in free}
    for part in ("containers", "initContainers"):
        if part in fixed:
            fixed[part] = [_without(container, ("image",)) for container in fixed[part]]
    return fixed


def _without(obj: JsonObject, names: Iterable[str]) -> JsonObject:
    return {key: part for key, part in obj.items() if key not in names}


def restart_problems(template: JsonObject, path: Path, owner: str) -> Problems:
    """What a workload that keeps its pods running does not allow in its template."""
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy")
    if policy != "Always":
        yield unsupported((*path, "spec", "restartPolicy"), policy, ("Always",))
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden((*path, "spec", "activeDeadlineSeconds"), detail)
