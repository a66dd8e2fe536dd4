"""Garbage collection, both ways: instances without a claim, and claims whose instance is gone.

An instance without a claim is terminated, so that no unknown capacity is paid for. It is kept while
it may belong to a claim: one that names it, or one that names no instance yet and is older than the
instance. The launch may have ended a moment ago, or in a process that died before it stored the
result; the next attempt finds the instance again. Such claims are launched or given up within
minutes, so no instance is kept for ever.

A claim whose instance is gone is deleted, so that its pods are planned again.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodeClaimStatus
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.cloud.provider import Instance, InstanceNotFoundError
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context, Loop
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.lifecycle.removal import GARBAGE_COLLECTED, Remover
from karpenter.controllers.lookup import nodes_of
from karpenter.controllers.mirrors import BY_PROVIDER_ID
from karpenter.model.conditions import READY, REGISTERED, is_true

_PERIOD: Final = 120.0
_FIRST_PERIOD: Final = 10.0
_FIRST_PASSES: Final = 20  # most leaks are found after a start
_YOUNG: Final = timedelta(seconds=30)
# Clock skew between clouds and API servers
_SKEW: Final = timedelta(minutes=1)
_AT_ONCE: Final = 20


class InstanceGarbageCollector(Loop):
    """Compares what the cloud has with the claims there are."""

    name = "instance.garbagecollection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._passes = 0
        self._first_seen: dict[str, datetime] = {}  # provider id -> when, of those without a claim

    async def step(self) -> float:
        """Terminate the instances that belong to no claim."""
        suspects = await self._suspects()
        if suspects:
            # Not the mirror: it may lag, and a termination cannot be undone
            claims = await self.context.kube.list(NodeClaim)
            ours = [claim for claim in claims if self.context.is_managed(claim)]
            await self._terminate_all(
                instance
                for instance, since in suspects
                if is_unclaimed(instance.provider_id, since, ours)
            )
        self._passes += 1
        return _FIRST_PERIOD if self._passes < _FIRST_PASSES else _PERIOD

    async def _suspects(self) -> list[tuple[Instance, datetime]]:
        """The instances no claim is known for, that are old enough, with their launch times."""
        known = self.context.mirror(NodeClaim)
        instances = [
            found
            for found in await self.context.cloud.list()
            if not found.is_deleting and not known.by_index(BY_PROVIDER_ID, found.provider_id)
        ]
        now = self.clock.now()
        self._first_seen = {
            found.provider_id: self._first_seen.get(found.provider_id, now) for found in instances
        }
        dated = [
            (found, found.created_at or self._first_seen[found.provider_id]) for found in instances
        ]
        return [(found, since) for found, since in dated if now - since >= _YOUNG]

    async def _terminate_all(self, instances: Iterable[Instance]) -> None:
        """Terminate instances; one that cannot be terminated is no reason to pay for the others."""
        errors: list[Exception] = []
        for instance in instances:
            try:
                await self._terminate(instance)
            except Exception as error:  # noqa: BLE001 the others must still be terminated
                errors.append(error)
        if errors:
            raise errors[0]

    async def _terminate(self, instance: Instance) -> None:
        with suppress(InstanceNotFoundError):  # it may be gone by now
            await self.context.cloud.delete(stand_in(instance))
        self.context.decide(
            self.log.info,
            "garbage collected cloudprovider instance",
            drafts.instance_collected(instance.provider_id, instance.labels),
            **{"provider-id": instance.provider_id},
        )
        for node in self.context.mirror(Node).by_index(BY_PROVIDER_ID, instance.provider_id):
            if node.metadata.deletion_timestamp is None:
                await self.context.delete(node)


def is_unclaimed(provider_id: str, since: datetime, claims: Iterable[NodeClaim]) -> bool:
    """Whether no claim names the instance, and no unlaunched claim can be the one it is for."""
    return not any(
        claim.status.provider_id == provider_id
        or (not claim.status.provider_id and _may_have_launched(claim, since))
        for claim in claims
    )


def stand_in(instance: Instance) -> NodeClaim:
    """A claim that names an instance, because providers delete instances by claim."""
    return NodeClaim(
        metadata=ObjectMeta(labels=instance.labels, annotations=instance.annotations),
        status=NodeClaimStatus(provider_id=instance.provider_id, image_id=instance.image_id),
    )


def _may_have_launched(claim: NodeClaim, since: datetime) -> bool:
    born = claim.metadata.creation_timestamp
    return born is None or born <= later(since, _SKEW)


class ClaimGarbageCollector(Loop):
    """Compares registered claims with what the cloud has."""

    name = "nodeclaim.garbagecollection"

    def __init__(self, context: Context, remover: Remover) -> None:
        super().__init__(context)
        self._remover = remover

    async def step(self) -> float:
        """Delete the claims of instances that no longer exist."""
        # Claims before instances: a claim launched during the call is not among those compared
        claims = [claim for claim in self.context.mirror(NodeClaim).list() if self._counts(claim)]
        if not claims:
            return _PERIOD
        instances = await self.context.cloud.list()
        present = {found.provider_id for found in instances if not found.is_deleting}
        lost = [c for c in claims if is_lost(c, nodes_of(self.context, c), present)]
        limit = asyncio.Semaphore(_AT_ONCE)
        outcomes = await asyncio.gather(
            *(self._collect(claim, limit) for claim in lost), return_exceptions=True
        )
        for error in outcomes:
            if error is not None:
                raise error  # the other claims have been deleted
        return _PERIOD

    def _counts(self, claim: NodeClaim) -> bool:
        is_registered = is_true(claim.status.conditions, REGISTERED)
        return is_registered and not is_deleting(claim) and self.context.is_managed(claim)

    async def _collect(self, claim: NodeClaim, limit: asyncio.Semaphore) -> None:
        async with limit:
            if await self._remover.remove(claim, GARBAGE_COLLECTED):
                self.context.decide(
                    self.log.info,
                    "garbage collecting nodeclaim with no cloudprovider representation",
                    drafts.instance_lost(claim),
                    NodeClaim={"name": claim.metadata.name},
                    **{"provider-id": claim.status.provider_id},
                )


def is_lost(claim: NodeClaim, nodes: Sequence[Node], present: Collection[str]) -> bool:
    """Whether the claim's instance is gone.

    The list of a cloud may lag; a Node that is Ready proves that the instance still runs.
    """
    if claim.status.provider_id in present:
        return False
    return len(nodes) != 1 or not is_true(nodes[0].status.conditions, READY)
