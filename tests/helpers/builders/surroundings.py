"""What stands around pods: namespaces, services, budgets and storage."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from helpers.builders.parts import APP_T, Expressions, meta, node_selector_of, selector, uid_of
from karpenter.api.cluster import Namespace, Service, ServiceSpec
from karpenter.api.meta import ObjectMeta
from karpenter.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from karpenter.api.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from karpenter.model import labels as keys


def service(name: str, labels: Mapping[str, str], namespace: str = "default") -> Service:
    """A Service that selects pods by labels."""
    return Service(metadata=meta(name, namespace), spec=ServiceSpec(selector=labels))


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    """A namespace with labels."""
    return Namespace(metadata=ObjectMeta(name=name, uid=uid_of(name, ""), labels=labels or {}))


def pdb(
    name: str = "pdb",
    *,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    unhealthy_policy: str = "",
) -> PodDisruptionBudget:
    """A disruption budget for the pods with ``labels`` (``app=t`` when not given)."""
    return PodDisruptionBudget(
        metadata=meta(name, namespace),
        spec=PodDisruptionBudgetSpec(
            min_available=min_available,
            max_unavailable=max_unavailable,
            selector=selector(APP_T if labels is None else labels),
            unhealthy_pod_eviction_policy=unhealthy_policy,
        ),
    )


def pvc(
    name: str,
    *,
    namespace: str = "default",
    storage_class: str | None = "standard",
    volume: str = "",
    phase: str | None = None,
    annotations: Mapping[str, str] | None = None,
    deleted: datetime | None = None,
) -> PersistentVolumeClaim:
    """A claim for storage: bound when it names a volume, else pending."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid_of(name, namespace),
            annotations=annotations or {},
            deletion_timestamp=deleted,
        ),
        spec=PersistentVolumeClaimSpec(storage_class_name=storage_class, volume_name=volume),
        status=PersistentVolumeClaimStatus(
            phase=phase if phase is not None else ("Bound" if volume else "Pending")
        ),
    )


def pv(
    name: str,
    *,
    driver: str = "",
    terms: Sequence[Expressions] = (),
    storage_class: str = "standard",
    deleted: datetime | None = None,
) -> PersistentVolume:
    """A volume, of a CSI driver when one is named, that nodes matching one term can reach."""
    required = node_selector_of(terms)
    return PersistentVolume(
        metadata=ObjectMeta(name=name, uid=uid_of(name, ""), deletion_timestamp=deleted),
        spec=PersistentVolumeSpec(
            storage_class_name=storage_class,
            csi=CSIPersistentVolumeSource(driver=driver) if driver else None,
            node_affinity=VolumeNodeAffinity(required=required) if required else None,
        ),
    )


def storage_class(
    name: str = "standard",
    *,
    provisioner: str = "csi.example.com",
    zones: Sequence[str] = (),
    immediate: bool = False,
    topology_key: str = keys.ZONE,
) -> StorageClass:
    """A storage class that waits for the first consumer and may be bound to zones."""
    allowed = TopologySelectorLabelRequirement(key=topology_key, values=tuple(zones))
    return StorageClass(
        metadata=ObjectMeta(name=name, uid=uid_of(name, "")),
        provisioner=provisioner,
        volume_binding_mode="Immediate" if immediate else "WaitForFirstConsumer",
        allowed_topologies=(
            (TopologySelectorTerm(match_label_expressions=(allowed,)),) if zones else ()
        ),
    )


def csi_node(name: str, limits: Mapping[str, int | None]) -> CSINode:
    """What a node can attach, by driver; None is a driver that states no limit."""
    return CSINode(
        metadata=ObjectMeta(name=name, uid=uid_of(name, "")),
        spec=CSINodeSpec(
            drivers=tuple(
                CSINodeDriver(
                    name=driver,
                    allocatable=None if count is None else VolumeNodeResources(count=count),
                )
                for driver, count in limits.items()
            )
        ),
    )
