"""The kind and version that an object states, and its route through the conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path
from karpenter.api.meta import JsonObject
from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.conversion.values import edited, section
from karpenter.model import labels
from karpenter.model.suggestions import nearest_key


class Route(Enum):
    """The route of an object through the conversion."""

    CURRENT = "is served today and stays as it is"
    V1BETA1 = "is lifted to v1"
    PROVISIONER = "becomes a NodePool"
    NODE_TEMPLATE = "becomes an EC2NodeClass"
    OTHER = "belongs to another project and may carry renamed keys"
    LEFT_OUT = "has no counterpart"
    REFUSED = "cannot be determined"


@dataclass(frozen=True, slots=True)
class Claim:
    """The kind, version and route of an object, with its group corrected to the served one."""

    route: Route
    object: JsonObject
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldWarning, ...] = ()


_CORE, _AWS, _KWOK = labels.KARPENTER_DOMAIN, ec2_labels.DOMAIN, kwok_labels.DOMAIN
_BUFFERS: Final = "autoscaling.x-k8s.io"
_MISTAKEN_AWS: Final = "compute.k8s.aws"  # found in tutorials; no API server has ever served it
_KINDS: Final[Mapping[tuple[str, str], Mapping[str, Route]]] = {
    (_CORE, "NodePool"): {"v1": Route.CURRENT, "v1beta1": Route.V1BETA1},
    (_CORE, "NodeClaim"): {"v1": Route.CURRENT, "v1beta1": Route.V1BETA1},
    (_CORE, "NodeOverlay"): {"v1alpha1": Route.CURRENT},
    (_CORE, "Provisioner"): {"v1alpha5": Route.PROVISIONER},
    (_CORE, "Machine"): {"v1alpha5": Route.LEFT_OUT},
    (_AWS, "EC2NodeClass"): {"v1": Route.CURRENT, "v1beta1": Route.V1BETA1},
    (_AWS, "AWSNodeTemplate"): {"v1alpha1": Route.NODE_TEMPLATE},
    (_KWOK, "KWOKNodeClass"): {"v1alpha1": Route.CURRENT},
    (_BUFFERS, "CapacityBuffer"): {"v1beta1": Route.CURRENT},
}
_OWN_GROUPS: Final = (_CORE, _AWS, _KWOK)


def claim_of(obj: object) -> Claim:
    """Determine the kind, version and route of an object."""
    if not isinstance(obj, Mapping):
        return _refused({}, FieldError(ErrorKind.TYPE_INVALID, (), "an object must be a map", obj))
    missing = [error for key in ("apiVersion", "kind") for error in _text_errors(obj, key)]
    if missing:
        return _refused(obj, *missing)
    group, _, version = obj["apiVersion"].rpartition("/")
    if (group, version, obj["kind"]) == (_MISTAKEN_AWS, "v1beta1", "EC2NodeClass"):
        served = f"{_AWS}/v1beta1"
        return Claim(
            Route.V1BETA1,
            {**obj, "apiVersion": served},
            warnings=(_mistaken_group(("apiVersion",), served),),
        )
    return _known_claim(obj, group, version)


def corrected_reference(obj: JsonObject) -> tuple[JsonObject, list[FieldWarning]]:
    """Correct the group of a v1beta1 class reference that has the group of the tutorials."""
    node: Path = ("spec", "template", "spec") if obj.get("kind") == "NodePool" else ("spec",)
    path = (*node, "nodeClassRef", "apiVersion")
    written = section(obj, *map(str, path[:-1])).get("apiVersion")
    if not isinstance(written, str) or not written.startswith(f"{_MISTAKEN_AWS}/"):
        return obj, []
    served = f"{_AWS}/v1beta1"
    return edited(obj, path, lambda _: served), [_mistaken_group(path, served)]


def _known_claim(obj: Mapping[str, Any], group: str, version: str) -> Claim:
    kind = obj["kind"]
    versions = _KINDS.get((group, kind))
    if versions is not None:
        route = versions.get(version)
        if route is None:
            return _refused(obj, _unknown_version(obj, [(group, kind)]))
        if route is Route.LEFT_OUT:
            why = f"{kind} objects were made by the controller and have no v1 manifest: left out"
            return Claim(route, dict(obj), warnings=(FieldWarning(("kind",), why),))
        return Claim(route, dict(obj))
    if group not in (*_OWN_GROUPS, _MISTAKEN_AWS):
        return Claim(Route.OTHER, dict(obj))
    homes = [known for known in _KINDS if known[1] == kind]
    return _refused(obj, _unknown_version(obj, homes) if homes else _unknown_kind(obj, group))


def _text_errors(obj: Mapping[str, Any], key: str) -> list[FieldError]:
    value = obj.get(key)
    if isinstance(value, str) and value:
        return []
    if value is None or value == "":
        missing = f"say which {key} the object has"
        return [FieldError(ErrorKind.REQUIRED, (key,), missing)]
    return [FieldError(ErrorKind.TYPE_INVALID, (key,), "must be text", value)]


def _refused(obj: Mapping[str, Any], *errors: FieldError) -> Claim:
    return Claim(Route.REFUSED, dict(obj), errors=errors)


def _unknown_version(obj: Mapping[str, Any], homes: list[tuple[str, str]]) -> FieldError:
    known = [f"{home[0]}/{version}" for home in homes for version in _KINDS[home]]
    detail = f"{obj['kind']} is known as {' and '.join(known)} only"
    return FieldError(ErrorKind.NOT_SUPPORTED, ("apiVersion",), detail, obj["apiVersion"])


def _unknown_kind(obj: Mapping[str, Any], group: str) -> FieldError:
    known = sorted(kind for home, kind in _KINDS if home == group)
    meant = nearest_key(obj["kind"], [kind for _, kind in _KINDS])
    hint = f"did you mean {meant}?" if meant else f"known kinds are {', '.join(known) or 'none'}"
    detail = f"no such kind in group {group}; {hint}"
    return FieldError(ErrorKind.NOT_SUPPORTED, ("kind",), detail, obj["kind"])


def _mistaken_group(path: Path, served: str) -> FieldWarning:
    return FieldWarning(path, f"no server knows group {_MISTAKEN_AWS}; it was read as {served}")
