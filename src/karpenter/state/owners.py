"""Owners of pods: from a pod to its ReplicaSet, and from that to its Deployment.

Owner references name them. Where a ReplicaSet is not among the objects, as in a file of pods alone,
the Deployment is derived from its name, which is the Deployment's name and one hyphenated suffix.
"""

from collections.abc import Container, Mapping

from karpenter.api.meta import OwnerReference, Resource
from karpenter.api.pods import Pod
from karpenter.api.workloads import Deployment, ReplicaSet
from karpenter.model.selectors import selects
from karpenter.state.object_keys import namespace_of


def controller_of(resource: Resource) -> OwnerReference | None:
    """The controller of an object, if it has one."""
    for owner in resource.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def deployment_of(replica_set: ReplicaSet) -> str:
    """The key of the Deployment that controls a ReplicaSet, or nothing."""
    owner = controller_of(replica_set)
    if owner is None or owner.kind != "Deployment":
        return ""
    return f"{namespace_of(replica_set)}/{owner.name}"


def named_by(owner: OwnerReference, namespace: str, replica_sets: Container[str]) -> str:
    """The key of the Deployment that the ReplicaSet of a pod is named after, or nothing.

    Nothing, too, for a ReplicaSet that is among the objects: its owner reference decides.
    """
    if owner.kind != "ReplicaSet":
        return ""
    key = f"{namespace}/{owner.name}"
    return "" if key in replica_sets else key.rpartition("-")[0]


def deployment_of_pod(
    pod: Pod,
    replica_sets: Mapping[str, ReplicaSet],
    deployments: Mapping[str, Deployment],
) -> str:
    """The key of the Deployment that a pod belongs to, or nothing.

    Without an owner reference to follow, because the ReplicaSet is missing or the pod has no
    controller, the Deployment must select the pod.
    """
    owner, namespace = controller_of(pod), namespace_of(pod)
    if owner is None:
        return next(
            (
                key
                for key, each in sorted(deployments.items())
                if namespace_of(each) == namespace
                and selects(each.spec.selector, pod.metadata.labels)
            ),
            "",
        )
    key = f"{namespace}/{owner.name}"
    if owner.kind == "Deployment":
        return key
    if owner.kind == "ReplicaSet" and key in replica_sets:
        return deployment_of(replica_sets[key])
    named = named_by(owner, namespace, replica_sets)
    known = deployments.get(named)
    if known is not None and not selects(known.spec.selector, pod.metadata.labels):
        return ""
    return named
