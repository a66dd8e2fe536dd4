"""Karpenter's own kinds: NodePool, NodeClaim (v1, v1beta1), NodeOverlay, CapacityBuffer, Commitment.

A field's default is what the API server would fill in for it, or None where it fills in nothing.
Durations keep the text the user typed (``720h`` never becomes ``30d``).
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from karpenter.api.meta import (
    UNSTATED,
    Condition,
    Model,
    Resource,
    ResourceMap,
    Time,
    UnstatedMap,
)
from karpenter.api.nodes import Taint


class NodeRequirement(Model, frozen=True):
    """A node selector requirement with an optional ``minValues``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class NodeClassReference(Model, frozen=True):
    group: str = ""
    kind: str = ""
    name: str = ""


class TemplateMetadata(Model, frozen=True):
    labels: Mapping[str, str] = msgspec.field(default_factory=UnstatedMap)
    annotations: Mapping[str, str] = msgspec.field(default_factory=UnstatedMap)


class NodeClaimTemplateSpec(Model, frozen=True):
    node_class_ref: NodeClassReference = NodeClassReference()
    requirements: tuple[NodeRequirement, ...] = ()
    taints: tuple[Taint, ...] = UNSTATED
    startup_taints: tuple[Taint, ...] = UNSTATED
    expire_after: str = "720h"
    termination_grace_period: str | None = None


class NodeClaimTemplate(Model, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeClaimTemplateSpec = NodeClaimTemplateSpec()


class Budget(Model, frozen=True):
    """``reasons`` is None for "every reason"; an empty list would match no reason at all."""

    nodes: str = "10%"
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(Model, frozen=True):
    consolidate_after: str = "0s"
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[Budget, ...] = (Budget(),)


class NodePoolSpec(Model, frozen=True):
    """``replicas`` is None for a dynamic pool; a number makes it a static one."""

    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: Disruption = Disruption()
    limits: ResourceMap = {}
    weight: int | None = None
    replicas: int | None = None


class NodePoolStatus(Model, frozen=True):
    resources: ResourceMap = {}
    nodes: int = 0
    node_class_observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class NodePool(Resource, frozen=True):
    api_version: ClassVar[str] = "karpenter.sh/v1"
    namespaced: ClassVar[bool] = False

    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeClaimResources(Model, frozen=True):
    requests: ResourceMap = {}


class NodeClaimSpec(Model, frozen=True):
    node_class_ref: NodeClassReference = NodeClassReference()
    requirements: tuple[NodeRequirement, ...] = ()
    resources: NodeClaimResources = NodeClaimResources()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    expire_after: str = "720h"
    termination_grace_period: str | None = None


class NodeClaimStatus(Model, frozen=True):
    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    image_id: str = msgspec.field(default="", name="imageID")
    capacity: ResourceMap = {}
    allocatable: ResourceMap = {}
    last_pod_event_time: Time | None = None
    conditions: tuple[Condition, ...] = ()


class NodeClaim(Resource, frozen=True):
    api_version: ClassVar[str] = "karpenter.sh/v1"
    namespaced: ClassVar[bool] = False

    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


class KubeletConfiguration(Model, frozen=True):
    """The kubelet settings that v1beta1 NodePools and Provisioners carried themselves.

    A v1 EC2NodeClass holds the kubelet's own, open-ended configuration instead.
    """

    cluster_dns: tuple[str, ...] = msgspec.field(default=(), name="clusterDNS")
    max_pods: int | None = None
    pods_per_core: int | None = None
    system_reserved: ResourceMap = {}
    kube_reserved: ResourceMap = {}
    eviction_hard: Mapping[str, str] = {}
    eviction_soft: Mapping[str, str] = {}
    eviction_soft_grace_period: Mapping[str, str] = {}
    eviction_max_pod_grace_period: int | None = None
    image_gc_high_threshold_percent: int | None = msgspec.field(
        default=None, name="imageGCHighThresholdPercent"
    )
    image_gc_low_threshold_percent: int | None = msgspec.field(
        default=None, name="imageGCLowThresholdPercent"
    )
    cpu_cfs_quota: bool | None = msgspec.field(default=None, name="cpuCFSQuota")


class NodeClassReferenceV1Beta1(Model, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class NodeClaimSpecV1Beta1(Model, frozen=True):
    """The spec of a v1beta1 NodeClaim and, with empty resources, of a v1beta1 template."""

    node_class_ref: NodeClassReferenceV1Beta1 = NodeClassReferenceV1Beta1()
    requirements: tuple[NodeRequirement, ...] = ()
    resources: NodeClaimResources = NodeClaimResources()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    kubelet: KubeletConfiguration | None = None


class NodeClaimTemplateV1Beta1(Model, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeClaimSpecV1Beta1 = NodeClaimSpecV1Beta1()


class DisruptionV1Beta1(Model, frozen=True):
    consolidate_after: str | None = None
    consolidation_policy: str = "WhenUnderutilized"
    expire_after: str = "720h"
    budgets: tuple[Budget, ...] = (Budget(),)


class NodePoolSpecV1Beta1(Model, frozen=True):
    template: NodeClaimTemplateV1Beta1 = NodeClaimTemplateV1Beta1()
    disruption: DisruptionV1Beta1 = DisruptionV1Beta1()
    limits: ResourceMap = {}
    weight: int | None = None


class NodePoolV1Beta1(Resource, frozen=True, tag="NodePool"):
    api_version: ClassVar[str] = "karpenter.sh/v1beta1"
    namespaced: ClassVar[bool] = False

    spec: NodePoolSpecV1Beta1 = NodePoolSpecV1Beta1()
    status: NodePoolStatus = NodePoolStatus()


class NodeClaimV1Beta1(Resource, frozen=True, tag="NodeClaim"):
    api_version: ClassVar[str] = "karpenter.sh/v1beta1"
    namespaced: ClassVar[bool] = False

    spec: NodeClaimSpecV1Beta1 = NodeClaimSpecV1Beta1()
    status: NodeClaimStatus = NodeClaimStatus()


class NodeOverlaySpec(Model, frozen=True):
    requirements: tuple[NodeRequirement, ...] = ()
    price: str | None = None
    price_adjustment: str | None = None
    capacity: ResourceMap = {}
    weight: int | None = None


class NodeOverlayStatus(Model, frozen=True):
    conditions: tuple[Condition, ...] = ()


class NodeOverlay(Resource, frozen=True):
    api_version: ClassVar[str] = "karpenter.sh/v1alpha1"
    namespaced: ClassVar[bool] = False

    spec: NodeOverlaySpec = NodeOverlaySpec()
    status: NodeOverlayStatus = NodeOverlayStatus()


class PodTemplateReference(Model, frozen=True):
    name: str = ""


class ScalableReference(Model, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Model, frozen=True):
    provisioning_strategy: str = "buffer.x-k8s.io/active-capacity"
    pod_template_ref: PodTemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: ResourceMap = {}


class CapacityBufferStatus(Model, frozen=True):
    pod_template_ref: PodTemplateReference | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    provisioning_strategy: str | None = None
    conditions: tuple[Condition, ...] = ()


class CapacityBuffer(Resource, frozen=True):
    api_version: ClassVar[str] = "autoscaling.x-k8s.io/v1beta1"

    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()


class CommitmentSpec(Model, frozen=True):
    type: str = ""  # SavingsPlan or ReservedInstance
    requirements: tuple[NodeRequirement, ...] = ()
    hourly: str | None = None
    instances: int | None = None
    units: str | None = None
    discount: str | None = None
    rates: Mapping[str, str] = {}
    share: str | None = None
    expires: Time | None = None


class CommitmentStatus(Model, frozen=True):
    used_hourly: str | None = None
    left_hourly: str | None = None
    machines: int | None = None
    conditions: tuple[Condition, ...] = ()


class Commitment(Resource, frozen=True):
    api_version: ClassVar[str] = "cost.karpenter.sh/v1alpha1"
    namespaced: ClassVar[bool] = False

    spec: CommitmentSpec = CommitmentSpec()
    status: CommitmentStatus = CommitmentStatus()
