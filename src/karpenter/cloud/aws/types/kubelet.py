"""The kubelet settings of a node class, worked out for one instance type after the other.

``maxPods`` and reserved amounts may be expressions over the facts of a type. They are compiled
once; everything else is copied. Conversion keeps the settings of a v1beta1 pool in an annotation on
the pool or claim, which overrides the node class.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.admission.cel.expression import (
    Expression,
    ExpressionError,
    Functions,
    compile_expression,
)
from karpenter.admission.cel.runtime import EVALUATION_ERRORS, Context
from karpenter.admission.kubelets.kubelet import EXPRESSION_VARIABLES
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.types.facts import TypeFacts
from karpenter.model.labels import KEPT_KUBELET
from karpenter.model.quantity import is_quantity

KUBE_RESERVED: Final = "kubeReserved"
SYSTEM_RESERVED: Final = "systemReserved"
MAX_PODS: Final = "maxPods"
_RESERVED_MAPS: Final = (KUBE_RESERVED, SYSTEM_RESERVED)
_LARGEST_MAX_PODS: Final = 2**31 - 1
# Resource -> (suffix, what results are rounded up to)
_UNITS: Final = {"cpu": ("m", 10), "memory": ("Mi", 16), "ephemeral-storage": ("Gi", 1)}


class KubeletError(ValueError):
    """An expression without a usable result; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class TypeKubelet:
    """The settings that depend on the type, as they are on one type."""

    max_pods: int | None
    kube_reserved: Mapping[str, str]
    system_reserved: Mapping[str, str]


class KubeletSettings:
    """The kubelet settings of a node class."""

    def __init__(self, kubelet: Mapping[str, Any]) -> None:
        """Compile what has to be compiled.

        Raises:
            KubeletError: an expression cannot be read.
        """
        self.kubelet: Final = kubelet
        self._max_pods = _max_pods(kubelet.get(MAX_PODS))
        self._reserved = {name: dict(_amounts(kubelet, name)) for name in _RESERVED_MAPS}
        self._fixed: TypeKubelet | None = None
        if not self.has_expressions:
            self._fixed = TypeKubelet(
                self._max_pods if isinstance(self._max_pods, int) else None,
                _texts(self._reserved[KUBE_RESERVED]),
                _texts(self._reserved[SYSTEM_RESERVED]),
            )

    @property
    def has_expressions(self) -> bool:
        """Whether anything depends on the type."""
        listed = [self._max_pods, *(v for each in self._reserved.values() for v in each.values())]
        return any(isinstance(each, Expression) for each in listed)

    @property
    def pods_per_core(self) -> int:
        """The limit of pods per vCPU; 0 means that there is none."""
        value = self.kubelet.get("podsPerCore")
        return value if isinstance(value, int) else 0

    @property
    def eviction_hard(self) -> Mapping[str, str]:
        """The thresholds below which the kubelet evicts at once."""
        return dict(self.kubelet.get("evictionHard") or {})

    def on(self, facts: TypeFacts, default_pods: int) -> TypeKubelet:
        """The settings on a type that takes ``default_pods`` if nothing else is said.

        Raises:
            KubeletError: an expression fails, or the kubelet would refuse its result.
        """
        if self._fixed is not None:
            return self._fixed
        known = _variables(facts, default_pods)
        max_pods = self._max_pods
        if isinstance(max_pods, Expression):
            max_pods = _count(max_pods, known, MAX_PODS)
            if max_pods > _LARGEST_MAX_PODS:
                raise KubeletError(f"{MAX_PODS} is {max_pods} on {facts.name}, which is too many")
        if max_pods is not None:
            known["max_pods"] = max_pods
        kube, system = (
            {key: _amount(value, known, name, key) for key, value in self._reserved[name].items()}
            for name in _RESERVED_MAPS
        )
        return TypeKubelet(max_pods, kube, system)


def _max_pods(value: object) -> int | Expression | None:
    if isinstance(value, str):
        return _compiled(value, MAX_PODS)
    return value if isinstance(value, int) else None


def _amounts(kubelet: Mapping[str, Any], name: str) -> Iterator[tuple[str, str | Expression]]:
    for resource, value in (kubelet.get(name) or {}).items():
        text = str(value)
        yield resource, text if is_quantity(text) else _compiled(text, f"{name}.{resource}")


def _texts(amounts: Mapping[str, str | Expression]) -> dict[str, str]:
    return {key: value for key, value in amounts.items() if isinstance(value, str)}


def _compiled(text: str, where: str) -> Expression:
    try:
        return compile_expression(text, EXPRESSION_VARIABLES)
    except ExpressionError as error:
        raise KubeletError(f"{where}: {text!r} is not a usable expression: {error}") from error


def _variables(facts: TypeFacts, default_pods: int) -> dict[str, Any]:
    return {
        "vcpus": facts.vcpus,
        "memory_mib": facts.memory_mib,
        "default_enis": facts.interfaces,
        "ips_per_eni": facts.ips_per_interface,
        "max_pods": default_pods,
        "instance_type": facts.name,
    }


def _amount(value: str | Expression, known: Mapping[str, Any], name: str, resource: str) -> str:
    if isinstance(value, str):
        return value
    suffix, step = _UNITS.get(resource, ("", 1))
    result = _count(value, known, f"{name}.{resource}")
    return f"{math.ceil(result / step) * step}{suffix}"


def _count(expression: Expression, known: Mapping[str, Any], where: str) -> int:
    functions = Functions(expression.functions)
    context = Context(
        variables={name: known[name] for name in expression.variables},
        functions={**functions.by_name, "max": max, "min": min},
    )
    on = known["instance_type"]
    try:
        result = expression.run(context, is_ascii=True)
    except EVALUATION_ERRORS as error:
        reason = functions.explain(error)
        raise KubeletError(f"{where}: {expression.source!r} fails on {on}: {reason}") from error
    if isinstance(result, bool) or not isinstance(result, int | float):
        raise KubeletError(f"{where}: {expression.source!r} is no number on {on}")
    if not math.isfinite(result) or result < 0:
        raise KubeletError(f"{where}: {expression.source!r} is {result} on {on}")
    return int(result)


def overruled(node_class: EC2NodeClass, *annotations: Mapping[str, str]) -> EC2NodeClass:
    """The node class with the kubelet settings of the first ``annotations`` that have some.

    Raises:
        KubeletError: what was kept cannot be read.
    """
    kept = next((each[KEPT_KUBELET] for each in annotations if each.get(KEPT_KUBELET)), "")
    if not kept:
        return node_class
    try:
        kubelet = msgspec.json.decode(kept, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise KubeletError(
            f"the annotation {KEPT_KUBELET} holds no kubelet configuration: {error}; correct it,"
            " or move the settings to spec.kubelet of the EC2NodeClass"
        ) from error
    metadata = node_class.metadata
    # A uid of its own, because caches are keyed by uid
    digest = hashlib.sha256(kept.encode()).hexdigest()[:16]
    return msgspec.structs.replace(
        node_class,
        metadata=msgspec.structs.replace(metadata, uid=f"{metadata.uid}/{digest}"),
        spec=msgspec.structs.replace(node_class.spec, kubelet=kubelet),
    )
