"""Predicates on pods that more than one planner uses."""

from datetime import datetime, timedelta
from typing import Final

from karpenter.api.pods import Pod
from karpenter.model.taints import DISRUPTED, tolerates

_FINISHED: Final = ("Succeeded", "Failed")
_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
# A pod that exists this long after its deletion was due no longer blocks the drain
_STUCK_AFTER: Final = timedelta(seconds=60)


def key_of(pod: Pod) -> str:
    """The pod's key: ``namespace/name``."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def is_finished(pod: Pod) -> bool:
    """Whether the pod has run to its end."""
    return pod.status.phase in _FINISHED


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether the pod runs, or is to run, for the time being."""
    return not is_finished(pod) and not is_terminating(pod)


def is_bound(pod: Pod) -> bool:
    """Whether the pod has a node."""
    return bool(pod.spec.node_name)


def mounts_claims(pod: Pod) -> bool:
    """Whether a pod mounts any claim: most pods have only the volume of their token."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
    return False


def is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet owns the pod."""
    return _is_owned_by(pod, "apps/v1", "DaemonSet")


def is_mirror(pod: Pod) -> bool:
    """Whether the pod mirrors a static pod of the kubelet."""
    return _is_owned_by(pod, "v1", "Node")


def is_stateful(pod: Pod) -> bool:
    """Whether a StatefulSet owns the pod."""
    return _is_owned_by(pod, "apps/v1", "StatefulSet")


def is_critical(pod: Pod) -> bool:
    """Whether the pod has a system-critical priority class."""
    return pod.spec.priority_class_name in _CRITICAL


def tolerates_disruption(pod: Pod) -> bool:
    """Whether the pod tolerates the taint of a node that is being drained."""
    return any(tolerates(toleration, DISRUPTED) for toleration in pod.spec.tolerations)


def is_stuck(pod: Pod, *, now: datetime) -> bool:
    """Whether the pod is long overdue; its deletion timestamp includes the grace period."""
    end = pod.metadata.deletion_timestamp
    return end is not None and now - end > _STUCK_AFTER


def is_drainable(pod: Pod, *, now: datetime) -> bool:
    """Whether a drain has to remove the pod, or wait for its end."""
    return not tolerates_disruption(pod) and not is_mirror(pod) and not is_stuck(pod, now=now)


def awaits_eviction(pod: Pod, *, now: datetime) -> bool:
    """Whether the pod keeps a drain from being complete."""
    return not is_finished(pod) and is_drainable(pod, now=now)


def _is_owned_by(pod: Pod, api_version: str, kind: str) -> bool:
    for owner in pod.metadata.owner_references:
        if owner.kind == kind and owner.api_version == api_version:
            return True
    return False
