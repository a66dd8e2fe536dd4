"""Questions about a pod that more than one planner asks."""

from karpenter.api.meta import OwnerReference
from karpenter.api.pods import Pod

_FINISHED = ("Succeeded", "Failed")


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
    return any(_is(owner, "apps/v1", "DaemonSet") for owner in pod.metadata.owner_references)


def is_mirror(pod: Pod) -> bool:
    """Whether the pod stands for one the kubelet runs by itself."""
    return any(_is(owner, "v1", "Node") for owner in pod.metadata.owner_references)


def is_stateful(pod: Pod) -> bool:
    """Whether a StatefulSet owns the pod."""
    return any(_is(owner, "apps/v1", "StatefulSet") for owner in pod.metadata.owner_references)


def _is(owner: OwnerReference, api_version: str, kind: str) -> bool:
    return owner.kind == kind and owner.api_version == api_version
