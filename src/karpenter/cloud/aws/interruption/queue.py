"""Acts on the notices of an SQS queue: nodes that will be lost are drained first.

A message is deleted once it has been acted on. If AWS or the API server refuse the action, the
message is delivered again after its visibility timeout of twenty seconds; so every action is
idempotent, and messages may arrive twice or out of order. A message that cannot be read, or whose
handling fails unexpectedly, is counted, logged and deleted, and the others are still acted on.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsError, AwsNotFoundError
from karpenter.cloud.aws.interruption import messages
from karpenter.cloud.aws.interruption.claims import ClaimDeletions
from karpenter.cloud.aws.interruption.messages import Message, MessageError
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.aws.types.unavailable import Place, UnavailableOfferings
from karpenter.kube.errors import KubeError
from karpenter.model import labels

# A NodePool with this annotation, set to "true", also acts on rebalance recommendations
ACT_ON_REBALANCE: Final = "karpenter.k8s.aws/act-on-rebalance-recommendation"
MOST_MESSAGES: Final = 10
VISIBILITY_SECONDS: Final = 20
LONG_POLL_SECONDS: Final = 20
_PAUSE: Final = 2.0  # between polls that do not wait themselves
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 60.0

log = structlog.get_logger(__name__)


class Queue:
    """An SQS queue."""

    def __init__(self, calls: Calls, name: str, *, wait_seconds: int = LONG_POLL_SECONDS) -> None:
        self.name: Final = name
        self.wait_seconds: Final = wait_seconds
        self._calls = calls
        self._url = ""

    async def receive(self) -> list[dict[str, Any]]:
        """The next messages, by long polling; none after its timeout."""
        answer = await self._calls.call(
            "sqs",
            "ReceiveMessage",
            QueueUrl=await self._address(),
            MaxNumberOfMessages=MOST_MESSAGES,
            VisibilityTimeout=VISIBILITY_SECONDS,
            WaitTimeSeconds=self.wait_seconds,
            AttributeNames=["SentTimestamp"],
        )
        found: list[dict[str, Any]] = answer.get("Messages") or []
        return found

    async def delete(self, message: Mapping[str, Any]) -> None:
        """Delete a message from the queue."""
        await self._calls.call(
            "sqs",
            "DeleteMessage",
            QueueUrl=await self._address(),
            ReceiptHandle=message["ReceiptHandle"],
        )

    async def _address(self) -> str:
        if not self._url:
            try:
                answer = await self._calls.call("sqs", "GetQueueUrl", QueueName=self.name)
            except AwsNotFoundError as error:
                raise AwsNotFoundError(
                    error.code,
                    f"there is no queue {self.name}; create it or correct INTERRUPTION_QUEUE",
                    error.operation,
                    service="sqs",
                ) from error
            self._url = str(answer["QueueUrl"])
        return self._url


class Interruption:
    """Follows a queue."""

    name: Final = "interruption"

    def __init__(
        self,
        queue: Queue,
        view: ClusterView,
        clock: Clock,
        claim_deletions: ClaimDeletions,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservations,
        metrics: AwsMetrics,
    ) -> None:
        self._queue = queue
        self._view = view
        self._clock = clock
        self._claim_deletions = claim_deletions
        self._unavailable = unavailable
        self._reservations = reservations
        self._metrics = metrics

    async def run(self) -> None:
        """Act on messages as they come, until cancelled."""
        await self._view.synced()
        failures = 0
        while True:
            try:
                handled = await self.step()
            except (AwsError, KubeError) as error:
                log.warning("interruption messages not handled", error=str(error))
                await self._clock.sleep(min(_FIRST_DELAY * 2.0**failures, _LONGEST_DELAY))
                failures += 1
                continue
            failures = 0
            if not handled and not self._queue.wait_seconds:
                await self._clock.sleep(_PAUSE)

    async def step(self) -> int:
        """Act on the next messages; return how many there were.

        Raises:
            AwsError, KubeError: acting on one of them failed; the others have been acted on.
        """
        received = await self._queue.receive()
        results = await asyncio.gather(
            *(self._handle(each) for each in received), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return len(received)

    async def _handle(self, received: Mapping[str, Any]) -> None:
        try:
            await self._take(received)
        except (AwsError, KubeError):
            raise
        except Exception as error:
            is_foreseen = isinstance(error, MessageError)
            log.warning(
                "interruption message not understood",
                message_id=str(received.get("MessageId", "")),
                error=str(error) if is_foreseen else f"{type(error).__name__}: {error}",
                exc_info=None if is_foreseen else error,
            )
            self._metrics.failed_messages.inc()
        await self._delete(received)

    async def _take(self, received: Mapping[str, Any]) -> None:
        message = messages.parse(received.get("Body") or "")
        self._metrics.received_messages.labels(message.kind).inc()
        await self._act(message)
        if message.time is not None:
            age = (self._clock.now() - message.time).total_seconds()
            self._metrics.message_age.observe(max(0.0, age))

    async def _delete(self, received: Mapping[str, Any]) -> None:
        await self._queue.delete(received)
        self._metrics.deleted_messages.inc()

    async def _act(self, message: Message) -> None:
        if message.kind == messages.NO_OP:
            return
        for instance_id in message.instance_ids:
            for claim in self._view.claims_of_instance(instance_id):
                await self._act_on(claim, message.kind)

    async def _act_on(self, claim: NodeClaim, kind: str) -> None:
        self._claim_deletions.announce(claim, kind, log.info)
        held = claim.metadata.labels
        if kind == messages.SPOT_INTERRUPTED:
            place = (held.get(labels.INSTANCE_TYPE, ""), held.get(labels.ZONE, ""))
            if all(place):
                self._unavailable.mark(Place(*place, labels.SPOT))
        elif kind == messages.CAPACITY_RESERVATION_INTERRUPTED:
            reservation = held.get(ec2_labels.CAPACITY_RESERVATION_ID, "")
            if reservation:
                self._reservations.exhaust(reservation)
        if kind != messages.REBALANCE_RECOMMENDATION or self._acts_on_rebalance(claim):
            await self._claim_deletions.remove(claim, kind)

    def _acts_on_rebalance(self, claim: NodeClaim) -> bool:
        pool = self._view.pools.get(claim.metadata.labels.get(labels.NODEPOOL, ""))
        return pool is not None and pool.metadata.annotations.get(ACT_ON_REBALANCE) == "true"
