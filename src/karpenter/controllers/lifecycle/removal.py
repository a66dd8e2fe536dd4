"""Giving up a NodeClaim: the claim is deleted, counted once, and not reconciled again."""

from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context
from karpenter.controllers.lookup import nodes_of
from karpenter.controllers.mirrors import BY_NODE
from karpenter.model import labels
from karpenter.state.departing_pods import is_reschedulable
from karpenter.telemetry.capacity import termination_mode

EXPIRED: Final = "expired"
GARBAGE_COLLECTED: Final = "garbage_collected"
INSUFFICIENT_CAPACITY: Final = "insufficient_capacity"
LAUNCH_TIMEOUT: Final = "launch_timeout"
NODECLASS_NOT_READY: Final = "nodeclass_not_ready"
REGISTRATION_TIMEOUT: Final = "registration_timeout"

# No pod runs on such a claim's machine yet, so none is disrupted
_BEFORE_PODS: Final = frozenset(
    {INSUFFICIENT_CAPACITY, LAUNCH_TIMEOUT, NODECLASS_NOT_READY, REGISTRATION_TIMEOUT}
)
_MOST_REMEMBERED: Final = 10_000


class Remover:
    """Deletes claims, and remembers which.

    The mirror shows a deletion some time after the request. Until then a claim must not be launched
    again, and not be counted again.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._removed: dict[str, None] = {}  # uids, oldest first

    def has_removed(self, claim: NodeClaim) -> bool:
        """Whether this process has deleted the claim, even if its mirror does not show it yet."""
        return claim.metadata.uid in self._removed

    async def remove(self, claim: NodeClaim, reason: str) -> bool:
        """Delete a claim for a reason; return whether it was this call that did it."""
        if claim.metadata.deletion_timestamp is not None or self.has_removed(claim):
            return False
        was_there = await self._context.delete(claim)
        self._remember(claim.metadata.uid)
        if was_there:
            self._count(claim, reason)
        return was_there

    def _remember(self, uid: str) -> None:
        self._removed[uid] = None
        if len(self._removed) > _MOST_REMEMBERED:
            del self._removed[next(iter(self._removed))]

    def _count(self, claim: NodeClaim, reason: str) -> None:
        held = claim.metadata.labels
        values = {
            "reason": reason,
            "nodepool": held.get(labels.NODEPOOL, ""),
            "capacity_type": held.get(labels.CAPACITY_TYPE, ""),
            "consolidation_policy": "",
            "termination_mode": termination_mode(claim),
        }
        metrics = self._context.metrics
        metrics.nodeclaims_disrupted_total.labels(**values).inc()
        if reason not in _BEFORE_PODS and (disturbed := self._disturbed_pods(claim)):
            metrics.pods_disruption_initiated_total.labels(**values).inc(disturbed)

    def _disturbed_pods(self, claim: NodeClaim) -> int:
        pods = self._context.mirror(Pod)
        return sum(
            is_reschedulable(pod)
            for node in nodes_of(self._context, claim)
            for pod in pods.by_index(BY_NODE, node.metadata.name)
        )
