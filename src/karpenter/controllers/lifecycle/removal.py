"""Giving up a NodeClaim: the claim is deleted, counted once, and never worked on again."""

from typing import Final

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.controllers.lifecycle.claims import nodes_of
from karpenter.controllers.mirrors import BY_NODE
from karpenter.controllers.world import World
from karpenter.model import labels
from karpenter.state.departing import is_reschedulable

EXPIRED: Final = "expired"
GARBAGE_COLLECTED: Final = "garbage_collected"
INSUFFICIENT_CAPACITY: Final = "insufficient_capacity"
LAUNCH_TIMEOUT: Final = "launch_timeout"
NODECLASS_NOT_READY: Final = "nodeclass_not_ready"
REGISTRATION_TIMEOUT: Final = "registration_timeout"

# Nothing is on such a claim's machine yet, so no pod is disturbed
_BEFORE_PODS: Final = frozenset(
    {INSUFFICIENT_CAPACITY, LAUNCH_TIMEOUT, NODECLASS_NOT_READY, REGISTRATION_TIMEOUT}
)
_MOST_REMEMBERED: Final = 10_000


class Remover:
    """Deletes claims, and remembers which.

    The mirror shows a deletion a moment after it was asked for. In that moment a claim must not
    be launched again, and not be counted again.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._removed: dict[str, None] = {}  # uids, oldest first

    def has_removed(self, claim: NodeClaim) -> bool:
        """Whether the claim is on its way out, even if it does not look so yet."""
        return claim.metadata.uid in self._removed

    async def remove(self, claim: NodeClaim, reason: str) -> bool:
        """Delete a claim for a reason; say whether it was this call that did it."""
        if claim.metadata.deletion_timestamp is not None or self.has_removed(claim):
            return False
        was_there = await self._world.delete(claim)
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
        metrics = self._world.metrics
        metrics.nodeclaims_disrupted_total.labels(**values).inc()
        if reason not in _BEFORE_PODS and (disturbed := self._disturbed_pods(claim)):
            metrics.pods_disruption_initiated_total.labels(**values).inc(disturbed)

    def _disturbed_pods(self, claim: NodeClaim) -> int:
        pods = self._world.mirror(Pod)
        return sum(
            is_reschedulable(pod)
            for node in nodes_of(self._world, claim)
            for pod in pods.by_index(BY_NODE, node.metadata.name)
        )


def termination_mode(claim: NodeClaim) -> str:
    """How much time pods have once the claim is deleted: no bound, some, or none."""
    text = claim.spec.termination_grace_period
    if text is None:
        return "graceful"
    return "eventual" if (go_duration(text) or 0) > 0 else "forceful"
