"""The cluster at one moment: the input of every planner.

A snapshot never changes and is cheap to share. Namespaced objects are keyed by ``namespace/name``,
others by their name. Mappings keep the order in which objects arrived, which is meaningless: sort
before you iterate into a result. The snapshot only holds data; decisions are made by planners.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from karpenter.api.cluster import Namespace, Service
from karpenter.api.devices import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from karpenter.api.karpenter import (
    CapacityBuffer,
    Commitment,
    NodeClaim,
    NodeClassReference,
    NodeOverlay,
    NodePool,
)
from karpenter.api.meta import Resource
from karpenter.api.node_classes import NodeClass
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodTemplate
from karpenter.api.policy import PodDisruptionBudget
from karpenter.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from karpenter.api.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from karpenter.model.labels import NODEPOOL
from karpenter.state.expectations import ComingClaim
from karpenter.state.nodes import StateNode

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class Snapshot:
    """Everything a plan may depend on; lookups only."""

    nodes: tuple[StateNode, ...] = ()  # every machine, those being removed included
    unlaunched: tuple[NodeClaim, ...] = ()  # claims without a machine so far, by name
    skipped_nodes: tuple[Node, ...] = ()  # of a pool, without provider ID or type yet, by name
    coming: Mapping[str, ComingClaim] = field(default_factory=dict)  # claims being created
    dismissed: frozenset[str] = frozenset()  # uids of claims whose deletion was requested
    launches_held: Mapping[str, datetime] = field(default_factory=dict)  # by pool, until when

    pods: Mapping[str, Pod] = field(default_factory=dict)  # all of them
    unbound_pods: Mapping[str, Pod] = field(default_factory=dict)  # those without a node
    daemon_pods: Mapping[str, Pod] = field(default_factory=dict)  # those of a DaemonSet

    node_pools: Mapping[str, NodePool] = field(default_factory=dict)
    node_classes: Mapping[NodeClassReference, NodeClass] = field(default_factory=dict)
    node_overlays: Mapping[str, NodeOverlay] = field(default_factory=dict)
    capacity_buffers: Mapping[str, CapacityBuffer] = field(default_factory=dict)
    commitments: Mapping[str, Commitment] = field(default_factory=dict)

    daemon_sets: Mapping[str, DaemonSet] = field(default_factory=dict)
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    replica_sets: Mapping[str, ReplicaSet] = field(default_factory=dict)
    replication_controllers: Mapping[str, ReplicationController] = field(default_factory=dict)
    stateful_sets: Mapping[str, StatefulSet] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    pod_templates: Mapping[str, PodTemplate] = field(default_factory=dict)

    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    pdbs: Mapping[str, PodDisruptionBudget] = field(default_factory=dict)

    pvcs: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    pvs: Mapping[str, PersistentVolume] = field(default_factory=dict)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CSINode] = field(default_factory=dict)
    volume_attachments: Mapping[str, VolumeAttachment] = field(default_factory=dict)

    device_classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    resource_claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    resource_claim_templates: Mapping[str, ResourceClaimTemplate] = field(default_factory=dict)
    resource_slices: Mapping[str, ResourceSlice] = field(default_factory=dict)

    def node(self, name: str) -> StateNode | None:
        """The machine with this name, be it the Node's or the NodeClaim's."""
        return self._nodes_by_name.get(name)

    def nodes_of(self, node_pool: str) -> tuple[StateNode, ...]:
        """The machines of one pool, those being removed included."""
        return self._nodes_by_pool.get(node_pool, ())

    def claimed_for(self, node_pool: str) -> tuple[StateNode, ...]:
        """The machines whose claims are of one pool, whatever the labels of their Nodes are."""
        return self._claimed_by_pool.get(node_pool, ())

    def pdbs_in(self, namespace: str) -> tuple[PodDisruptionBudget, ...]:
        """The disruption budgets of one namespace, by name."""
        return self._pdbs_by_namespace.get(namespace, ())

    def services_in(self, namespace: str) -> tuple[Service, ...]:
        """The services of one namespace, by name."""
        return self._services_by_namespace.get(namespace, ())

    @cached_property
    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of each namespace that is known."""
        return {name: namespace.metadata.labels for name, namespace in self.namespaces.items()}

    @cached_property
    def _nodes_by_name(self) -> Mapping[str, StateNode]:
        named: dict[str, StateNode] = {}
        for machine in self.nodes:
            if machine.node_claim is not None:
                named[machine.node_claim.metadata.name] = machine
        for machine in self.nodes:  # where a Node and a claim share a name, the Node is meant
            if machine.node is not None:
                named[machine.node.metadata.name] = machine
        return named

    @cached_property
    def _nodes_by_pool(self) -> Mapping[str, tuple[StateNode, ...]]:
        grouped: dict[str, list[StateNode]] = {}
        for machine in self.nodes:
            grouped.setdefault(machine.node_pool, []).append(machine)
        return {pool: tuple(machines) for pool, machines in grouped.items()}

    @cached_property
    def _claimed_by_pool(self) -> Mapping[str, tuple[StateNode, ...]]:
        grouped: dict[str, list[StateNode]] = {}
        for machine in self.nodes:
            if machine.node_claim is not None:
                pool = machine.node_claim.metadata.labels.get(NODEPOOL, "")
                grouped.setdefault(pool, []).append(machine)
        return {pool: tuple(machines) for pool, machines in grouped.items()}

    @cached_property
    def _pdbs_by_namespace(self) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
        return _by_namespace(self.pdbs.values())

    @cached_property
    def _services_by_namespace(self) -> Mapping[str, tuple[Service, ...]]:
        return _by_namespace(self.services.values())


def with_going(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The same cluster with these machines marked for deletion."""
    if not names:
        return snapshot
    nodes = tuple(
        replace(machine, is_marked=True) if machine.name in names else machine
        for machine in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def _by_namespace(resources: Iterable[R]) -> Mapping[str, tuple[R, ...]]:
    grouped: dict[str, list[R]] = {}
    for resource in sorted(resources, key=lambda resource: resource.metadata.name):
        grouped.setdefault(resource.metadata.namespace or "default", []).append(resource)
    return {namespace: tuple(members) for namespace, members in grouped.items()}
