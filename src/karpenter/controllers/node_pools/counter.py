"""How many nodes a pool has and how large they are together, in its status."""

from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.controllers.node_pools.served import is_served
from karpenter.controllers.node_pools.usage import shown_usage, usage_of
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key
from karpenter.model.resources import NODES

_AGAIN: Final = 5.0
_UNTIL_SYNCED: Final = 1.0


class CounterController(Controller):
    """Counts what pools have."""

    name = "nodepool.counter"
    kind = NodePool

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pools = world.mirror(NodePool)
        self.follow(self._pools)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.world, pool):
            return None
        if not self.world.is_synced:
            return _UNTIL_SYNCED
        used = usage_of(self.world.state.snapshot().nodes_of(pool.metadata.name))
        resources, count = shown_usage(used), used[NODES]
        if dict(pool.status.resources) != resources or pool.status.nodes != count:
            gone = dict.fromkeys(pool.status.resources.keys() - resources.keys())
            status = {"resources": {**gone, **resources}, "nodes": count}
            await self.world.patch(pool, {"status": status}, subresource="status")
        return _AGAIN
