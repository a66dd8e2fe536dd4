"""Static pools: as many nodes as the pool says, whatever the pods ask for.

Both directions start from the same count of what is there, comes and goes, and so does disruption,
which replaces nodes meanwhile. Deletion comes in the order of the planner: what has been replaced,
what has no machine yet, what is being replaced, what is empty, what costs least to move.
"""

from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.node_pools.served import is_served
from karpenter.controllers.provisioning.bodies import static_claim_body
from karpenter.controllers.provisioning.creation import ClaimCreator, NotCreatedError
from karpenter.controllers.provisioning.failed_launches import FailedLaunches
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.scheduling.pools import sort_out_pools
from karpenter.scheduling.static import plan_static
from karpenter.state.static_count import StaticCount, count_static

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

    def _count(self, pool: NodePool) -> StaticCount:
        return count_static(pool, self.world.state.snapshot(), now=self.clock.now())


class StaticProvisioning(_StaticController):
    """Creates claims for static pools that have too few."""

    name = "static.provisioning"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._creator = ClaimCreator(world, self.log)
        self._ends.append(FailedLaunches(world).end)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pool(key[1])
        if pool is None:
            return None
        if not self.world.mirrors.is_synced or not self._is_usable(pool):
            return _AGAIN
        # Counted again for each, because the pool may change while one is created
        while (count := self._count(pool)).slots(count.missing):
            if count.held_until is not None:
                return (count.held_until - self.clock.now()).total_seconds()
            if not await self._create(pool):
                return _AT_LIMIT
            pool = self._pool(key[1])
            if pool is None:
                return None
        return _AT_LIMIT if count.missing else _AGAIN

    async def _create(self, pool: NodePool) -> bool:
        facts = self.world.cloud.facts
        try:
            await self._creator.create(pool, lambda name: static_claim_body(pool, facts, name))
        except NotCreatedError as error:
            name = pool.metadata.name
            self.log.info("creating nodeclaim", NodePool={"name": name}, error=str(error))
            return False
        return True

    def _is_usable(self, pool: NodePool) -> bool:
        classes = self.world.state.snapshot().node_classes
        sorted_out = sort_out_pools([pool], classes, self.world.cloud.facts)
        return bool(sorted_out.static)


class StaticDeprovisioning(_StaticController):
    """Deletes claims of static pools that have too many."""

    name = "static.deprovisioning"

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pool(key[1])
        if pool is None:
            return None
        for name in self._surplus(pool):
            claim, pool = self._claim_named(name), self._pool(key[1])
            if pool is None or not self._count(pool).surplus:
                break  # the pool has changed meanwhile
            if claim is None:
                continue
            if await self.world.delete(claim):
                self.log.info(
                    "deleting surplus nodeclaim",
                    NodePool={"name": key[1]},
                    NodeClaim={"name": claim.metadata.name},
                    reason="static pool has more nodes than replicas",
                )
            # Nobody counts it again before the API server tells that it goes
            self.world.state.dismiss(claim)
            self.world.state.mark(claim.metadata.name)
        return _AGAIN

    def _surplus(self, pool: NodePool) -> tuple[str, ...]:
        (outcome,) = plan_static(
            [pool],
            self.world.state.snapshot(),
            now=self.clock.now(),
            deletion_cost_is_ours=self.world.settings.feature_gates["PodDeletionCostManagement"],
        )
        return outcome.delete

    def _claim_named(self, name: str) -> NodeClaim | None:
        """The claim of a machine, which may be known by its Node's name."""
        machine = self.world.state.snapshot().node(name)
        if machine is not None:
            return machine.node_claim
        return self.world.mirror(NodeClaim).get(name)


def _pool_keys(claim: NodeClaim) -> tuple[Key, ...]:
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    return (("", pool),) if pool else ()
