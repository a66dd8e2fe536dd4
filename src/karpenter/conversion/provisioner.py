"""A v1alpha5 Provisioner as a v1 NodePool.

The node class it uses is chosen elsewhere: this module determines what the Provisioner refers to (a
class by name, an inline provider, or none), its kubelet settings, and its NodePool once the class
has a name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path
from karpenter.admission.legacy.provisioner import EMPTINESS_EXCLUDES_CONSOLIDATION
from karpenter.api.meta import JsonObject
from karpenter.api.node_classes import ec2_labels
from karpenter.conversion.draft import Draft, Origin, Origins
from karpenter.conversion.v1beta1 import CORE_V1, NODE_CLASS_KIND
from karpenter.conversion.values import (
    compact_json,
    items,
    kept_metadata,
    present,
    section,
    with_annotations,
    without,
)
from karpenter.model import labels
from karpenter.model.durations import NEVER

PROVIDER: Final[Path] = ("spec", "provider")
PROVIDER_REF: Final[Path] = ("spec", "providerRef")
KUBELET: Final[Path] = ("spec", "kubeletConfiguration")

_RESERVED: Final = ("systemReserved", "kubeReserved")
_LONGEST: Final = (2**63 - 1) // 10**9  # v1 stores a duration as 64-bit nanoseconds


@dataclass(frozen=True, slots=True)
class ClassSource:
    """Where a Provisioner's node class comes from: a name, an inline provider, or an error."""

    name: str | None = None
    provider: Mapping[str, Any] | None = None
    path: Path = ("spec",)
    errors: Sequence[FieldError] = ()


@dataclass(frozen=True, slots=True)
class Kubelet:
    """The kubelet settings of a Provisioner in the form an EC2NodeClass takes them."""

    settings: JsonObject | None
    errors: Sequence[FieldError] = ()
    warnings: Sequence[FieldWarning] = ()


def class_source(provisioner: Mapping[str, Any], default_class: str | None) -> ClassSource:
    """Determine which node class a Provisioner refers to."""
    spec = present(section(provisioner, "spec"))
    reference, provider = section(spec, "providerRef"), section(spec, "provider")
    inline = present(without(provider, "apiVersion", "kind"))
    if "providerRef" in spec and "provider" in spec:
        both = "provider and providerRef exclude each other; keep one of them"
        return ClassSource(
            path=PROVIDER_REF, errors=[FieldError(ErrorKind.FORBIDDEN, PROVIDER, both)]
        )
    if "providerRef" in spec:
        name = reference.get("name")
        if isinstance(name, str) and name:
            return ClassSource(name=name, path=PROVIDER_REF)
        missing = "name the AWSNodeTemplate"
        return ClassSource(
            path=PROVIDER_REF,
            errors=[FieldError(ErrorKind.REQUIRED, (*PROVIDER_REF, "name"), missing)],
        )
    if inline:
        return ClassSource(provider=provider, path=PROVIDER)
    path = PROVIDER if "provider" in spec else PROVIDER_REF
    if default_class:
        return ClassSource(name=default_class, path=path)
    unknown = (
        "provider is empty, so no node class can be made of it"
        if "provider" in spec
        else "neither provider nor providerRef is set"
    )
    error = FieldError(
        ErrorKind.REQUIRED, path, f"{unknown}; pass --default-node-class to name an EC2NodeClass"
    )
    return ClassSource(path=path, errors=[error])


def kubelet_of(provisioner: Mapping[str, Any]) -> Kubelet:
    """Convert the kubelet settings of a Provisioner."""
    configuration = present(section(provisioner, *map(str, KUBELET)))
    if not configuration:
        return Kubelet(None)
    runtime = configuration.pop("containerRuntime", None)
    errors, warnings = _runtime_findings(runtime)
    return Kubelet(reserving_text(configuration) or None, errors, warnings)


def reserving_text(kubelet: Mapping[str, Any]) -> JsonObject:
    """Return kubelet settings with reserved amounts as text, the one form the kubelet reads."""
    reserved = {field: kubelet[field] for field in _RESERVED if field in kubelet}
    return {
        **kubelet,
        **{k: _quantities(v) for k, v in reserved.items() if isinstance(v, Mapping)},
    }


def node_pool_of(
    provisioner: Mapping[str, Any],
    class_name: str,
    source: ClassSource,
    *,
    kept_kubelet: Mapping[str, Any] | None = None,
) -> Draft:
    """Convert a Provisioner to the NodePool of the same name on the class ``class_name``.

    ``kept_kubelet`` are settings that no class could take; an annotation keeps them.
    """
    spec = present(section(provisioner, "spec"))
    errors = [*_ttl_errors(spec), *_requirement_errors(spec)]
    node_pool: JsonObject = {
        "apiVersion": CORE_V1,
        "kind": "NodePool",
        "metadata": kept_metadata(provisioner),
        "spec": {
            "template": _template(spec, class_name),
            "disruption": _disruption(spec),
        },
    }
    limits = section(spec, "limits", "resources")
    if limits:
        node_pool["spec"]["limits"] = _quantities(limits)
    if "weight" in spec:
        node_pool["spec"]["weight"] = spec["weight"]
    kept: dict[str, str | None] = {}
    if source.provider is not None:
        kept[labels.KEPT_PROVIDER] = compact_json(source.provider)
    if kept_kubelet is not None:
        kept[labels.KEPT_KUBELET] = compact_json(kept_kubelet)
    return Draft(with_annotations(node_pool, kept), _origins(source), errors)


def _template(spec: Mapping[str, Any], class_name: str) -> JsonObject:
    metadata = {key: spec[key] for key in ("labels", "annotations") if key in spec}
    expiry = spec.get("ttlSecondsUntilExpired")
    node: JsonObject = {
        "nodeClassRef": {
            "group": ec2_labels.DOMAIN,
            "kind": NODE_CLASS_KIND,
            "name": class_name,
        },
        "requirements": list(items(spec, "requirements")),
        **{key: spec[key] for key in ("taints", "startupTaints") if key in spec},
        "expireAfter": NEVER if expiry is None else _seconds(expiry),
    }
    return {"metadata": metadata, "spec": node} if metadata else {"spec": node}


def _disruption(spec: Mapping[str, Any]) -> JsonObject:
    if section(spec, "consolidation").get("enabled") is True:
        return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    emptiness = spec.get("ttlSecondsAfterEmpty")
    # Without either setting nodes were not disrupted; the default of v1 would consolidate them.
    wait = NEVER if emptiness is None else _seconds(emptiness)
    return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": wait}


def _seconds(count: Any) -> str:
    """Write a count of seconds, clamped: one out of bounds has been reported already."""
    return f"{min(max(int(count), 0), _LONGEST)}s"


def _quantities(resources: Mapping[str, Any]) -> JsonObject:
    """Write every quantity as text, which is how v1 stores it."""
    return {
        name: amount if isinstance(amount, str) else str(amount)
        for name, amount in resources.items()
        if amount is not None
    }


def _ttl_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    errors = []
    for field in ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired"):
        seconds = spec.get(field)
        if seconds is not None and not 0 <= seconds <= _LONGEST:
            detail = "must not be negative" if seconds < 0 else f"must not be above {_LONGEST}"
            errors.append(FieldError(ErrorKind.INVALID, ("spec", field), detail, seconds))
    consolidates = section(spec, "consolidation").get("enabled") is True
    if consolidates and spec.get("ttlSecondsAfterEmpty") is not None:
        errors.append(
            FieldError(
                ErrorKind.FORBIDDEN,
                ("spec", "ttlSecondsAfterEmpty"),
                EMPTINESS_EXCLUDES_CONSOLIDATION,
            )
        )
    return errors


def _requirement_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    return [
        FieldError(
            ErrorKind.FORBIDDEN,
            ("spec", "requirements", index, "key"),
            f"{ec2_labels.INSTANCE_PODS} has no meaning in v1; limit pods with maxPods or podsPerCore "
            "of the kubelet, or choose instance types",
        )
        for index, requirement in enumerate(items(spec, "requirements"))
        if section(requirement).get("key") == ec2_labels.INSTANCE_PODS
    ]


def _runtime_findings(runtime: object) -> tuple[list[FieldError], list[FieldWarning]]:
    path = (*KUBELET, "containerRuntime")
    if runtime is None:
        return [], []
    if runtime == "containerd":
        return [], [FieldWarning(path, "was dropped: v1 nodes always run containerd")]
    refused = "v1 nodes run containerd only; remove the field or say containerd"
    return [FieldError(ErrorKind.NOT_SUPPORTED, path, refused, runtime)], []


def _origins(source: ClassSource) -> Origins:
    node = ("spec", "template", "spec")
    reference: dict[Path, Origin] = {
        (*node, "nodeClassRef"): Origin(source.path, reshaped=True),
    }
    if source.name is not None and source.path == PROVIDER_REF:
        reference[*node, "nodeClassRef", "name"] = Origin((*PROVIDER_REF, "name"))
    return Origins(
        {
            ("metadata",): Origin(("metadata",)),
            ("spec",): Origin(("spec",), reshaped=True),
            ("spec", "template", "metadata", "labels"): Origin(("spec", "labels")),
            ("spec", "template", "metadata", "annotations"): Origin(("spec", "annotations")),
            (*node, "requirements"): Origin(("spec", "requirements")),
            (*node, "taints"): Origin(("spec", "taints")),
            (*node, "startupTaints"): Origin(("spec", "startupTaints")),
            (*node, "expireAfter"): Origin(("spec", "ttlSecondsUntilExpired"), reshaped=True),
            ("spec", "limits"): Origin(("spec", "limits", "resources")),
            ("spec", "weight"): Origin(("spec", "weight")),
            **reference,
        }
    )
