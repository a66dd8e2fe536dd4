"""Expiration: a claim is deleted when its time is over, whatever state it is in."""

from karpenter.api.karpenter import NodeClaim
from karpenter.controllers.lifecycle.claims import is_deleting
from karpenter.controllers.lifecycle.removal import EXPIRED, Remover
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.disruption.expiration import expires_at
from karpenter.kube.mirror import Key


class ExpirationController(Controller):
    """Sets a timer for every claim."""

    name = "nodeclaim.expiration"
    kind = NodeClaim

    def __init__(self, world: World, remover: Remover) -> None:
        super().__init__(world)
        self._remover = remover
        self.follow(world.mirror(NodeClaim))

    async def reconcile(self, key: Key) -> float | None:
        """Delete a claim that has expired, or wait for that."""
        claim = self.world.mirror(NodeClaim).get(key[1])
        if claim is None or is_deleting(claim) or not self.world.is_managed(claim):
            return None
        moment = expires_at(claim)
        if moment is None:
            return None
        remaining = (moment - self.clock.now()).total_seconds()
        if remaining > 0:
            return remaining
        if await self._remover.remove(claim, EXPIRED):
            self.log.info("deleting expired nodeclaim", NodeClaim={"name": claim.metadata.name})
        return None
