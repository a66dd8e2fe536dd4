"""Draining a node: which pods are waited for, evicted next, or deleted; pure.

Pods leave in tiers: applications before daemons, and both before critical pods, so that logging and
networking serve the others to the end. The next tier starts when the one before is gone. Pods that
would run beyond the deadline of the node are deleted at once, whatever their tier.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.controllers.termination.deadline import is_overdue, is_to_be_deleted
from karpenter.model.conditions import DISRUPTION_REASON, TRUE, find
from karpenter.state.pods import awaits_eviction, is_active, is_critical, is_daemon

FORCEFUL: Final = "Forceful Termination"
# Pods that were bound a moment before the node was closed need time to appear
MINIMUM: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Drain:
    """The pods that keep a node from being empty, and those to evict now, by name."""

    waiting: tuple[Pod, ...] = ()
    forced: tuple[Pod, ...] = ()  # to be deleted because of the deadline
    next: tuple[Pod, ...] = ()  # to be evicted: those of the first tier that have not been yet

    @property
    def is_over(self) -> bool:
        """Whether no pod is waited for."""
        return not self.waiting

    @property
    def to_go(self) -> tuple[Pod, ...]:
        """The pods to evict or delete now."""
        return self.forced + self.next


def plan_drain(pods: Iterable[Pod], *, deadline: datetime | None, now: datetime) -> Drain:
    """Decide what to do next about the pods of a node."""
    waiting = sorted(
        (pod for pod in pods if awaits_eviction(pod, now=now)),
        key=lambda pod: (pod.metadata.namespace, pod.metadata.name),
    )
    graceful = [pod for pod in waiting if not is_overdue(pod, deadline, now=now)]
    first = min((tier(pod) for pod in graceful), default=0)
    return Drain(
        waiting=tuple(waiting),
        forced=tuple(pod for pod in waiting if is_to_be_deleted(pod, deadline, now=now)),
        next=tuple(pod for pod in graceful if tier(pod) == first and is_active(pod)),
    )


def tier(pod: Pod) -> int:
    """The tier of a pod; the lowest is evicted first."""
    return 2 * is_critical(pod) + is_daemon(pod)


def reason_of(claim: NodeClaim | None) -> str:
    """Why a node is drained, for events and metrics; empty for a node without a claim."""
    if claim is None:
        return ""
    condition = find(claim.status.conditions, DISRUPTION_REASON)
    return condition.reason if condition is not None and condition.status == TRUE else FORCEFUL
