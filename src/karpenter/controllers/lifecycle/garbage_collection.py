"""Instances without a claim are terminated, so that nothing is paid for that nobody knows of.

An instance is left alone while it may belong to somebody: a claim that names it, or a claim that
names no instance yet and was there before the instance was. Its launch may have ended a moment
ago, or in a process that died before it could write that down; the next try finds the instance
again. Such claims are launched or given up within minutes, so nothing is kept for ever.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodeClaimStatus
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.cloud.provider import Instance, InstanceNotFoundError
from karpenter.controllers.mirrors import BY_PROVIDER_ID
from karpenter.controllers.runtime import Loop
from karpenter.controllers.world import World

_PERIOD: Final = 120.0
_FIRST_PERIOD: Final = 10.0
_FIRST_PASSES: Final = 20  # after a start there is most to find
_YOUNG: Final = timedelta(seconds=30)
# Clouds and API servers have clocks of their own
_SKEW: Final = timedelta(minutes=1)


class InstanceGarbageCollector(Loop):
    """Compares what the cloud has with the claims there are."""

    name = "instance.garbagecollection"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._passes = 0
        self._first_seen: dict[str, datetime] = {}  # provider id -> when, of those without a claim

    async def step(self) -> float:
        """Terminate the instances that belong to nobody."""
        suspects = await self._suspects()
        if suspects:
            # Not the mirror: it may be a moment behind, and what is terminated is gone
            claims = await self.world.kube.list(NodeClaim)
            ours = [claim for claim in claims if self.world.is_managed(claim)]
            await self._terminate_all(
                instance
                for instance, since in suspects
                if belongs_to_nobody(instance.provider_id, since, ours)
            )
        self._passes += 1
        return _FIRST_PERIOD if self._passes < _FIRST_PASSES else _PERIOD

    async def _suspects(self) -> list[tuple[Instance, datetime]]:
        """The instances no claim is known for, that are old enough, with their birthdays."""
        known = self.world.mirror(NodeClaim)
        instances = [
            found
            for found in await self.world.cloud.list()
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
            except Exception as error:  # noqa: BLE001 the others are to go all the same
                errors.append(error)
        if errors:
            raise errors[0]

    async def _terminate(self, instance: Instance) -> None:
        with suppress(InstanceNotFoundError):  # it may be gone by now
            await self.world.cloud.delete(stand_in(instance))
        self.log.info(
            "garbage collected cloudprovider instance",
            **{"provider-id": instance.provider_id},
        )
        for node in self.world.mirror(Node).by_index(BY_PROVIDER_ID, instance.provider_id):
            if node.metadata.deletion_timestamp is None:
                await self.world.delete(node)


def belongs_to_nobody(provider_id: str, since: datetime, claims: Iterable[NodeClaim]) -> bool:
    """Whether no claim has the instance, and none can turn out to have it."""
    return not any(
        claim.status.provider_id == provider_id
        or (not claim.status.provider_id and _may_have_launched(claim, since))
        for claim in claims
    )


def stand_in(instance: Instance) -> NodeClaim:
    """A claim that names an instance, for a provider to delete it by."""
    return NodeClaim(
        metadata=ObjectMeta(labels=instance.labels, annotations=instance.annotations),
        status=NodeClaimStatus(provider_id=instance.provider_id, image_id=instance.image_id),
    )


def _may_have_launched(claim: NodeClaim, since: datetime) -> bool:
    born = claim.metadata.creation_timestamp
    return born is None or born <= later(since, _SKEW)
