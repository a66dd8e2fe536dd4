"""Deletes the claims of interrupted instances: publishes events, counts, deletes once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.decision_log.log import DecisionLog, Say
from karpenter.decision_log.record import Draft, Kind, Outcome, Severity
from karpenter.kube.errors import NotFoundError
from karpenter.kube.events import NORMAL, WARNING, Event, Recorder
from karpenter.model import labels
from karpenter.model.conditions import moment_of, timestamp

TERMINATING: Final = "TerminatingOnInterruption"
CountDisrupted = Callable[[NodeClaim, str], None]  # claim and reason, as the metric has it


@dataclass(frozen=True, slots=True)
class Notice:
    """The event that is published before anything is done."""

    reason: str
    message: str
    type: str = WARNING


def _unhealthy(why: str) -> Notice:
    said = "An unhealthy warning was triggered for the instance"
    return Notice("InstanceUnhealthy", f"{said}: {why}")


NOTICES: Final = {
    "spot_interrupted": Notice("SpotInterrupted", "Spot interruption warning was triggered"),
    "rebalance_recommendation": Notice(
        "SpotRebalanceRecommendation",
        "Spot rebalance recommendation was triggered",
        NORMAL,
    ),
    "instance_stopped": Notice("InstanceStopping", "Instance is stopping"),
    "instance_terminated": Notice("InstanceTerminating", "Instance is terminating"),
    "scheduled_change": _unhealthy("AWS has announced a change to it"),
    "capacity_reservation_interrupted": Notice(
        "CapacityReservationInstanceInterrupted",
        "the owner of the capacity reservation takes this instance back",
    ),
    "instance_status": _unhealthy("it fails its status check"),
    "system_status": _unhealthy("its host fails its status check"),
    "event_status": _unhealthy("EC2 has scheduled an event for it"),
}


def _say_nothing(message: str, **facts: object) -> None:
    """Write no line."""


class ClaimDeletions:
    """Deletes claims."""

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        recorder: Recorder,
        decisions: DecisionLog,
        count: CountDisrupted | None = None,
    ) -> None:
        self._view = view
        self._clock = clock
        self._recorder = recorder
        self._decisions = decisions
        self._count = count
        self._gone: dict[str, None] = {}  # uids of claims this process has deleted

    def announce(self, claim: NodeClaim, kind: str, say: Say = _say_nothing) -> None:
        """Record a notice with a log line, and publish it on the claim and its node."""
        notice = NOTICES[kind]
        name = {"name": claim.metadata.name}
        self._decisions.decide(
            self._clock.now(),
            say,
            "interrupted",
            self._draft(claim, notice),
            NodeClaim=name,
            kind=kind,
        )
        for target in self._targets(claim):
            self._publish(target, notice.type, notice.reason, notice.message)

    def _draft(self, claim: NodeClaim, notice: Notice) -> Draft:
        metadata, pool = claim.metadata, claim.metadata.labels.get(labels.NODEPOOL, "")
        return Draft(
            Kind.INTERRUPT,
            Outcome.BEGUN,
            notice.reason,
            f"{metadata.name}: {notice.message}",
            objects=tuple(f"{each.kind}/{each.metadata.name}" for each in self._targets(claim)),
            node_pools=(pool,) if pool else (),
            severity=Severity.WARNING if notice.type == WARNING else Severity.INFO,
            detail={
                key: metadata.labels.get(label, "")
                for key, label in (
                    ("instanceType", labels.INSTANCE_TYPE),
                    ("zone", labels.ZONE),
                    ("capacityType", labels.CAPACITY_TYPE),
                )
            },
            # SQS may deliver a message to two leaders; both must give the record the same id
            identity=(metadata.uid,) if metadata.uid else (),
        )

    async def remove(self, claim: NodeClaim, kind: str, *, forceful: bool = False) -> None:
        """Delete a claim that is not being deleted yet.

        ``forceful`` ends the drain now, even of a claim that is already being deleted: a dead host
        cannot drain.
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
        for target in self._targets(claim):
            message = f"Interruption triggered termination for the {target.kind}"
            self._publish(target, WARNING, TERMINATING, message)
        if self._count is not None:
            self._count(claim, kind)

    async def _end_waiting(self, claim: NodeClaim) -> None:
        """Set the termination deadline of a claim to now, unless it has passed already."""
        now = self._clock.now()
        known = moment_of(claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, ""))
        if known is not None and known <= now:
            return
        body = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: timestamp(now)}}}
        self._view.claims.put(await self._view.kube.patch(NodeClaim, claim.metadata.name, body))

    def _publish(self, target: Resource, type_: str, reason: str, message: str) -> None:
        # Deduplicated by uid: a Node may have the name of its claim, and both get the event
        self._recorder.publish(Event(target, type_, reason, message, (target.metadata.uid,)))

    def _targets(self, claim: NodeClaim) -> list[Resource]:
        instance = instance_id_of(claim.status.provider_id)
        return [claim, *self._view.nodes_of_instance(instance)]

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > 10_000:
            del self._gone[next(iter(self._gone))]
