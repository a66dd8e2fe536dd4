"""Pods and pod templates: what the scheduler, the disruption planner and the drain read of them."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from karpenter.api.meta import Condition, Model, ObjectMeta, Resource, ResourceMap, Time
from karpenter.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm
from karpenter.api.storage import PersistentVolumeClaimTemplate


class ContainerPort(Model, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerResourceClaim(Model, frozen=True):
    name: str
    request: str = ""


class ResourceRequirements(Model, frozen=True):
    requests: ResourceMap = {}
    limits: ResourceMap = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class Container(Model, frozen=True):
    """An application, init or sidecar container; a sidecar is one that restarts ``Always``."""

    name: str
    restart_policy: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()


class Toleration(Model, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PreferredSchedulingTerm(Model, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Model, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Model, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Model, frozen=True):
    """Attraction or, as ``podAntiAffinity``, repulsion between pods; both have one shape."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Model, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model, frozen=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimVolumeSource(Model, frozen=True):
    claim_name: str
    read_only: bool = False


class EphemeralVolumeSource(Model, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Model, frozen=True):
    """A volume of a pod; only sources that need a PersistentVolumeClaim are read."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodSchedulingGate(Model, frozen=True):
    name: str


class PodResourceClaim(Model, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Model, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceMap = {}
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    host_network: bool = False
    termination_grace_period_seconds: int | None = None


class ActualResources(Model, frozen=True):
    requests: ResourceMap = {}


class ContainerStatus(Model, frozen=True):
    """The part of a container's status that an in-place resize makes differ from its spec."""

    name: str
    resources: ActualResources | None = None
    allocated_resources: ResourceMap = {}


class PodResourceClaimStatus(Model, frozen=True):
    name: str
    resource_claim_name: str | None = None


class PodStatus(Model, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: Time | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    resize: str = ""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    template: PodTemplateSpec = PodTemplateSpec()
