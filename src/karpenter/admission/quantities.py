"""Amounts of resources in Kubernetes' own kinds: each a quantity, and none negative.

Only places the planners read are looked at: what pods and their templates ask for, and what nodes
have. An API server refuses the same; a file has nobody else to do it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.model.quantity import QuantityError, parse

# kind -> where the specs of its pods stand
_POD_SPECS: Final[Mapping[str, Path]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "ReplicationController": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "Deployment": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_CONTAINERS: Final = ("containers", "initContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
_Amounts: TypeAlias = tuple[Path, Mapping[str, Any]]


def quantity_errors(obj: Mapping[str, Any]) -> list[FieldError]:
    """Say which amounts cannot be; ``obj`` has the shape of its kind."""
    found = []
    for path, amounts in _amounts(obj):
        for name, amount in amounts.items():
            problem = _problem(amount)
            if problem is not None:
                found.append(FieldError(ErrorKind.INVALID, (*path, name), problem, amount))
    return found


@lru_cache(maxsize=4096)
def _problem(amount: str | int | float) -> str | None:
    try:
        value = parse(amount)
    except QuantityError:
        return "must be a quantity such as 2, 500m, 1.5Gi or 1e3"
    return "must not be negative" if value < 0 else None


def _amounts(obj: Mapping[str, Any]) -> Iterator[_Amounts]:
    kind = obj["kind"]
    if kind == "Node":
        yield from _maps(obj.get("status"), ("status",), ("capacity", "allocatable"))
        return
    where = _POD_SPECS.get(kind)
    if where is None:
        return
    yield from _of_pods(_at(obj, where), where)
    if kind == "Pod":
        yield from _of_status(obj.get("status") or {})


def _of_pods(spec: Any, where: Path) -> Iterator[_Amounts]:
    if not spec:
        return
    yield from _maps(spec, where, ("overhead",))
    yield from _of_resources(spec, where)
    for field in _CONTAINERS:
        for index, container in enumerate(spec.get(field) or ()):
            yield from _of_resources(container, (*where, field, index))


def _of_status(status: Mapping[str, Any]) -> Iterator[_Amounts]:
    for field in _STATUSES:
        for index, container in enumerate(status.get(field) or ()):
            where: Path = ("status", field, index)
            yield from _maps(container, where, ("allocatedResources",))
            yield from _of_resources(container, where)


def _of_resources(holder: Mapping[str, Any], where: Path) -> Iterator[_Amounts]:
    yield from _maps(holder.get("resources"), (*where, "resources"), ("requests", "limits"))


def _maps(holder: Any, where: Path, fields: tuple[str, ...]) -> Iterator[_Amounts]:
    for field in fields:
        if holder and holder.get(field):
            yield (*where, field), holder[field]


def _at(obj: Any, path: Path) -> Any:
    for key in path:
        obj = obj.get(key) if obj else None
    return obj
