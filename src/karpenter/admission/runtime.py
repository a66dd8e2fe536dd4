"""Runtime validation: the controllers' checks of a stored object before they use it.

An object that fails here was accepted by the API server and stays stored; its condition
``ValidationSucceeded`` becomes False and nothing is launched for it. For files the same errors are
reported.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from karpenter.admission.constraints import (
    Finding,
    collect,
    keys_of,
    known_value_findings,
    label_findings,
    object_at,
    objects_at,
    requirement_findings,
    taint_errors,
)
from karpenter.admission.errors import ErrorKind, FieldError, Findings
from karpenter.admission.kubelets.kubelet import kubelet_problems
from karpenter.model.label_rules import Place, restricted_reason

_TEMPLATE: Final = ("spec", "template")
_RESOURCES_AWS_REPORTS: Final = (
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "vpc.amazonaws.com/efa",
    "vpc.amazonaws.com/pod-eni",
)
_ALIAS_FAMILIES: Final = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}


@dataclass(frozen=True, slots=True)
class _Setting:
    """The inputs of a rule besides the object."""

    provider: str
    expressions: bool


_Rules: TypeAlias = Callable[[Mapping[str, Any], _Setting], Iterator[Finding]]


def runtime_findings(
    obj: Mapping[str, Any], *, provider: str = "aws", expressions: bool = False
) -> Findings:
    """Check an object that passed its schema; kinds without such rules have no findings.

    ``expressions`` is the feature gate NodeClassCEL.
    """
    identity = (str(obj.get("apiVersion")), str(obj.get("kind")))
    spec, setting = object_at(obj, "spec"), _Setting(provider, expressions)
    return collect(
        finding for rules in _RULES.get(identity, ()) for finding in rules(spec, setting)
    )


def ami_family(spec: Mapping[str, Any]) -> str:
    """Return the AMI family an EC2NodeClass resolves to: named, else its alias's, else Custom."""
    family = spec.get("amiFamily")
    if isinstance(family, str) and family:
        return family
    terms = spec.get("amiSelectorTerms")
    for term in terms if isinstance(terms, list) else ():
        alias = term.get("alias") if isinstance(term, Mapping) else None
        if isinstance(alias, str):
            return _ALIAS_FAMILIES.get(alias.partition("@")[0], "Custom")
    return "Custom"


def _node_pool(label: Place, requirement: Place) -> _Rules:
    def rules(spec: Mapping[str, Any], setting: _Setting) -> Iterator[Finding]:
        template = object_at(spec, "template")
        given = object_at(object_at(template, "metadata"), "labels")
        inner, path = object_at(template, "spec"), (*_TEMPLATE, "spec")
        yield from label_findings(
            given, (*_TEMPLATE, "metadata", "labels"), place=label, provider=setting.provider
        )
        yield from requirement_findings(inner, path, place=requirement, provider=setting.provider)
        yield from _node_class_label_errors(given, inner, label, setting.provider)
        yield from taint_errors(inner, path, effect_required=True)

    return rules


def _node_claim(requirement: Place) -> _Rules:
    def rules(spec: Mapping[str, Any], setting: _Setting) -> Iterator[Finding]:
        yield from requirement_findings(
            spec, ("spec",), place=requirement, provider=setting.provider
        )
        yield from taint_errors(spec, ("spec",), effect_required=True)

    return rules


def _known_values(*place: str) -> _Rules:
    def rules(spec: Mapping[str, Any], setting: _Setting) -> Iterator[Finding]:
        for field in place:
            spec = object_at(spec, field)
        yield from known_value_findings(spec, ("spec", *place), provider=setting.provider)

    return rules


def _node_overlay(spec: Mapping[str, Any], setting: _Setting) -> Iterator[Finding]:
    yield from requirement_findings(
        spec, ("spec",), place=Place.NODE_OVERLAY_REQUIREMENT, provider=setting.provider
    )
    if setting.provider != "aws":
        return
    for resource in object_at(spec, "capacity"):
        if resource in _RESOURCES_AWS_REPORTS:
            yield FieldError(
                ErrorKind.FORBIDDEN,
                ("spec", "capacity", resource),
                "EC2 says how much of this resource an instance type has; remove it",
            )


def _node_class(spec: Mapping[str, Any], setting: _Setting) -> Iterator[Finding]:
    problems = kubelet_problems(
        spec.get("kubelet"),
        ("spec", "kubelet"),
        family=ami_family(spec),
        expressions=setting.expressions,
    )
    for problem in problems:
        yield problem.error


def _node_class_label_errors(
    given: Mapping[str, Any], spec: Mapping[str, Any], label: Place, provider: str
) -> Iterator[FieldError]:
    """Refuse the label that nodes get from their node class, where the domain is allowed."""
    reference = object_at(spec, "nodeClassRef")
    key = f"{reference.get('group')}/{str(reference.get('kind')).lower()}"
    if restricted_reason(key, place=label, provider=keys_of(provider)):
        return
    detail = "every node carries the name of its node class under this key; remove it"
    if key in given:
        yield FieldError(ErrorKind.FORBIDDEN, (*_TEMPLATE, "metadata", "labels", key), detail)
    for index, requirement in objects_at(spec, "requirements"):
        if requirement.get("key") == key:
            here = (*_TEMPLATE, "spec", "requirements", index, "key")
            yield FieldError(ErrorKind.FORBIDDEN, here, detail)


_RULES: Final[Mapping[tuple[str, str], tuple[_Rules, ...]]] = {
    ("karpenter.sh/v1", "NodePool"): (
        _node_pool(Place.NODE_POOL_LABEL, Place.NODE_POOL_REQUIREMENT),
        _known_values("template", "spec"),
    ),
    ("karpenter.sh/v1beta1", "NodePool"): (
        _node_pool(Place.V1BETA1_NODE_POOL_LABEL, Place.V1BETA1_NODE_POOL_REQUIREMENT),
    ),
    ("karpenter.sh/v1", "NodeClaim"): (
        _node_claim(Place.NODE_CLAIM_REQUIREMENT),
        _known_values(),
    ),
    ("karpenter.sh/v1beta1", "NodeClaim"): (_node_claim(Place.V1BETA1_NODE_CLAIM_REQUIREMENT),),
    ("karpenter.sh/v1alpha1", "NodeOverlay"): (_node_overlay,),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"): (_node_class,),
}
