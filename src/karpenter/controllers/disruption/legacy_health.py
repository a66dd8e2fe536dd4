"""Node repair as it used to be: a node that is unhealthy for too long is deleted by force.

No budget paces it and nothing is replaced beforehand. Only a pool of which too many nodes fail at
once is left alone.
"""

from typing import Final

from karpenter.api.nodes import Node
from karpenter.controllers.disruption.counting import Tally
from karpenter.controllers.disruption.writing import GoneError, change
from karpenter.controllers.lifecycle.claims import is_deleting
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.controllers.runtime import Controller
from karpenter.controllers.termination.deadline import tightened
from karpenter.controllers.termination.lookup import claim_of
from karpenter.controllers.world import World
from karpenter.disruption.legacy_repair import Diagnosis, diagnosis, too_many_fail
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

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._nodes = world.mirror(Node)
        self._policies = tuple(world.cloud.repair_policies)
        self._remover = Remover(world)
        self._tally = Tally(world.metrics)
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
        claim = claim_of(self.world, node)
        if claim is None or is_deleting(claim):
            return None
        problem = too_many_fail(node, self._nodes.list(), self._policies)
        if problem:
            self.world.recorder.publish(
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
                claim = await change(self.world, claim, lambda _: body)
            except GoneError:
                return None
        if await self._remover.remove(claim, UNHEALTHY):
            self._tally.unhealthy(claim, found.condition.type)
            self.log.info(
                "deleting unhealthy node",
                Node={"name": node.metadata.name},
                NodeClaim={"name": claim.metadata.name},
                condition=found.condition.type,
                status=found.condition.status,
                since=timestamp(found.condition.last_transition_time),
            )
        return None
