"""Pools, nodes, claims, and the machines a snapshot makes of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypedDict, Unpack

from helpers.builders.parts import NOW, READY, Amounts, amounts, uid_of
from karpenter.api.karpenter import (
    NodeClaim,
    NodeClaimSpec,
    NodeClaimStatus,
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassReference,
    NodePool,
    NodePoolSpec,
    NodePoolStatus,
    NodeRequirement,
    TemplateMetadata,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodes import Node, NodeSpec, NodeStatus, Taint
from karpenter.api.pods import Pod
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

NODE_CLASS: Final = NodeClassReference(
    group="karpenter.test.sh", kind="TestNodeClass", name="default"
)


def node_pool(
    name: str = "np",
    *,
    requirements: Iterable[NodeSelectorRequirement | NodeRequirement] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    startup_taints: Iterable[Taint] = (),
    limits: Amounts | None = None,
    weight: int | None = None,
    replicas: int | None = None,
    termination_grace_period: str | None = None,
    node_class: NodeClassReference = NODE_CLASS,
    conditions: Sequence[Condition] = (READY,),
    deleted: datetime | None = None,
) -> NodePool:
    """A ready pool without requirements; labels and annotations are those of its nodes."""
    return NodePool(
        metadata=ObjectMeta(name=name, uid=uid_of(name, ""), deletion_timestamp=deleted),
        spec=NodePoolSpec(
            template=NodeClaimTemplate(
                metadata=TemplateMetadata(labels=labels or {}, annotations=annotations or {}),
                spec=NodeClaimTemplateSpec(
                    node_class_ref=node_class,
                    requirements=tuple(_node_requirement(r) for r in requirements),
                    taints=tuple(taints),
                    startup_taints=tuple(startup_taints),
                    termination_grace_period=termination_grace_period,
                ),
            ),
            limits=limits or {},
            weight=weight,
            replicas=replicas,
        ),
        status=NodePoolStatus(conditions=tuple(conditions)),
    )


class MachineOptions(TypedDict, total=False):
    """What can be said about a machine, as a Node, as a NodeClaim or as both."""

    pool: str  # "np"; nothing for a machine of no pool
    zone: str  # "z1"; nothing for a machine without the label
    instance_type: str  # "std"
    capacity_type: str  # "on-demand"
    labels: Mapping[str, str]  # besides those that follow from the above
    annotations: Mapping[str, str]
    taints: Sequence[Taint]
    startup_taints: Sequence[Taint]  # of the claim only
    provider_id: str  # "test://<name>"
    cpu: str  # "16"
    memory: str  # "128Gi"
    slots: int  # how many pods it takes: 110
    resources: Amounts  # further resources
    conditions: Sequence[Condition]
    created: datetime
    deleted: datetime


def node(
    name: str = "node",
    *,
    registered: bool = True,
    initialized: bool = True,
    **options: Unpack[MachineOptions],
) -> Node:
    """A Node as it is once everything about it is ready."""
    size = _size(options)
    labels = _machine_labels(options) | {keys.HOSTNAME: name}
    if registered and options.get("pool", "np"):
        labels[keys.REGISTERED] = "true"
    if initialized and options.get("pool", "np"):
        labels[keys.INITIALIZED] = "true"
    return Node(
        metadata=_machine_meta(name, labels, options),
        spec=NodeSpec(
            provider_id=options.get("provider_id", f"test://{name}"),
            taints=tuple(options.get("taints", ())),
        ),
        status=NodeStatus(
            capacity=size, allocatable=size, conditions=tuple(options.get("conditions", (READY,)))
        ),
    )


def node_claim(name: str = "node", **options: Unpack[MachineOptions]) -> NodeClaim:
    """A NodeClaim that has launched; ``provider_id=""`` makes one that has not."""
    size = _size(options)
    return NodeClaim(
        metadata=_machine_meta(name, _machine_labels(options), options),
        spec=NodeClaimSpec(
            node_class_ref=NODE_CLASS,
            taints=tuple(options.get("taints", ())),
            startup_taints=tuple(options.get("startup_taints", ())),
        ),
        status=NodeClaimStatus(
            provider_id=options.get("provider_id", f"test://{name}"),
            capacity=size,
            allocatable=size,
            conditions=tuple(options.get("conditions", ())),
        ),
    )


def managed_node(
    name: str = "node",
    *,
    pods: Iterable[Pod] = (),
    marked: bool = False,
    nominated_until: datetime | None = None,
    registered: bool = True,
    initialized: bool = True,
    **options: Unpack[MachineOptions],
) -> StateNode:
    """One of our machines, Node and NodeClaim, with the pods on it."""
    return StateNode(
        node=node(name, registered=registered, initialized=initialized, **options),
        node_claim=node_claim(name, **options),
        pods=tuple(pods),
        is_marked=marked,
        nominated_until=nominated_until,
    )


def launching_node(name: str = "node", **options: Unpack[MachineOptions]) -> StateNode:
    """One of our machines that has launched and is not yet a Node."""
    return StateNode(node=None, node_claim=node_claim(name, **options))


def unmanaged_node(
    name: str = "node", *, pods: Iterable[Pod] = (), **options: Unpack[MachineOptions]
) -> StateNode:
    """A Node without a NodeClaim, with the pods on it."""
    options.setdefault("pool", "")
    return StateNode(node=node(name, **options), node_claim=None, pods=tuple(pods))


def _node_requirement(wanted: NodeSelectorRequirement | NodeRequirement) -> NodeRequirement:
    if isinstance(wanted, NodeRequirement):
        return wanted
    return NodeRequirement(key=wanted.key, operator=wanted.operator, values=wanted.values)


def _size(options: MachineOptions) -> dict[str, str | int | float]:
    more: dict[str, str | int | float] = {"pods": options.get("slots", 110)}
    more.update(options.get("resources", {}))
    return amounts(options.get("cpu", "16"), options.get("memory", "128Gi"), more)


def _machine_labels(options: MachineOptions) -> dict[str, str]:
    named = {
        keys.NODEPOOL: options.get("pool", "np"),
        keys.ZONE: options.get("zone", "z1"),
        keys.INSTANCE_TYPE: options.get("instance_type", "std"),
        keys.CAPACITY_TYPE: options.get("capacity_type", keys.ON_DEMAND),
        keys.ARCH: "amd64",
        keys.OS: "linux",
    }
    return {key: value for key, value in named.items() if value} | dict(options.get("labels", {}))


def _machine_meta(name: str, labels: Mapping[str, str], options: MachineOptions) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        uid=uid_of(name, ""),
        labels=labels,
        annotations=options.get("annotations", {}),
        creation_timestamp=options.get("created", NOW),
        deletion_timestamp=options.get("deleted"),
    )
