"""The events of termination: one sentence each, on the objects users look at."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.storage import VolumeAttachment
from karpenter.kube.events import Event
from karpenter.model.conditions import timestamp
from karpenter.model.labels import DO_NOT_DISRUPT
from karpenter.state.departing_pods import annotation_problem, protected_until

_MOST_NAMED: Final = 5
_BUDGET: Final = "budget"


def expiring(target: Node | NodeClaim, deadline: str) -> Event:
    """A deadline: pods that are still on the node then will be deleted."""
    message = f"All pods will be deleted by {deadline}"
    # A node may have the name of its claim; the event is published on both
    subject = (target.kind, target.metadata.name)
    return Event(target, "Warning", "TerminationGracePeriodExpiring", message, subject)


def waiting(node: Node, count: int) -> Event:
    """Pods keep a node from being empty."""
    # Plural for one pod too: users search for Karpenter's wording
    return _failed_draining(node, f"{count} pods are waiting to be evicted")


def budget_in_the_way(node: Node, pod: Pod, refusal: str, *, are_several: bool = False) -> Event:
    """A disruption budget does not let a pod go now, or several together never do."""
    said = "evicting pod violates a PDB"
    if are_several:
        said = "eviction does not support multiple PDBs"
    name = f"(Pod={pod.metadata.namespace}/{pod.metadata.name})"
    # Deduplicated apart from the count of waiting pods, which is published first
    return _failed_draining(node, f"{said} {name}: {refusal}", _BUDGET)


def volumes_attached(node: Node, attachments: Sequence[VolumeAttachment]) -> Event:
    """Volumes keep a machine from being ended."""
    names = [attachment.metadata.name for attachment in attachments]
    more = len(names) - _MOST_NAMED
    listed = ", ".join(names[:_MOST_NAMED]) + (f" and {more} other(s)" if more > 0 else "")
    message = f"Awaiting deletion of bound volumeattachments ({listed})"
    return Event(node, "Normal", "AwaitingVolumeDetachment", message, (node.metadata.name,))


def evicted(pod: Pod, reason: str) -> Event:
    """A pod was evicted."""
    return Event(pod, "Normal", "Evicted", f"Evicted pod: {reason}", (pod.metadata.uid,))


def disrupted(pod: Pod, deadline: datetime, *, grace: int) -> Event:
    """A pod was deleted because of the deadline of its node, with so many seconds to end."""
    message = (
        f"Deleting the pod to accommodate the terminationTime {deadline:%Y-%m-%d %H:%M:%S +0000 UTC}"
        f" of the node. The pod was granted {grace} seconds of grace-period of its"
        f" {pod.spec.termination_grace_period_seconds or 0} terminationGracePeriodSeconds."
        " This bypasses the PDB of the pod and the do-not-disrupt annotation."
    )
    return Event(pod, "Normal", "Disrupted", message, (pod.metadata.uid,))


def protection(pod: Pod, *, now: datetime) -> Event | None:
    """What a do-not-disrupt annotation with another value than "true" does now, if there is one."""
    problem = annotation_problem(pod.metadata.annotations)
    end = protected_until(pod)
    if problem is not None:
        kind, reason, message = "Warning", "InvalidDoNotDisruptAnnotation", problem
    elif end is None:
        return None
    else:
        kind, reason = "Normal", "DoNotDisruptUntil"
        message = f"The {DO_NOT_DISRUPT} grace period will elapse at {timestamp(end)}"
        if now >= end:
            reason = "DoNotDisruptGracePeriodElapsed"
            message = f"The {DO_NOT_DISRUPT} grace period has elapsed, pod is now disruptable"
    value = pod.metadata.annotations[DO_NOT_DISRUPT]
    return Event(pod, kind, reason, message, (pod.metadata.uid, value))


def _failed_draining(node: Node, why: str, *about: str) -> Event:
    message = f"Failed to drain node, {why}"
    return Event(node, "Warning", "FailedDraining", message, (node.metadata.name, *about))
