"""Whether machines of a pool become nodes: the last registrations, summed up in a status condition.

The record is kept in memory. A process that starts without one derives it from the condition: a
healthy pool has had one success, an unhealthy one two failures. When a pool or its node class
changes, its record is cleared, because earlier failures are unrelated to the new specification.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.node_pools.managed import is_served, node_class_mirrors
from karpenter.controllers.node_pools.readiness import write_conditions
from karpenter.kube.errors import ConflictError
from karpenter.kube.mirror import Key, key_of
from karpenter.model import labels
from karpenter.model.conditions import (
    AWAITING,
    FALSE,
    NODE_REGISTRATION_HEALTHY,
    TRUE,
    UNKNOWN,
    find,
    status_of,
    with_condition,
)

REGISTRATION_FAILED: Final = "RegistrationFailed"

_REMEMBERED: Final = 4
_TOO_MANY_FAILURES: Final = 2
_ATTEMPTS: Final = 5


@dataclass(slots=True)
class _Record:
    """The last outcomes of one pool as it was at some generation."""

    generations: tuple[int, int]
    outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


def is_unhealthy(outcomes: tuple[bool, ...]) -> bool:
    """Whether too many of the last registrations failed."""
    return outcomes[-_REMEMBERED:].count(False) >= _TOO_MANY_FAILURES


class RegistrationHealth:
    """Keeps the record, and writes down when a pool becomes healthy or unhealthy."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pools = context.mirror(NodePool)
        self._records: dict[str, _Record] = {}  # by pool uid

    async def succeeded(self, claim: NodeClaim) -> None:
        """Note that a node of the claim's pool has registered."""
        await self._note(claim, True, "", "")

    async def failed(self, claim: NodeClaim, reason: str, message: str) -> None:
        """Note that a claim of the pool was given up before its node registered."""
        await self._note(claim, False, reason or REGISTRATION_FAILED, message)

    async def _note(self, claim: NodeClaim, outcome: bool, reason: str, message: str) -> None:
        pool = self._pool_of(claim)
        if pool is None:
            return
        record = self._record_of(pool)
        record.outcomes.append(outcome)
        unhealthy = is_unhealthy(tuple(record.outcomes))
        if outcome and not unhealthy:
            await self._write(pool, TRUE, "", "")
        elif not outcome and unhealthy:
            await self._write(pool, FALSE, reason, message)

    def _pool_of(self, claim: NodeClaim) -> NodePool | None:
        """The pool that owns the claim by uid; not a later one of the same name."""
        pool = self._pools.get(claim.metadata.labels.get(labels.NODEPOOL, ""))
        if pool is None:
            return None
        made_by = {owner.uid for owner in claim.metadata.owner_references}
        return pool if pool.metadata.uid in made_by else None

    def _record_of(self, pool: NodePool) -> _Record:
        generations = (pool.metadata.generation, pool.status.node_class_observed_generation)
        known = self._records.get(pool.metadata.uid)
        if known is not None and known.generations == generations:
            return known
        record = self._records[pool.metadata.uid] = _Record(generations)
        condition = find(pool.status.conditions, NODE_REGISTRATION_HEALTHY)
        if condition is not None and condition.observed_generation == pool.metadata.generation:
            record.outcomes.extend({TRUE: (True,), FALSE: (False, False)}.get(condition.status, ()))
        return record

    async def _write(self, pool: NodePool, status: str, reason: str, message: str) -> None:
        """Set the condition if it differs; retry on conflict, since others write to pools too."""
        for _ in range(_ATTEMPTS):
            if status_of(pool.status.conditions, NODE_REGISTRATION_HEALTHY) == status:
                return
            conditions = with_condition(
                pool.status.conditions,
                NODE_REGISTRATION_HEALTHY,
                status,
                reason,
                message,
                now=self._context.clock.now(),
                generation=pool.metadata.generation,
            )
            try:
                await write_conditions(self._context, pool, conditions)
            except ConflictError:
                pool = await self._context.kube.get(NodePool, pool.metadata.name)
                self._context.mirrors.absorb(pool)
            else:
                return


class RegistrationHealthController(Controller):
    """Clears the record of a pool when the generation of the pool or its node class changes."""

    name = "nodepool.registrationhealth"
    kind = NodePool

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pools = context.mirror(NodePool)
        self.follow(self._pools)
        for mirror in node_class_mirrors(context):
            self.follow(mirror, lambda _: [key_of(pool) for pool in self._pools.list()])

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.context, pool):
            return None
        reference = pool.spec.template.spec.node_class_ref
        node_class = self.context.state.snapshot().node_classes.get(reference)
        if node_class is None:
            return None
        generation = pool.metadata.generation
        known = find(pool.status.conditions, NODE_REGISTRATION_HEALTHY)
        seen = pool.status.node_class_observed_generation
        is_current = known is not None and known.observed_generation == generation
        if is_current and seen == node_class.metadata.generation:
            return None
        conditions = with_condition(
            pool.status.conditions,
            NODE_REGISTRATION_HEALTHY,
            UNKNOWN,
            AWAITING,
            "no node has registered since the pool or its node class changed",
            now=self.clock.now(),
            generation=generation,
        )
        await write_conditions(
            self.context,
            pool,
            conditions,
            nodeClassObservedGeneration=node_class.metadata.generation,
        )
        return None
