"""The legacy webhook's rules for a Provisioner.

How its requirements were completed is in ``webhook``; what its AWS provider may hold is in
``node_template``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from karpenter.admission.constraints import (
    Finding,
    label_findings,
    object_at,
    operator_errors,
    requirement_findings,
    taint_errors,
)
from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.admission.kubelets.kubelet import (
    eviction_errors,
    image_gc_errors,
    negative_errors,
    reserved_errors,
)
from karpenter.admission.legacy.node_template import inline_provider_errors
from karpenter.admission.shapes import bound_errors
from karpenter.model.label_rules import Place
from karpenter.model.quantity import is_quantity

EMPTINESS_EXCLUDES_CONSOLIDATION: Final = (
    "cannot be set while consolidation.enabled is true, which removes empty nodes too;"
    " remove one of the two"
)

_SPEC: Final = ("spec",)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_WEIGHTS: Final = (1, 100)
_RUNTIMES: Final = ("containerd", "dockerd")
_RUNTIMES_OF_FAMILY: Final = {"Bottlerocket": ("containerd",)}


def provisioner_findings(spec: Mapping[str, Any], *, provider: str) -> Iterator[Finding]:
    """Check the spec of a Provisioner."""
    yield from label_findings(
        object_at(spec, "labels"),
        (*_SPEC, "labels"),
        place=Place.PROVISIONER_LABEL,
        provider=provider,
    )
    yield from taint_errors(spec, _SPEC, effect_required=False)
    yield from operator_errors(spec, _SPEC, operators=_OPERATORS)
    yield from requirement_findings(
        spec, _SPEC, place=Place.PROVISIONER_REQUIREMENT, provider=provider
    )
    yield from _provider_errors(spec, provider)
    yield from _lifetime_errors(spec)
    yield from _weight_errors(spec)
    yield from _kubelet_errors(spec)


def _provider_errors(spec: Mapping[str, Any], provider: str) -> Iterator[FieldError]:
    inline, reference = spec.get("provider"), spec.get("providerRef")
    if inline is None and reference is None:
        yield FieldError(
            ErrorKind.REQUIRED, (*_SPEC, "providerRef"), "set either providerRef or provider"
        )
    elif inline is not None and reference is not None:
        yield FieldError(
            ErrorKind.FORBIDDEN,
            (*_SPEC, "provider"),
            "cannot be set together with providerRef; remove one of the two",
        )
    if provider == "aws" and isinstance(inline, Mapping):
        yield from inline_provider_errors(inline, (*_SPEC, "provider"))


def _lifetime_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from negative_errors(spec, ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired"), _SPEC)
    consolidates = object_at(spec, "consolidation").get("enabled") is True
    if consolidates and spec.get("ttlSecondsAfterEmpty") is not None:
        yield FieldError(
            ErrorKind.FORBIDDEN,
            (*_SPEC, "ttlSecondsAfterEmpty"),
            EMPTINESS_EXCLUDES_CONSOLIDATION,
        )


def _weight_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    path = (*_SPEC, "weight")
    yield from bound_errors(spec.get("weight"), _WEIGHTS, path, "omit it for the lowest weight")


def _kubelet_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    kubelet = object_at(spec, "kubeletConfiguration")
    path = (*_SPEC, "kubeletConfiguration")
    yield from _runtime_errors(kubelet, (*path, "containerRuntime"), _inline_family(spec))
    yield from reserved_errors(kubelet, path)
    yield from _quantity_errors(kubelet, path)
    yield from eviction_errors(kubelet, path)
    yield from image_gc_errors(kubelet, path, equal_allowed=True)
    yield from negative_errors(kubelet, ("podsPerCore", "maxPods"), path)


def _inline_family(spec: Mapping[str, Any]) -> str | None:
    """Return the AMI family of an inline provider; that of a providerRef is not known here."""
    family = object_at(spec, "provider").get("amiFamily")
    return family if isinstance(family, str) else None


def _runtime_errors(
    kubelet: Mapping[str, Any], path: Path, family: str | None
) -> Iterator[FieldError]:
    runtime = kubelet.get("containerRuntime")
    choices = _RUNTIMES_OF_FAMILY.get(family or "", _RUNTIMES)
    if runtime is not None and runtime not in choices:
        runs = f"AMI family {family} runs {choices[0]} only" if len(choices) == 1 else ""
        yield FieldError(
            ErrorKind.NOT_SUPPORTED, path, runs or f"must be {' or '.join(choices)}", runtime
        )


def _quantity_errors(kubelet: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    for field in ("systemReserved", "kubeReserved"):
        for resource, amount in object_at(kubelet, field).items():
            if not is_quantity(amount):
                yield FieldError(
                    ErrorKind.INVALID,
                    (*path, field, str(resource)),
                    'must be a quantity such as "100m" or "1Gi"',
                    amount,
                )
