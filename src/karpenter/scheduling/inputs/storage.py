"""The storage objects of a cluster, and the lookups from a pod to them.

A pod mounts PersistentVolumeClaims; a claim is bound to a volume or waits for its storage class to
provision one; the volume or the class names the driver that will attach it. This module only looks
them up. The callers decide what an absent object means: some pods wait, some fail.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from karpenter.api.pods import Pod
from karpenter.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.state.object_keys import DEFAULT_NAMESPACE
from karpenter.state.snapshot import Snapshot

EBS_DRIVER: Final = "ebs.csi.aws.com"

# In-tree volume plugin -> the CSI driver that its volumes were migrated to
SUCCESSORS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": EBS_DRIVER,
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}

_DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Mount:
    """A claim that a pod mounts, which may not exist."""

    key: str  # "namespace/name" of the claim
    claim: PersistentVolumeClaim | None


@dataclass(frozen=True)
class Storage:
    """Claims, volumes, classes, and what the drivers report per node."""

    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)  # "namespace/name"
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)  # by name
    classes: Mapping[str, StorageClass] = field(default_factory=dict)  # by name
    csi_nodes: Mapping[str, CSINode] = field(default_factory=dict)  # by the name of the node

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Storage":
        """The storage objects of a cluster."""
        return cls(snapshot.pvcs, snapshot.pvs, snapshot.storage_classes, snapshot.csi_nodes)

    def mounts(self, pod: Pod) -> Iterator[Mount]:
        """Yield the claims a pod mounts, those made for its ephemeral volumes included."""
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            else:
                continue
            key = f"{pod.metadata.namespace or DEFAULT_NAMESPACE}/{name}"
            yield Mount(key, self.claims.get(key))

    def class_name_of(self, claim: PersistentVolumeClaim) -> str:
        """The class a claim names, or the cluster's default for a claim that names none.

        An API server writes the default into such claims; in a file it may still be missing.
        """
        name = claim.spec.storage_class_name
        return self._default_class_name if name is None else name

    def driver_of(self, claim: PersistentVolumeClaim) -> str:
        """The CSI driver that attaches a claim's volume, or nothing when no driver does.

        A volume that is neither of a CSI driver nor of EBS (NFS, say) is mounted, not attached.
        """
        if claim.spec.volume_name:
            volume = self.volumes.get(claim.spec.volume_name)
            return _driver_of_volume(volume) if volume is not None else ""
        storage_class = self.classes.get(self.class_name_of(claim))
        return current_driver(storage_class.provisioner) if storage_class is not None else ""

    @cached_property
    def _default_class_name(self) -> str:
        marked = [
            storage_class.metadata
            for storage_class in self.classes.values()
            if any(
                storage_class.metadata.annotations.get(annotation) == "true"
                for annotation in _DEFAULT_CLASS_ANNOTATIONS
            )
        ]
        # of several default classes Kubernetes takes the newest, then the first by name
        marked.sort(key=lambda meta: meta.name)
        marked.sort(key=lambda meta: meta.creation_timestamp or _LONG_AGO, reverse=True)
        return marked[0].name if marked else ""


NO_STORAGE: Final = Storage()


def current_driver(name: str) -> str:
    """The CSI driver that replaces an in-tree plugin; other names are returned as they are."""
    return SUCCESSORS.get(name, name)


def _driver_of_volume(volume: PersistentVolume) -> str:
    if volume.spec.csi is not None:
        return current_driver(volume.spec.csi.driver)
    return EBS_DRIVER if volume.spec.aws_elastic_block_store is not None else ""
