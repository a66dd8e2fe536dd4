"""The drift hash of a pool, kept on the pool for claims to be compared with.

When hashes are computed another way than before, claims are stamped anew first, so that no node
drifts because of it; a claim that has drifted keeps the hash that says so.
"""

from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.mirrors import BY_POOL
from karpenter.controllers.node_pools.served import is_served
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

_DRIFTED: Final = "Drifted"


class HashController(Controller):
    """Stamps pools with the hash of their template."""

    name = "nodepool.hash"
    kind = NodePool

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pools = world.mirror(NodePool)
        self._claims = world.mirror(NodeClaim)
        self.follow(self._pools)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.world, pool):
            return None
        digest = node_pool_hash(pool)
        if pool.metadata.annotations.get(labels.NODEPOOL_HASH_VERSION) != NODEPOOL_HASH_VERSION:
            for claim in self._claims.by_index(BY_POOL, pool.metadata.name):
                await self._stamp_claim(claim, digest)
        stamp = {
            labels.NODEPOOL_HASH: digest,
            labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION,
        }
        if not stamp.items() <= pool.metadata.annotations.items():
            await self.world.patch(pool, {"metadata": {"annotations": stamp}})
        return None

    async def _stamp_claim(self, claim: NodeClaim, digest: str) -> None:
        if claim.metadata.annotations.get(labels.NODEPOOL_HASH_VERSION) == NODEPOOL_HASH_VERSION:
            return
        stamp = {labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION}
        if find(claim.status.conditions, _DRIFTED) is None:
            stamp[labels.NODEPOOL_HASH] = digest
        await self.world.patch(claim, {"metadata": {"annotations": stamp}})
