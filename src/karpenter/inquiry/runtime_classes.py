"""RuntimeClasses of files: what a cluster would have written on the pods that name one.

An API server adds to such a pod the overhead of the class and its scheduling constraints: the node
selector and tolerations for the nodes that have the runtime. Pods that were read from a cluster
have both already.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.model.quantity import QuantityError, parse

JsonObject: TypeAlias = Mapping[str, Any]

_API_VERSION: Final = "node.k8s.io/v1"
_KIND: Final = "RuntimeClass"
_OVERHEAD: Final = ("overhead", "podFixed")
# kind -> where the spec of its pods is; all others that have pods have a template in their spec
_POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_TEMPLATE: Final = ("spec", "template", "spec")


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """What a class adds to pods."""

    overhead: Mapping[str, Any] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Any] = ()


def is_runtime_class(obj: JsonObject) -> bool:
    """Whether an object is a RuntimeClass."""
    return (obj.get("apiVersion"), obj.get("kind")) == (_API_VERSION, _KIND)


def overhead_errors(obj: JsonObject) -> list[FieldError]:
    """Say which amounts of a RuntimeClass cannot be."""
    return [
        FieldError(ErrorKind.INVALID, (*_OVERHEAD, name), "must be a quantity such as 250m", amount)
        for name, amount in _mapping(obj, *_OVERHEAD).items()
        if not _is_amount(amount)
    ]


def runtime_classes(objects: Iterable[JsonObject]) -> dict[str, RuntimeClass]:
    """The RuntimeClasses among objects, by name."""
    return {
        str(_mapping(obj, "metadata").get("name")): RuntimeClass(
            _mapping(obj, *_OVERHEAD),
            _mapping(obj, "scheduling", "nodeSelector"),
            _listed(_mapping(obj, "scheduling"), "tolerations"),
        )
        for obj in objects
        if is_runtime_class(obj)
    }


def as_admitted(obj: dict[str, Any], classes: Mapping[str, RuntimeClass]) -> dict[str, Any]:
    """An object whose pods, if it has any, carry what their RuntimeClass adds."""
    path = _POD_SPECS.get(str(obj.get("kind")), _TEMPLATE)
    spec = _mapping(obj, *path)
    named = classes.get(str(spec.get("runtimeClassName")))
    if named is None or spec.get("overhead"):
        return obj
    more = {
        "overhead": dict(named.overhead),
        "nodeSelector": {**_mapping(spec, "nodeSelector"), **named.node_selector},
        "tolerations": [*_listed(spec, "tolerations"), *named.tolerations],
    }
    return _with(obj, path, {**spec, **{key: value for key, value in more.items() if value}})


def _with(obj: JsonObject, path: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = path
    return {**obj, first: _with(obj[first], rest, value) if rest else value}


def _mapping(obj: JsonObject, *path: str) -> Mapping[str, Any]:
    """What is found under a path; nothing where that is no mapping."""
    found: object = obj
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _listed(obj: JsonObject, name: str) -> Sequence[Any]:
    found = obj.get(name)
    return found if isinstance(found, list) else ()


def _is_amount(amount: object) -> bool:
    try:
        return isinstance(amount, str | int | float) and parse(amount) >= 0
    except QuantityError:
        return False
