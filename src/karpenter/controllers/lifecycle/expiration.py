"""Expiration: a claim is deleted when ``expireAfter`` has passed, whatever state it is in."""

from karpenter.api.karpenter import NodeClaim
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.lifecycle.removal import EXPIRED, Remover
from karpenter.disruption.methods.expiration import expires_at
from karpenter.kube.mirror import Key


class ExpirationController(Controller):
    """Sets a timer for every claim."""

    name = "nodeclaim.expiration"
    kind = NodeClaim

    def __init__(self, context: Context, remover: Remover) -> None:
        super().__init__(context)
        self._remover = remover
        self.follow(context.mirror(NodeClaim))

    async def reconcile(self, key: Key) -> float | None:
        """Delete a claim that has expired, or wait for that."""
        claim = self.context.mirror(NodeClaim).get(key[1])
        if claim is None or is_deleting(claim) or not self.context.is_managed(claim):
            return None
        moment = expires_at(claim)
        if moment is None:
            return None
        remaining = (moment - self.clock.now()).total_seconds()
        if remaining > 0:
            return remaining
        if await self._remover.remove(claim, EXPIRED):
            self.context.decide(
                self.log.info,
                "deleting expired nodeclaim",
                drafts.expired(claim),
                NodeClaim={"name": claim.metadata.name},
            )
        return None
