"""Volumes: which nodes reach those of a pod, and how many a machine can attach."""

from collections.abc import Iterable, Iterator

from karpenter.api.pods import Pod
from karpenter.api.storage import PersistentVolumeClaim, StorageClass
from karpenter.checker.inputs import Cluster, Machine
from karpenter.checker.labels import HOSTNAME, INSTANCE_TYPE, Demand, demand, stable
from karpenter.checker.machines import labels_of, pool_of

_IN_TREE = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def reaching(cluster: Cluster, pod: Pod) -> Iterator[list[list[Demand]]]:
    """Yield, for each volume of a pod that not every node reaches, the demands on its nodes."""
    for claim in _claims_of(cluster, pod):
        alternatives = _reaching_claim(cluster, claim)
        if alternatives:
            yield alternatives


def attached(cluster: Cluster, pods: Iterable[Pod]) -> dict[str, set[str]]:
    """The claims that pods have attached to their machine, by driver."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        for claim in _claims_of(cluster, pod):
            driver = _driver(cluster, claim)
            if driver:
                name = f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"
                found.setdefault(driver, set()).add(name)
    return found


def attach_limit(cluster: Cluster, machine: Machine, driver: str) -> int | None:
    """How many volumes of a driver a machine attaches; None is any number."""
    node = machine.node.metadata.name if machine.node is not None else None
    for csi_node in cluster.csi_nodes:
        for reported in csi_node.spec.drivers:
            if csi_node.metadata.name == node and reported.name == driver:
                return reported.allocatable.count if reported.allocatable is not None else None
    own_type = labels_of(machine).get(INSTANCE_TYPE)
    for pool in cluster.pools:
        for instance_type in pool.instance_types:
            if pool.node_pool.metadata.name == pool_of(machine) and instance_type.name == own_type:
                return instance_type.volume_attachment_limits.get(driver)
    return None


def _claims_of(cluster: Cluster, pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
        else:
            continue
        for claim in cluster.claims:
            same = (claim.metadata.namespace or "default") == (pod.metadata.namespace or "default")
            if same and claim.metadata.name == name:
                yield claim


def _reaching_claim(cluster: Cluster, claim: PersistentVolumeClaim) -> list[list[Demand]]:
    for volume in cluster.volumes:
        affinity = volume.spec.node_affinity
        if volume.metadata.name != claim.spec.volume_name or affinity is None:
            continue
        lies_on_a_host = volume.spec.local is not None or volume.spec.host_path is not None
        terms = affinity.required.node_selector_terms if affinity.required is not None else ()
        return [
            [
                demand(e.key, e.operator, e.values)
                for e in term.match_expressions
                if not (lies_on_a_host and stable(e.key) == HOSTNAME)
            ]
            for term in terms
        ]
    storage_class = _class_of(cluster, claim)
    if claim.spec.volume_name or storage_class is None:
        return []
    return [
        [demand(e.key, "In", e.values) for e in term.match_label_expressions]
        for term in storage_class.allowed_topologies
    ]


def _driver(cluster: Cluster, claim: PersistentVolumeClaim) -> str:
    if claim.spec.volume_name:
        for volume in cluster.volumes:
            if volume.metadata.name == claim.spec.volume_name:
                if volume.spec.csi is not None:
                    return _IN_TREE.get(volume.spec.csi.driver, volume.spec.csi.driver)
                ebs = volume.spec.aws_elastic_block_store is not None
                return _IN_TREE["kubernetes.io/aws-ebs"] if ebs else ""
        return ""
    storage_class = _class_of(cluster, claim)
    if storage_class is None:
        return ""
    return _IN_TREE.get(storage_class.provisioner, storage_class.provisioner)


def _class_of(cluster: Cluster, claim: PersistentVolumeClaim) -> StorageClass | None:
    wanted = claim.spec.storage_class_name
    if wanted is not None:
        return next((c for c in cluster.storage_classes if c.metadata.name == wanted), None)
    marked = [
        storage_class
        for storage_class in cluster.storage_classes
        if any(storage_class.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    ]
    return min(marked, key=_newest_first, default=None)


def _newest_first(storage_class: StorageClass) -> tuple[float, str]:
    created = storage_class.metadata.creation_timestamp
    return (-created.timestamp() if created else 0.0, storage_class.metadata.name)
