"""The drift hash of a pool, stored on the pool for claims to be compared with.

When the hash version changes, claims are stamped with the new hash first, so that no node drifts
because of it; a claim that has already drifted keeps its old hash.
"""

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.mirrors import BY_POOL
from karpenter.controllers.node_pools.managed import is_served
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.model.conditions import DRIFTED, find
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash


class HashController(Controller):
    """Stamps pools with the hash of their template."""

    name = "nodepool.hash"
    kind = NodePool

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pools = context.mirror(NodePool)
        self._claims = context.mirror(NodeClaim)
        self.follow(self._pools)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.context, pool):
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
            await self.context.patch(pool, {"metadata": {"annotations": stamp}})
        return None

    async def _stamp_claim(self, claim: NodeClaim, digest: str) -> None:
        if claim.metadata.annotations.get(labels.NODEPOOL_HASH_VERSION) == NODEPOOL_HASH_VERSION:
            return
        stamp = {labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION}
        if find(claim.status.conditions, DRIFTED) is None:
            stamp[labels.NODEPOOL_HASH] = digest
        await self.context.patch(claim, {"metadata": {"annotations": stamp}})
