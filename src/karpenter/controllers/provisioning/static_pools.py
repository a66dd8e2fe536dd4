"""Static pools: as many nodes as the pool says, whatever the pods ask for.

Both directions start from what is there. Deletion comes in the order of the planner: what has no
machine yet, what is empty, what costs least to move.
"""

from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.node_pools.served import is_served
from karpenter.controllers.provisioning.bodies import static_claim_body
from karpenter.controllers.provisioning.creation import ClaimCreator, NotCreatedError
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.scheduling.pools import sort_out_pools
from karpenter.scheduling.static import StaticOutcome, plan_static
from karpenter.state.snapshot import Snapshot

_AGAIN: Final = 60.0
_AT_LIMIT: Final = 30.0


class _StaticController(Controller):
    """What both directions share: which pools there are, and what wakes them."""

    kind = NodePool

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pools = world.mirror(NodePool)
        self.follow(self._pools)
        self.follow(world.mirror(NodeClaim), _pool_keys)

    def _pool(self, name: str) -> NodePool | None:
        pool = self._pools.get(name)
        if pool is None or pool.spec.replicas is None or not is_served(self.world, pool):
            return None
        return pool if pool.metadata.deletion_timestamp is None else None

    def _planned(self, pool: NodePool) -> StaticOutcome:
        (outcome,) = plan_static(
            [pool],
            self.world.state.snapshot(),
            now=self.clock.now(),
            deletion_cost_is_ours=self.world.settings.feature_gates["PodDeletionCostManagement"],
        )
        return outcome


class StaticProvisioning(_StaticController):
    """Creates claims for static pools that have too few."""

    name = "static.provisioning"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._creator = ClaimCreator(world, self.log)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pool(key[1])
        if pool is None:
            return None
        snapshot = self.world.state.snapshot()
        if not self.world.mirrors.is_synced or not self._is_usable(pool, snapshot):
            return _AGAIN
        outcome = self._planned(pool)
        missing = outcome.replicas - outcome.have - being_replaced(key[1], snapshot)
        for _ in range(min(missing, outcome.create)):
            if not await self._create(pool):
                return _AT_LIMIT
        return _AT_LIMIT if outcome.create < missing else _AGAIN

    async def _create(self, pool: NodePool) -> bool:
        facts = self.world.cloud.facts
        try:
            await self._creator.create(pool, lambda name: static_claim_body(pool, facts, name))
        except NotCreatedError as error:
            name = pool.metadata.name
            self.log.info("creating nodeclaim", NodePool={"name": name}, error=str(error))
            return False
        return True

    def _is_usable(self, pool: NodePool, snapshot: Snapshot) -> bool:
        sorted_out = sort_out_pools([pool], snapshot.node_classes, self.world.cloud.facts)
        return bool(sorted_out.static)


class StaticDeprovisioning(_StaticController):
    """Deletes claims of static pools that have too many."""

    name = "static.deprovisioning"

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pool(key[1])
        if pool is None:
            return None
        for name in self._planned(pool).delete:
            claim = self._claim_named(name)
            if claim is not None and await self.world.delete(claim):
                # Nobody counts it again before the API server tells that it goes
                self.world.state.mark(claim.metadata.name)
                self.log.info(
                    "deleting surplus nodeclaim",
                    NodePool={"name": key[1]},
                    NodeClaim={"name": claim.metadata.name},
                    reason="static pool has more nodes than replicas",
                )
        return _AGAIN

    def _claim_named(self, name: str) -> NodeClaim | None:
        """The claim of a machine, which may be known by its Node's name."""
        machine = self.world.state.snapshot().node(name)
        if machine is not None:
            return machine.node_claim
        return self.world.mirror(NodeClaim).get(name)


def being_replaced(pool: str, snapshot: Snapshot) -> int:
    """How many machines of a pool a disruption in progress has marked: it sees to new ones."""
    return sum(
        node.is_marked
        and node.node_claim is not None
        and node.node_claim.metadata.deletion_timestamp is None
        for node in snapshot.nodes_of(pool)
    )


def _pool_keys(claim: NodeClaim) -> tuple[Key, ...]:
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    return (("", pool),) if pool else ()
