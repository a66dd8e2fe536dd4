"""Volumes as the scheduler sees them: claims, volumes, classes, and what a node can attach."""

from typing import ClassVar

import msgspec

from karpenter.api.meta import Model, ObjectMeta, ObjectReference, Resource, ResourceMap
from karpenter.api.selectors import NodeSelector


class VolumeResourceRequirements(Model, frozen=True):
    requests: ResourceMap = {}
    limits: ResourceMap = {}


class PersistentVolumeClaimSpec(Model, frozen=True):
    """``storage_class_name`` is None for "the default class" and ``""`` for "no class"."""

    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = ""
    resources: VolumeResourceRequirements = VolumeResourceRequirements()


class PersistentVolumeClaimTemplate(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class PersistentVolumeClaimStatus(Model, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class CSIPersistentVolumeSource(Model, frozen=True):
    driver: str
    volume_handle: str = ""


class AWSElasticBlockStoreVolumeSource(Model, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class LocalVolumeSource(Model, frozen=True):
    path: str = ""


class HostPathVolumeSource(Model, frozen=True):
    path: str = ""


class VolumeNodeAffinity(Model, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Model, frozen=True):
    """Only the sources that name the driver, and those whose hostname affinity is ignored."""

    storage_class_name: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    local: LocalVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class PersistentVolumeStatus(Model, frozen=True):
    phase: str = ""


class PersistentVolume(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"
    namespaced: ClassVar[bool] = False

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Model, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Model, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Resource, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Model, frozen=True):
    """``count`` is None when the driver states no limit."""

    count: int | None = None


class CSINodeDriver(Model, frozen=True):
    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Model, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Resource, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Model, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Model, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Model, frozen=True):
    attached: bool = False


class VolumeAttachment(Resource, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
