"""Static pools: ``replicas`` nodes, whatever the pods request.

Scaling up and scaling down use the same count of existing, starting and departing claims, and so
does disruption, which replaces nodes at the same time. Claims are deleted in the planner's order:
replaced ones, those without a machine, those being replaced, empty ones, then the cheapest to move.

A claim that cannot be launched is removed, and its pool lacks one again at once. No pod asks for
it, so without a back-off claims would be created and removed as fast as the API server allows:
after a failed launch the next one waits, longer each time.
"""

from collections.abc import Callable
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.times import in_seconds, later
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.node_pools.managed import is_served
from karpenter.controllers.provisioning.claim_bodies import static_claim_body
from karpenter.controllers.provisioning.creation import ClaimCreator, NotCreatedError
from karpenter.kube.mirror import Key
from karpenter.kube.workqueue import Backoff
from karpenter.model import labels
from karpenter.scheduling.inputs.pools import sort_out_pools
from karpenter.scheduling.static_pools import plan_static
from karpenter.state.static_node_counts import StaticCount, count_static

_BACKOFF: Final = Backoff(1.0, 60.0)
_AGAIN: Final = 60.0
_AT_LIMIT: Final = 30.0


class FailedLaunches:
    """Delays launches of static pools whose claims are deleted before they are launched."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._failures: dict[str, int] = {}  # by pool, in a row
        self.end: Callable[[], None] = context.mirror(NodeClaim).on_change(self._claim_changed)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        pool = self._static_pool(new or old)
        if pool is None or (old is not None and old.status.provider_id):
            return
        if new is not None and new.status.provider_id:
            self._failures.pop(pool, None)
            self._context.state.hold_launches(pool, None)
        elif old is not None and not is_deleting(old) and (new is None or is_deleting(new)):
            self._failed(pool, old)

    def _static_pool(self, claim: NodeClaim | None) -> str | None:
        name = claim.metadata.labels.get(labels.NODEPOOL, "") if claim is not None else ""
        pool = self._context.mirror(NodePool).get(name)
        return name if pool is not None and pool.spec.replicas is not None else None

    def _failed(self, pool: str, claim: NodeClaim) -> None:
        snapshot, now = self._context.state.snapshot(), self._context.clock.now()
        held_until = snapshot.launches_held.get(pool)
        if claim.metadata.uid in snapshot.dismissed or (
            held_until is not None and now < held_until
        ):
            return  # it was surplus, or failed together with one that is counted
        count = self._failures[pool] = self._failures.get(pool, 0) + 1
        if count > 1:
            seconds = _BACKOFF.after(count - 2)
            self._context.state.hold_launches(pool, later(now, in_seconds(seconds)))


class _StaticController(Controller):
    """Base of scaling up and down: which pools are static, and what enqueues them."""

    kind = NodePool

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pools = context.mirror(NodePool)
        self.follow(self._pools)
        self.follow(context.mirror(NodeClaim), _pool_keys)

    def _pool(self, name: str) -> NodePool | None:
        pool = self._pools.get(name)
        if pool is None or pool.spec.replicas is None or not is_served(self.context, pool):
            return None
        return pool if pool.metadata.deletion_timestamp is None else None

    def _count(self, pool: NodePool) -> StaticCount:
        return count_static(pool, self.context.state.snapshot(), now=self.clock.now())


class StaticProvisioning(_StaticController):
    """Creates claims for static pools that have too few."""

    name = "static.provisioning"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._creator = ClaimCreator(context, self.log)
        self._ends.append(FailedLaunches(context).end)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pool(key[1])
        if pool is None:
            return None
        if not self.context.mirrors.is_synced or not self._is_usable(pool):
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
        facts = self.context.cloud.facts
        try:
            await self._creator.create(pool, lambda name: static_claim_body(pool, facts, name))
        except NotCreatedError as error:
            name = pool.metadata.name
            self.context.decide(
                self.log.info,
                "creating nodeclaim",
                drafts.claim_not_created(name, str(error), is_limit=error.is_limit),
                NodePool={"name": name},
                error=str(error),
            )
            return False
        return True

    def _is_usable(self, pool: NodePool) -> bool:
        classes = self.context.state.snapshot().node_classes
        sorted_out = sort_out_pools([pool], classes, self.context.cloud.facts)
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
            if await self.context.delete(claim):
                self.context.decide(
                    self.log.info,
                    "deleting surplus nodeclaim",
                    drafts.surplus(claim),
                    NodePool={"name": key[1]},
                    NodeClaim={"name": claim.metadata.name},
                    reason="static pool has more nodes than replicas",
                )
            # Not counted any more, though its watch event has not arrived yet
            self.context.state.dismiss(claim)
            self.context.state.mark(claim.metadata.name)
        return _AGAIN

    def _surplus(self, pool: NodePool) -> tuple[str, ...]:
        (outcome,) = plan_static(
            [pool],
            self.context.state.snapshot(),
            now=self.clock.now(),
            deletion_cost_is_ours=self.context.settings.feature_gates["PodDeletionCostManagement"],
        )
        return outcome.delete

    def _claim_named(self, name: str) -> NodeClaim | None:
        """The claim of a machine, which may be known by its Node's name."""
        machine = self.context.state.snapshot().node(name)
        if machine is not None:
            return machine.node_claim
        return self.context.mirror(NodeClaim).get(name)


def _pool_keys(claim: NodeClaim) -> tuple[Key, ...]:
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    return (("", pool),) if pool else ()
