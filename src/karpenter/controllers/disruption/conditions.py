"""The conditions disruption starts from, written on each claim: ``Drifted`` and ``Consolidatable``.

The rules are pure and live in ``karpenter.disruption``. This controller applies them whenever a
claim, its pool or its node class changes, every five minutes, and the moment a claim has been quiet
for the pool's ``consolidateAfter``. Pods that come or go change the claim too: its status holds the
time of the last pod event.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.api.node_classes import NodeClass
from karpenter.api.pods import Pod
from karpenter.cloud.provider import CloudError, InstanceNotFoundError
from karpenter.cloud.types import InstanceType
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.disruption.ineffective_moves import IneffectiveMoves
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.mirrors import BY_NODE, BY_POOL
from karpenter.controllers.node_pools.managed import node_class_mirrors
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.disruption.claim_conditions import (
    Consolidatable,
    drift_reason,
    is_old_enough,
    is_on_sale,
    patience,
)
from karpenter.disruption.costs import price_of
from karpenter.kube.mirror import Key, key_of
from karpenter.model import labels
from karpenter.model.conditions import (
    CONSOLIDATABLE,
    DRIFTED,
    INITIALIZED,
    LAUNCHED,
    TRUE,
    Conditions,
    is_true,
    to_wire,
    with_condition,
    without,
)
from karpenter.runtime import REASONABLE
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.nodes import StateNode

_AGAIN: Final = 300.0
# How long a type that was found in the catalogue is not looked up again
_FOUND_FOR: Final = timedelta(minutes=30)


class ClaimConditions(Controller):
    """Keeps the conditions ``Drifted`` and ``Consolidatable`` of every claim."""

    name = "nodeclaim.disruption"
    kind = NodeClaim
    backoff = REASONABLE

    def __init__(
        self,
        context: Context,
        planned: PlannedPods | None = None,
        ineffective: IneffectiveMoves | None = None,
    ) -> None:
        super().__init__(context)
        self._planned = planned or PlannedPods()
        self._ineffective = ineffective or IneffectiveMoves(context.clock)
        self._claims = context.mirror(NodeClaim)
        self._pools = context.mirror(NodePool)
        self._found: dict[str, datetime] = {}  # claim uid -> when its type was last found
        self.follow(self._claims)
        self._ends.append(self._claims.on_change(self._forget))
        self._ends.append(self._pools.on_change(self._pool_changed))
        for mirror in node_class_mirrors(context):
            self._ends.append(mirror.on_change(self._class_changed))

    async def reconcile(self, key: Key) -> float | None:
        """Bring the conditions of one claim up to date."""
        claim = self._claims.get(key[1])
        if claim is None or is_deleting(claim) or not self.context.is_managed(claim):
            return None
        pool = self._pools.get(claim.metadata.labels.get(labels.NODEPOOL, ""))
        if pool is None:
            return None
        drift = await self._drift(claim, pool)
        claim = self._claims.get(key[1]) or claim  # it may have changed during the cloud's call
        held_until = await self._held_until(claim, pool)
        claim = self._claims.get(key[1]) or claim
        now = self.clock.now()
        held, wait = at_rest(
            claim, pool, drifted(claim, drift, now=now), now=now, held_until=held_until
        )
        if held != claim.status.conditions:
            body = {"status": {"conditions": to_wire(held)}}
            await self.context.patch(claim, body, locked=True, subresource=STATUS)
        return _AGAIN if wait is None else min(_AGAIN, wait)

    async def _held_until(self, claim: NodeClaim, pool: NodePool) -> datetime | None:
        """Until when a claim is excluded because the consolidation that led to it saved nothing."""
        expected, price = self._planned.pods_of(claim.metadata.name), None
        if self._ineffective.needs_price(claim, expected):
            price = await self._price(claim, pool)
        self._ineffective.judge(claim, expected, price)
        until = self._ineffective.held_until(claim)
        if until is None:
            return None
        pods = self.context.mirror(Pod).by_index(BY_NODE, claim.status.node_name)
        # Deleting an empty machine moves no pods, so the back-off does not apply to it
        return until if any(map(is_reschedulable, pods)) else None

    async def _price(self, claim: NodeClaim, pool: NodePool) -> float | None:
        """What a claim costs an hour; None until it has launched, or when its price is not known."""
        if not is_true(claim.status.conditions, LAUNCHED):
            return None
        try:
            listed = await self.context.cloud.instance_types(pool)
        except CloudError:
            return None
        return price_of(StateNode(None, claim), {kind.name: kind for kind in listed})

    async def _drift(self, claim: NodeClaim, pool: NodePool) -> str:
        if not is_true(claim.status.conditions, LAUNCHED):
            return ""
        now = self.clock.now()
        static = drift_reason(claim, pool, {}, now=now, is_type_known=True)
        if static:
            return static
        types = await self._types(claim, pool)
        if types is not None:
            stale = drift_reason(claim, pool, types, now=now)
            if stale:
                return stale
            if is_on_sale(claim, types):
                self._found[claim.metadata.uid] = now
        try:
            return await self.context.cloud.drift_reason(claim)
        except InstanceNotFoundError:
            return ""

    async def _types(self, claim: NodeClaim, pool: NodePool) -> dict[str, InstanceType] | None:
        """The types of a pool; None while the claim's type need not be looked up again."""
        now = self.clock.now()
        seen = self._found.get(claim.metadata.uid)
        if not is_old_enough(claim, now=now) or (seen is not None and now - seen < _FOUND_FOR):
            return None
        try:
            listed = await self.context.cloud.instance_types(pool)
        except CloudError:
            return None
        # An empty catalogue is an error of the list, not drift of the claim
        return {kind.name: kind for kind in listed} if listed else None

    def _pool_changed(self, old: NodePool | None, new: NodePool | None) -> None:
        pool = new or old
        if pool is None or (old is not None and new is not None and not _is_news(old, new)):
            return
        self._enqueue(self._claims.by_index(BY_POOL, pool.metadata.name))

    def _class_changed(self, old: NodeClass | None, new: NodeClass | None) -> None:
        changed = new or old
        if changed is None or (
            old is not None and new is not None and not _is_class_news(old, new)
        ):
            return
        group = changed.api_version.partition("/")[0]
        wanted = (group, changed.kind, changed.metadata.name)
        references = ((claim, claim.spec.node_class_ref) for claim in self._claims.list())
        self._enqueue(
            claim for claim, ref in references if wanted == (ref.group, ref.kind, ref.name)
        )

    def _enqueue(self, claims: Iterable[NodeClaim]) -> None:
        for claim in claims:
            self.queue.add(key_of(claim))

    def _forget(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is None and old is not None:
            self._found.pop(old.metadata.uid, None)
            self._ineffective.forget(old)


def drifted(claim: NodeClaim, reason: str, *, now: datetime) -> Conditions:
    """The conditions of a claim that has drifted for a reason, or has not."""
    held = claim.status.conditions
    if not reason:
        return without(held, DRIFTED)
    generation = claim.metadata.generation
    return with_condition(held, DRIFTED, TRUE, reason, reason, now=now, generation=generation)


def at_rest(
    claim: NodeClaim,
    pool: NodePool,
    held: Conditions,
    *,
    now: datetime,
    held_until: datetime | None = None,
) -> tuple[Conditions, float | None]:
    """The conditions with ``Consolidatable`` set or removed, and seconds until it will be set."""
    wait = patience(
        claim, pool, now=now, is_initialized=is_true(claim.status.conditions, INITIALIZED)
    )
    if wait is None:
        return without(held, CONSOLIDATABLE), None
    if wait.is_over and held_until is not None and now < held_until:
        wait = Consolidatable(is_over=False, until=held_until)
    if wait.is_over:
        generation = claim.metadata.generation
        return with_condition(held, CONSOLIDATABLE, TRUE, now=now, generation=generation), None
    seconds = (wait.until - now).total_seconds() if wait.until is not None else None
    return without(held, CONSOLIDATABLE), seconds


def _is_class_news(old: NodeClass, new: NodeClass) -> bool:
    """Whether a class changed; a change of status counts, since a newer image is found there."""
    return _is_news(old, new) or old.status != new.status


def _is_news(old: Resource, new: Resource) -> bool:
    """Whether more than the status has changed."""
    before, after = old.metadata, new.metadata
    return (before.generation, before.annotations, before.uid) != (
        after.generation,
        after.annotations,
        after.uid,
    )
