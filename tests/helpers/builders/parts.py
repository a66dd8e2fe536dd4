"""The small parts objects are made of: conditions, selectors, taints, containers."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference
from karpenter.api.nodes import Taint
from karpenter.api.pods import (
    Container,
    ContainerPort,
    PodAffinityTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from karpenter.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from karpenter.model import labels as keys

NOW: Final = datetime(2026, 8, 1, 12, tzinfo=UTC)
APP_T: Final = {"app": "t"}  # the label most scheduling tests put on their pods

Expressions: TypeAlias = Sequence[NodeSelectorRequirement]
Amounts: TypeAlias = Mapping[str, str | int | float]


def uid_of(name: str, namespace: str = "default") -> str:
    """The uid every builder gives to an object of this name."""
    return f"uid-{namespace}-{name}"


def condition(
    kind: str, status: str = "True", reason: str = "", at: datetime | None = None
) -> Condition:
    """A status condition."""
    return Condition(type=kind, status=status, reason=reason, last_transition_time=at)


UNSCHEDULABLE: Final = condition("PodScheduled", "False", "Unschedulable")
READY: Final = condition("Ready")


def owner(
    kind: str, name: str, api_version: str = "apps/v1", namespace: str = "default"
) -> OwnerReference:
    """A controller reference to an object made by one of these builders."""
    return OwnerReference(
        api_version=api_version, kind=kind, name=name, uid=uid_of(name, namespace), controller=True
    )


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    """A requirement on a node label: ``expression(keys.ZONE, "In", "z1", "z2")``."""
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def min_values(count: int, key: str, operator: str = "Exists", *values: str) -> NodeRequirement:
    """A pool's requirement that asks for a choice of at least ``count`` values."""
    return NodeRequirement(key=key, operator=operator, values=values, min_values=count)


def selector(
    labels: Mapping[str, str] | None = None, *expressions: tuple[str, str, tuple[str, ...]]
) -> LabelSelector:
    """A label selector: ``selector({"app": "t"}, ("tier", "In", ("web",)))``; empty selects all."""
    return LabelSelector(
        match_labels=labels or {},
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=values)
            for key, operator, values in expressions
        ),
    )


SELF: Final = selector(APP_T)  # selects the pods with that label


def taint(text: str) -> Taint:
    """A taint as kubectl writes it: ``key=value:Effect`` or ``key:Effect``."""
    key_and_value, _, effect = text.rpartition(":")
    key, _, value = key_and_value.partition("=")
    return Taint(key=key, value=value, effect=effect)


def toleration(
    key: str = "", operator: str = "Exists", value: str = "", effect: str = ""
) -> Toleration:
    """A toleration; ``toleration()`` tolerates everything."""
    return Toleration(key=key, operator=operator, value=value, effect=effect)


def spread(
    key: str = keys.ZONE,
    max_skew: int = 1,
    *,
    soft: bool = False,
    selector: LabelSelector | None = SELF,
    min_domains: int | None = None,
    match_label_keys: Sequence[str] = (),
    node_affinity_policy: str = "Honor",
    node_taints_policy: str = "Ignore",
) -> TopologySpreadConstraint:
    """A spread constraint over the pods with label ``app=t``; ``soft`` is ``ScheduleAnyway``."""
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=selector,
        min_domains=min_domains,
        match_label_keys=tuple(match_label_keys),
        node_affinity_policy=node_affinity_policy,
        node_taints_policy=node_taints_policy,
    )


def pod_term(
    labels: Mapping[str, str] | None = None,
    key: str = keys.HOSTNAME,
    *,
    namespaces: Sequence[str] = (),
    namespace_selector: LabelSelector | None = None,
    match_label_keys: Sequence[str] = (),
    mismatch_label_keys: Sequence[str] = (),
) -> PodAffinityTerm:
    """An affinity term about the pods with ``labels`` (``app=t`` when not given)."""
    return PodAffinityTerm(
        topology_key=key,
        label_selector=selector(APP_T if labels is None else labels),
        namespaces=tuple(namespaces),
        namespace_selector=namespace_selector,
        match_label_keys=tuple(match_label_keys),
        mismatch_label_keys=tuple(mismatch_label_keys),
    )


def container(
    cpu: str | None = None,
    memory: str | None = None,
    *,
    name: str = "app",
    requests: Amounts | None = None,
    limits: Amounts | None = None,
    host_ports: Sequence[int | ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """A container; as an init container, ``sidecar`` makes it restart ``Always``."""
    return Container(
        name=name,
        restart_policy="Always" if sidecar else "",
        resources=ResourceRequirements(
            requests=amounts(cpu, memory, requests), limits=limits or {}
        ),
        ports=tuple(
            ContainerPort(container_port=port, host_port=port) if isinstance(port, int) else port
            for port in host_ports
        ),
    )


def meta(name: str, namespace: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=uid_of(name, namespace))


def amounts(
    cpu: str | None, memory: str | None, more: Amounts | None
) -> dict[str, str | int | float]:
    named = {"cpu": cpu, "memory": memory}
    return {name: amount for name, amount in named.items() if amount is not None} | dict(more or {})


def node_selector_of(terms: Sequence[Expressions]) -> NodeSelector | None:
    if not terms:
        return None
    return NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=tuple(t)) for t in terms)
    )
