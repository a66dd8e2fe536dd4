"""Watches capacity reservations: blocks that end, and instances that outlive their reservation."""

import asyncio
from typing import Any, Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.nodes import Node
from karpenter.api.times import earlier
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.cloud.aws.instances.instances import Instances
from karpenter.cloud.aws.interruption.claims import ClaimDeletions
from karpenter.cloud.aws.types.reservations import CAPACITY_BLOCK, ENDS_EARLY
from karpenter.kube.errors import NotFoundError
from karpenter.model import labels
from karpenter.telemetry import Metrics

PERIOD: Final = 60.0
_AT_ONCE: Final = 10
EXPIRED: Final = "capacity_block_expired"

log = structlog.get_logger(__name__)


class BlockExpiration(Rounds):
    """Deletes claims before EC2 ends their capacity block."""

    name = "capacityreservation.expiration"

    def __init__(
        self, clock: Clock, metrics: Metrics, view: ClusterView, claim_deletions: ClaimDeletions
    ) -> None:
        super().__init__(clock, metrics)
        self._view = view
        self._claim_deletions = claim_deletions

    async def step(self) -> float:
        """Delete the claims whose block is about to end."""
        await self._view.synced()
        due = self._ending()
        claims = [
            claim
            for claim in self._view.claims.list()
            if claim.metadata.deletion_timestamp is None
            and claim.metadata.labels.get(ec2_labels.CAPACITY_RESERVATION_ID) in due
        ]
        for start in range(0, len(claims), _AT_ONCE):
            await asyncio.gather(
                *(
                    self._claim_deletions.remove(c, EXPIRED)
                    for c in claims[start : start + _AT_ONCE]
                )
            )
        return PERIOD

    def _ending(self) -> set[str]:
        now = self.clock.now()
        return {
            reservation.id
            for node_class in self._view.node_classes.list()
            for reservation in node_class.status.capacity_reservations
            if reservation.reservation_type == CAPACITY_BLOCK
            and reservation.end_time is not None
            and now >= earlier(reservation.end_time, ENDS_EARLY)
        }


class CapacityTypeWatch(Rounds):
    """Notices instances that were launched into a reservation and are now on demand."""

    name = "capacityreservation.capacitytype"

    def __init__(
        self, clock: Clock, metrics: Metrics, view: ClusterView, instances: Instances
    ) -> None:
        super().__init__(clock, metrics)
        self._view = view
        self._instances = instances

    async def step(self) -> float:
        """Relabel what is not reserved any more."""
        await self._view.synced()
        claims = [
            claim
            for claim in self._view.claims.list()
            if claim.metadata.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED
            and claim.metadata.deletion_timestamp is None
        ]
        for claim in claims:
            record = self._instances.known(instance_id_of(claim.status.provider_id))
            if record is not None and record.capacity_type == labels.ON_DEMAND:
                await self._relabel(claim)
        return PERIOD

    async def _relabel(self, claim: NodeClaim) -> None:
        body: dict[str, Any] = {
            "metadata": {
                "labels": {
                    labels.CAPACITY_TYPE: labels.ON_DEMAND,
                    ec2_labels.CAPACITY_RESERVATION_ID: None,
                    ec2_labels.CAPACITY_RESERVATION_TYPE: None,
                    ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE: None,
                }
            }
        }
        kube = self._view.kube
        try:
            if claim.status.node_name:
                await kube.patch(Node, claim.status.node_name, body)
            # the claim last: until it is relabelled, the next round tries again
            self._view.claims.put(await kube.patch(NodeClaim, claim.metadata.name, body))
        except NotFoundError:
            return
        log.info("reserved instance is on demand now", NodeClaim={"name": claim.metadata.name})
