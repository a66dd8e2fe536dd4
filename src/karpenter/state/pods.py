"""Questions about a pod that more than one planner asks."""

from datetime import datetime, timedelta
from typing import Final

from karpenter.api.pods import Pod
from karpenter.model.taints import DISRUPTED, tolerates

_FINISHED: Final = ("Succeeded", "Failed")
_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
# How long after its deletion was due a pod may still exist before it is no longer waited for
_STUCK_AFTER: Final = timedelta(seconds=60)


def key_of(pod: Pod) -> str:
    """The pod's name in the cluster: ``namespace/name``."""
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


def is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet owns the pod."""
    return _is_owned_by(pod, "apps/v1", "DaemonSet")


def is_mirror(pod: Pod) -> bool:
    """Whether the pod stands for one the kubelet runs by itself."""
    return _is_owned_by(pod, "v1", "Node")


def is_stateful(pod: Pod) -> bool:
    """Whether a StatefulSet owns the pod."""
    return _is_owned_by(pod, "apps/v1", "StatefulSet")


def is_critical(pod: Pod) -> bool:
    """Whether the cluster or its node cannot do without the pod."""
    return pod.spec.priority_class_name in _CRITICAL


def tolerates_disruption(pod: Pod) -> bool:
    """Whether the pod wants to stay on a node that is being emptied."""
    return any(tolerates(toleration, DISRUPTED) for toleration in pod.spec.tolerations)


def is_stuck(pod: Pod, *, now: datetime) -> bool:
    """Whether the pod should have been gone for long; its time includes its grace period."""
    end = pod.metadata.deletion_timestamp
    return end is not None and now - end > _STUCK_AFTER


def is_drainable(pod: Pod, *, now: datetime) -> bool:
    """Whether the pod leaves a node that is being emptied, or can be made to."""
    return not tolerates_disruption(pod) and not is_mirror(pod) and not is_stuck(pod, now=now)


def awaits_eviction(pod: Pod, *, now: datetime) -> bool:
    """Whether a node is not empty for as long as it has the pod."""
    return not is_finished(pod) and is_drainable(pod, now=now)


def _is_owned_by(pod: Pod, api_version: str, kind: str) -> bool:
    for owner in pod.metadata.owner_references:
        if owner.kind == kind and owner.api_version == api_version:
            return True
    return False
