"""Finalizing a deleted claim: it is released once its nodes and its instance are gone.

The cloud is polled until the instance is gone, at a limited rate.
"""

from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import STATUS, Context
from karpenter.controllers.lookup import nodes_of
from karpenter.controllers.termination import events
from karpenter.controllers.termination.deadline import first_deadline
from karpenter.kube.errors import NotFoundError
from karpenter.model import labels
from karpenter.model.conditions import (
    INSTANCE_TERMINATING,
    REGISTERED,
    TRUE,
    find,
    is_true,
    to_wire,
    with_condition,
)

_POLL_SECONDS: Final = 5.0
# Tolerance for rounding: sums of seconds are not exact
_INSTANT: Final = 0.001


class ClaimFinalizer:
    """Finalizes deleted claims: deadline, nodes, instance, and the finalizer last."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._log = context.log.bind(controller="nodeclaim.lifecycle")
        self._instances = Instances(context)

    async def finalize(self, claim: NodeClaim) -> float | None:
        """Take one step towards the end of a claim that is being deleted.

        Returns:
            Seconds until the next reconcile; None when nothing is to be done, or when a change of
            one of the claim's nodes triggers it.
        """
        if labels.TERMINATION not in claim.metadata.finalizers:
            return None
        if claim.metadata.deletion_timestamp is None:
            return None
        claim = await self._with_deadline(claim)
        if is_true(claim.status.conditions, REGISTERED) and await self._has_nodes(claim):
            return None
        if claim.status.provider_id:
            wait = await self._instances.end(claim)
            claim = await self._with_machine_ending(claim)
            if wait is not None:
                return wait
        await self._release(claim)
        return None

    async def _with_deadline(self, claim: NodeClaim) -> NodeClaim:
        deadline = first_deadline(claim)
        if deadline is None:
            return claim
        annotations = {labels.TERMINATION_TIMESTAMP: deadline}
        claim = await self._context.patch(
            claim, {"metadata": {"annotations": annotations}}, locked=True
        )
        self._context.recorder.publish(events.expiring(claim, deadline))
        self._log.info(
            "annotated nodeclaim",
            NodeClaim={"name": claim.metadata.name},
            **{labels.TERMINATION_TIMESTAMP: deadline},
        )
        return claim

    async def _has_nodes(self, claim: NodeClaim) -> bool:
        """Delete the nodes of the claim; return whether any still exists."""
        remaining = False
        for node in nodes_of(self._context, claim):
            if node.metadata.deletion_timestamp is not None or await self._context.delete(node):
                remaining = True
        return remaining

    async def _with_machine_ending(self, claim: NodeClaim) -> NodeClaim:
        conditions = with_condition(
            claim.status.conditions,
            INSTANCE_TERMINATING,
            TRUE,
            now=self._context.clock.now(),
            generation=claim.metadata.generation,
        )
        if conditions == claim.status.conditions:
            return claim
        body = {"status": {"conditions": to_wire(conditions)}}
        return await self._context.patch(claim, body, locked=True, subresource=STATUS)

    async def _release(self, claim: NodeClaim) -> None:
        kept = [name for name in claim.metadata.finalizers if name != labels.TERMINATION]
        try:
            await self._context.patch(claim, {"metadata": {"finalizers": kept}}, locked=True)
        except NotFoundError:
            return
        self._count(claim)
        self._context.decide(
            self._log.info,
            "deleted nodeclaim",
            drafts.claim_gone(claim, self._context.command_of(claim)),
            NodeClaim={"name": claim.metadata.name},
            Node={"name": claim.status.node_name},
            **{"provider-id": claim.status.provider_id},
        )

    def _count(self, claim: NodeClaim) -> None:
        metrics, carried = self._context.metrics, claim.metadata.labels
        pool = carried.get(labels.NODEPOOL, "")
        now = self._context.clock.now()
        metrics.nodeclaims_terminated_total.labels(
            nodepool=pool,
            capacity_type=carried.get(labels.CAPACITY_TYPE, ""),
            zone=carried.get(labels.ZONE, ""),
        ).inc()
        ending = find(claim.status.conditions, INSTANCE_TERMINATING)
        if ending is not None and ending.last_transition_time is not None:
            metrics.nodeclaims_instance_termination_duration_seconds.labels(nodepool=pool).observe(
                (now - ending.last_transition_time).total_seconds()
            )
        if claim.metadata.deletion_timestamp is not None:
            metrics.nodeclaims_termination_duration_seconds.labels(nodepool=pool).observe(
                (now - claim.metadata.deletion_timestamp).total_seconds()
            )


class Instances:
    """Terminates the instances of claims.

    The cloud is called for one instance at most every five seconds, however often its claim
    is reconciled.
    """

    def __init__(self, context: Context) -> None:
        self._cloud = context.cloud
        self._clock = context.clock
        self._next_question: dict[
            str, float
        ] = {}  # uid of a claim -> when the cloud may be called again

    async def end(self, claim: NodeClaim) -> float | None:
        """Request the termination of an instance.

        Returns:
            Seconds until the next call; None when the instance is gone.
        """
        now = self._clock.monotonic()
        uid = claim.metadata.uid
        due = self._next_question.get(uid, now)
        if due - now > _INSTANT:
            return due - now
        try:
            await self._cloud.delete(claim)
        except InstanceNotFoundError:
            self._next_question.pop(uid, None)
            return None
        now = self._clock.monotonic()
        # Drops claims whose finalizer was removed elsewhere: they are never polled again
        current = {key: due for key, due in self._next_question.items() if due > now}
        self._next_question = {**current, uid: now + _POLL_SECONDS}
        return _POLL_SECONDS
