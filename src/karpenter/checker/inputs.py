"""The input of the checker: a cluster in wire models, and a plan as a structural protocol.

Nothing here comes from the planner. Machines, pools and plans are protocols, so that the planner's
own objects can be passed as they are, while only their plain data is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.nodes import Node, Taint
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.api.workloads import DaemonSet
from karpenter.cloud.types import InstanceType, ProviderFacts


class Rule(StrEnum):
    """The rules of a plan."""

    ACCOUNTING = "every pod is in the plan exactly once"
    IGNORED_KIND = "only pods that may be placed are placed"
    TAINT = "taints are tolerated"
    NODE_DEMANDS = "node selector and one required term hold"
    POOL_REQUIREMENTS = "a claim stays within its pool's requirements"
    CLAIM = "a claim follows from its pool"
    OFFERING = "every listed type has an available offering"
    ROOM = "everything fits together"
    LAUNCH = "the launch is the cheapest way to have the claim"
    HOST_PORT = "no two pods of a machine hold the same host port"
    VOLUME_REACH = "volumes can be reached"
    VOLUME_LIMIT = "volumes can be attached"
    MACHINE = "pods only go to machines that stay"
    SPREAD = "hard topology spread holds"
    AFFINITY = "required pod affinity holds"
    ANTI_AFFINITY = "required pod anti-affinity holds, both ways"
    POOL_LIMITS = "pools stay within their limits"
    MIN_VALUES = "minimum values are reached"
    RESERVATION = "reservations are not promised twice"
    COST = "the cost is the sum of the launches"
    COMPLETENESS = "a pod that a fresh node could take is not left out"
    POOL_ORDER = "no claim is made of a pool while a preferred one would do"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    rule: Rule
    subject: str  # the pod, claim or machine concerned
    detail: str


class Machine(Protocol):
    """A machine of the cluster: a Node, a NodeClaim, or both, with the pods bound to it."""

    @property
    def node(self) -> Node | None: ...
    @property
    def node_claim(self) -> NodeClaim | None: ...
    @property
    def pods(self) -> Sequence[Pod]: ...
    @property
    def is_marked(self) -> bool: ...


class Pool(Protocol):
    """A pool that may be used, with its catalogue."""

    @property
    def node_pool(self) -> NodePool: ...
    @property
    def instance_types(self) -> Sequence[InstanceType]: ...


@dataclass(frozen=True, slots=True)
class Policies:
    """The settings that change what a plan may do."""

    best_effort_min_values: bool = False
    ignore_device_claims: bool = True
    reserved_capacity: bool = True
    most_instance_types: int = 600


@dataclass(frozen=True)
class Cluster:
    """The cluster that the plan was made for."""

    pods: Sequence[Pod]  # those the plan must account for
    machines: Sequence[Machine]
    pools: Sequence[Pool]
    facts: ProviderFacts
    policies: Policies = field(default_factory=Policies)
    daemon_sets: Sequence[DaemonSet] = ()
    daemon_pods: Sequence[Pod] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # name -> labels
    claims: Sequence[PersistentVolumeClaim] = ()
    volumes: Sequence[PersistentVolume] = ()
    storage_classes: Sequence[StorageClass] = ()
    csi_nodes: Sequence[CSINode] = ()
    default_spread: Mapping[str, Sequence[TopologySpreadConstraint]] = field(
        default_factory=dict
    )  # pod uid -> constraints it gets because it states none


class ValueSet(Protocol):
    """Values one label may have: these and no others or, as a complement, all others."""

    @property
    def key(self) -> str: ...
    @property
    def complement(self) -> bool: ...
    @property
    def values(self) -> frozenset[str]: ...
    @property
    def gte(self) -> int | None: ...
    @property
    def lte(self) -> int | None: ...
    @property
    def min_values(self) -> int | None: ...


class LaunchShape(Protocol):
    """How a claim would be launched."""

    @property
    def instance_type(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def capacity_type(self) -> str: ...
    @property
    def price(self) -> float: ...


class ClaimShape(Protocol):
    """A claim of a plan."""

    @property
    def name(self) -> str: ...
    @property
    def node_pool(self) -> str: ...
    @property
    def pods(self) -> Sequence[str]: ...
    @property
    def instance_types(self) -> Sequence[str]: ...
    @property
    def requirements(self) -> Iterable[ValueSet]: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def taints(self) -> Sequence[Taint]: ...
    @property
    def launch(self) -> LaunchShape | None: ...


class UnplacedShape(Protocol):
    """A pod that found no place."""

    @property
    def pod(self) -> str: ...


class PlanShape(Protocol):
    """A plan."""

    @property
    def claims(self) -> Sequence[ClaimShape]: ...
    @property
    def existing(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def unplaced(self) -> Sequence[UnplacedShape]: ...
    @property
    def deferred(self) -> Sequence[str]: ...
    @property
    def unevaluated(self) -> Sequence[str]: ...
    @property
    def hourly_cost(self) -> float: ...
    @property
    def lower_bound(self) -> float: ...


def pod_name(pod: Pod) -> str:
    """The name plans use for a pod: ``namespace/name``."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
