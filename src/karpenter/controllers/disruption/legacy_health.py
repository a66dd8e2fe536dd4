"""The former kind of node repair: a node that is unhealthy for too long is deleted forcefully.

It ignores budgets and creates no replacement beforehand. It stops only for a pool of which too many
nodes are unhealthy at once.
"""

from typing import Final

from karpenter.api.nodes import Node
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.controllers.disruption.metrics import Tally
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.controllers.lookup import claim_of
from karpenter.controllers.termination.deadline import tightened
from karpenter.disruption.methods.legacy_repair import Diagnosis, diagnosis, too_many_fail
from karpenter.kube.events import WARNING, Event
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.model.conditions import timestamp
from karpenter.runtime import REASONABLE

UNHEALTHY: Final = "unhealthy"
_BLOCKED_SECONDS: Final = 300.0
_DEDUPE_SECONDS: Final = 900.0


class LegacyHealth(Controller):
    """Deletes unhealthy nodes."""

    name = "node.health"
    kind = Node
    backoff = REASONABLE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = context.mirror(Node)
        self._policies = tuple(context.cloud.repair_policies)
        self._remover = Remover(context)
        self._tally = Tally(context.metrics)
        self.follow(self._nodes)

    async def reconcile(self, key: Key) -> float | None:
        """Delete a node whose time is over, or wait for that."""
        node = self._nodes.get(key[1])
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        found = diagnosis(node, self._policies)
        if found is None:
            return None
        left = (found.due - self.clock.now()).total_seconds()
        if left > 0:
            return left
        return await self._repair(node, found)

    async def _repair(self, node: Node, found: Diagnosis) -> float | None:
        claim = claim_of(self.context, node)
        if claim is None or is_deleting(claim):
            return None
        problem = too_many_fail(node, self._nodes.list(), self._policies)
        if problem:
            self.context.recorder.publish(
                Event(
                    node,
                    WARNING,
                    "NodeRepairBlocked",
                    problem,
                    (node.metadata.uid,),
                    _DEDUPE_SECONDS,
                )
            )
            return _BLOCKED_SECONDS
        text = tightened(claim, self.clock.now())
        if text is not None:
            body = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: text}}}
            try:
                claim = await change(self.context, claim, lambda _: body)
            except GoneError:
                return None
        if await self._remover.remove(claim, UNHEALTHY):
            self._tally.unhealthy(claim, found.condition.type)
            self.context.decide(
                self.log.info,
                "deleting unhealthy node",
                drafts.unhealthy(claim, found.condition),
                Node={"name": node.metadata.name},
                NodeClaim={"name": claim.metadata.name},
                condition=found.condition.type,
                status=found.condition.status,
                since=timestamp(found.condition.last_transition_time),
            )
        return None
