"""Claims that have to go because of what AWS does: told to users, counted, deleted once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.cloud.aws.identity import instance_id_of
from karpenter.cloud.aws.view import ClusterView
from karpenter.kube.errors import NotFoundError
from karpenter.kube.events import NORMAL, WARNING, Event, Recorder
from karpenter.model import labels
from karpenter.model.conditions import moment_of, timestamp

TERMINATING: Final = "TerminatingOnInterruption"
CountDisrupted = Callable[[NodeClaim, str], None]  # claim and reason, as the metric has it


@dataclass(frozen=True, slots=True)
class Notice:
    """What users are told before anything is done."""

    reason: str
    message: str
    type: str = WARNING


NOTICES: Final = {
    "spot_interrupted": Notice("SpotInterrupted", "EC2 takes this spot instance back in 2 minutes"),
    "rebalance_recommendation": Notice(
        "SpotRebalanceRecommendation",
        "EC2 sees a higher risk of taking this spot instance back",
        NORMAL,
    ),
    "instance_stopped": Notice("InstanceStopping", "the instance is being stopped"),
    "instance_terminated": Notice("InstanceTerminating", "the instance is being terminated"),
    "scheduled_change": Notice("InstanceUnhealthy", "AWS has announced a change to the instance"),
    "capacity_reservation_interrupted": Notice(
        "CapacityReservationInstanceInterrupted",
        "the owner of the capacity reservation takes this instance back",
    ),
    "instance_status": Notice("InstanceUnhealthy", "the instance fails its status check"),
    "system_status": Notice("InstanceUnhealthy", "the host of the instance fails its status check"),
    "event_status": Notice("InstanceUnhealthy", "EC2 has scheduled an event for the instance"),
}


class Departures:
    """Makes claims go."""

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        recorder: Recorder,
        count: CountDisrupted | None = None,
    ) -> None:
        self._view = view
        self._clock = clock
        self._recorder = recorder
        self._count = count
        self._gone: dict[str, None] = {}  # uids of claims this process has deleted

    def tell(self, claim: NodeClaim, kind: str) -> None:
        """Say what happens to an instance, on its claim and its node."""
        notice = NOTICES[kind]
        self._publish(claim, notice.type, notice.reason, notice.message)

    async def remove(self, claim: NodeClaim, kind: str, *, forceful: bool = False) -> None:
        """Delete a claim that is not going yet.

        ``forceful`` means that nobody is waited for from now on, not even where the claim was
        going already: a host that is dead cannot drain.
        """
        metadata = claim.metadata
        try:
            if forceful:
                await self._end_waiting(claim)
            if metadata.deletion_timestamp is not None or metadata.uid in self._gone:
                return
            await self._view.kube.delete(NodeClaim, metadata.name, uid=metadata.uid)
        except NotFoundError:
            return
        self._remember(metadata.uid)
        self._publish(claim, WARNING, TERMINATING, "the node is replaced because its instance goes")
        if self._count is not None:
            self._count(claim, kind)

    async def _end_waiting(self, claim: NodeClaim) -> None:
        """Let the deadline of a claim be now, unless it has passed already."""
        now = self._clock.now()
        known = moment_of(claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, ""))
        if known is not None and known <= now:
            return
        body = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: timestamp(now)}}}
        self._view.claims.put(await self._view.kube.patch(NodeClaim, claim.metadata.name, body))

    def _publish(self, claim: NodeClaim, type_: str, reason: str, message: str) -> None:
        targets: list[Resource] = [claim, *self._nodes(claim)]
        for target in targets:
            self._recorder.publish(
                Event(target, type_, reason, message, dedupe=(target.metadata.name,))
            )

    def _nodes(self, claim: NodeClaim) -> list[Node]:
        return self._view.nodes_of_instance(instance_id_of(claim.status.provider_id))

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > 10_000:
            del self._gone[next(iter(self._gone))]
