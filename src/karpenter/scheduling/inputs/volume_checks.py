"""Whether the topology of a pod's volumes is known.

A claim that is bound has a volume whose topology is known; one that waits for its first consumer
has a class with allowed topologies. In all other cases (a claim that is missing, being deleted, or
to be bound immediately) the pod is ignored for the pass.
"""

from karpenter.api.pods import Pod
from karpenter.api.storage import PersistentVolumeClaim, StorageClass
from karpenter.cloud.types import ProviderFacts
from karpenter.model.labels import normalise
from karpenter.scheduling.inputs.ignored_pods import Objection, WhyIgnored
from karpenter.scheduling.inputs.storage import Mount, Storage

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
IMMEDIATE = "Immediate"


def volume_objection(pod: Pod, storage: Storage, facts: ProviderFacts) -> Objection | None:
    """Which of a pod's claims is not ready, and why, or None when all are."""
    for mount in storage.mounts(pod):
        objection = _objection(mount, storage, facts)
        if objection is not None:
            return objection
    return None


def _objection(mount: Mount, storage: Storage, facts: ProviderFacts) -> Objection | None:
    claim = mount.claim
    if claim is None:
        return WhyIgnored.CLAIM_NOT_FOUND, f"persistent volume claim {mount.key} does not exist"
    if claim.metadata.deletion_timestamp is not None:
        return WhyIgnored.CLAIM_DELETING, f"persistent volume claim {mount.key} is being deleted"
    if claim.status.phase == "Lost":
        return WhyIgnored.CLAIM_LOST, f"persistent volume claim {mount.key} has lost its volume"
    if claim.spec.volume_name:
        objection = _bound_objection(mount.key, claim, storage)
    else:
        objection = _unbound_objection(mount.key, claim, storage, facts)
    return objection or _driver_objection(mount.key, claim, storage, facts)


def _bound_objection(key: str, claim: PersistentVolumeClaim, storage: Storage) -> Objection | None:
    name = claim.spec.volume_name
    volume = storage.volumes.get(name)
    where = f"persistent volume {name} of claim {key}"
    if volume is None:
        return WhyIgnored.VOLUME_NOT_FOUND, f"{where} does not exist"
    if volume.metadata.deletion_timestamp is not None:
        return WhyIgnored.VOLUME_DELETING, f"{where} is being deleted"
    if BIND_COMPLETED not in claim.metadata.annotations:
        sentence = f"persistent volume claim {key} names volume {name} but is not bound to it yet"
        return WhyIgnored.CLAIM_BINDING_INCOMPLETE, sentence
    return None


def _unbound_objection(
    key: str, claim: PersistentVolumeClaim, storage: Storage, facts: ProviderFacts
) -> Objection | None:
    name = storage.class_name_of(claim)
    if not name:
        sentence = f"persistent volume claim {key} is unbound and names no storage class"
        return WhyIgnored.NO_STORAGE_CLASS, sentence
    storage_class = storage.classes.get(name)
    if storage_class is None:
        sentence = f"storage class {name} of persistent volume claim {key} does not exist"
        return WhyIgnored.STORAGE_CLASS_NOT_FOUND, sentence
    if storage_class.volume_binding_mode in ("", IMMEDIATE):
        sentence = (
            f"persistent volume claim {key} is unbound although storage class {name} binds"
            " immediately; wait for its volume, or use WaitForFirstConsumer"
        )
        return WhyIgnored.IMMEDIATE_BINDING, sentence
    return _topology_objection(key, storage_class, facts)


def _topology_objection(
    key: str, storage_class: StorageClass, facts: ProviderFacts
) -> Objection | None:
    unsupported = facts.unsupported_topology_keys
    for term in storage_class.allowed_topologies:
        for expression in term.match_label_expressions:
            if unsupported.isdisjoint((expression.key, normalise(expression.key))):
                continue
            sentence = (
                f"storage class {storage_class.metadata.name} of persistent volume claim {key}"
                f" uses topology key {expression.key}, which {facts.name} does not support"
            )
            return WhyIgnored.UNSUPPORTED_VOLUME_TOPOLOGY, sentence
    return None


def _driver_objection(
    key: str, claim: PersistentVolumeClaim, storage: Storage, facts: ProviderFacts
) -> Objection | None:
    driver = storage.driver_of(claim)
    if driver not in facts.unsupported_volume_drivers:
        return None
    sentence = (
        f"persistent volume claim {key} needs driver {driver}, which {facts.name} does not support"
    )
    return WhyIgnored.UNSUPPORTED_VOLUME_DRIVER, sentence
