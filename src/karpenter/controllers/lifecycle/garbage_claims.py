"""Claims whose instance is gone are deleted, so that their pods are planned anew."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.lifecycle.claims import REGISTERED, is_deleting, nodes_of
from karpenter.controllers.lifecycle.removal import GARBAGE_COLLECTED, Remover
from karpenter.controllers.runtime import Loop
from karpenter.controllers.world import World
from karpenter.model.conditions import is_true

_PERIOD: Final = 120.0
_AT_ONCE: Final = 20


class ClaimGarbageCollector(Loop):
    """Compares registered claims with what the cloud has."""

    name = "nodeclaim.garbagecollection"

    def __init__(self, world: World, remover: Remover) -> None:
        super().__init__(world)
        self._remover = remover

    async def step(self) -> float:
        """Delete the claims of instances that no longer exist."""
        # Claims first: what is launched while the cloud answers is in the answer or not asked for
        claims = [claim for claim in self.world.mirror(NodeClaim).list() if self._counts(claim)]
        if not claims:
            return _PERIOD
        instances = await self.world.cloud.list()
        present = {found.provider_id for found in instances if not found.is_deleting}
        lost = [c for c in claims if is_lost(c, nodes_of(self.world, c), present)]
        limit = asyncio.Semaphore(_AT_ONCE)
        outcomes = await asyncio.gather(
            *(self._collect(claim, limit) for claim in lost), return_exceptions=True
        )
        for error in outcomes:
            if error is not None:
                raise error  # the others are gone all the same
        return _PERIOD

    def _counts(self, claim: NodeClaim) -> bool:
        is_registered = is_true(claim.status.conditions, REGISTERED)
        return is_registered and not is_deleting(claim) and self.world.is_managed(claim)

    async def _collect(self, claim: NodeClaim, limit: asyncio.Semaphore) -> None:
        async with limit:
            if await self._remover.remove(claim, GARBAGE_COLLECTED):
                self.log.info(
                    "garbage collecting nodeclaim with no cloudprovider representation",
                    NodeClaim={"name": claim.metadata.name},
                    **{"provider-id": claim.status.provider_id},
                )


def is_lost(claim: NodeClaim, nodes: Sequence[Node], present: Collection[str]) -> bool:
    """Whether the claim's instance is gone.

    A cloud may forget for a moment; a kubelet that reports from the instance knows better.
    """
    if claim.status.provider_id in present:
        return False
    return len(nodes) != 1 or not is_true(nodes[0].status.conditions, "Ready")
