"""Launch: a claim becomes an instance.

The provider does not launch a second instance for a claim it knows, and this process calls it only
once per claim: the result is cached until the claim's status holds it.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.cloud.provider import (
    CreateError,
    Instance,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.lifecycle.claim_changes import ClaimStep, conditioned, with_metadata
from karpenter.controllers.lifecycle.removal import (
    INSUFFICIENT_CAPACITY,
    NODECLASS_NOT_READY,
    Remover,
)
from karpenter.decision_log.record import Draft
from karpenter.kube.events import WARNING, Event
from karpenter.kube.limiter import Bucket
from karpenter.model import labels
from karpenter.model.conditions import LAUNCHED, TRUE, UNKNOWN, status_of, timestamp
from karpenter.state.pods import is_active, is_bound

# How long the result of a launch is cached that could not be stored
_REMEMBERED_SECONDS: Final = 3600.0
# The timeout of a launch; about then the claim is given up anyway
_LONGEST_CREATE: Final = 300.0
_LONGEST_MESSAGE: Final = 1024
_ELLIPSIS: Final = "..."
_POD_EVENTS_PER_SECOND: Final = 5.0
_POD_EVENTS_AT_ONCE: Final = 10.0


class PlannedPods(Protocol):
    """The record of which pods a claim was made for."""

    def pods_of(self, claim_name: str) -> tuple[Pod, ...]:
        """The pods that were last planned onto the claim."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    until: float
    instance: Instance


class Launch:
    """The first step of a claim."""

    def __init__(self, context: Context, remover: Remover, planned: PlannedPods) -> None:
        self._context = context
        self._remover = remover
        self._planned = planned
        self._log = context.log.bind(controller="nodeclaim.lifecycle")
        self._remembered: dict[str, _Remembered] = {}  # claim uid -> what the provider answered
        self._failed: Counter[str] = Counter()  # pool -> failed launches since the last good one
        self._pod_events = Bucket(context.clock, _POD_EVENTS_PER_SECOND, _POD_EVENTS_AT_ONCE)

    async def take(self, claim: NodeClaim) -> ClaimStep:
        """Launch a claim that has not been launched."""
        status = status_of(claim.status.conditions, LAUNCHED)
        if status != UNKNOWN:
            if status == TRUE:
                self._remembered.pop(claim.metadata.uid, None)
            return ClaimStep(claim)
        try:
            instance = await self._instance(claim)
        except InsufficientCapacityError as error:
            return await self._without_capacity(claim, error)
        except NodeClassNotReadyError as error:
            return await self._give_up(claim, error, NODECLASS_NOT_READY)
        except Exception as error:  # noqa: BLE001 any error becomes a condition of the claim
            reason, message = failure(error)
            now = self._context.clock.now()
            changed = conditioned(claim, LAUNCHED, UNKNOWN, reason, message, now=now)
            return ClaimStep(changed, error=error)
        return ClaimStep(self._with_instance(claim, instance), afterwards=self._report)

    def recall(self, claim: NodeClaim) -> NodeClaim:
        """The claim with its launched instance, if the status could not be written before."""
        known = self._remembered.get(claim.metadata.uid)
        if known is None or claim.status.provider_id:
            return claim
        return self._with_instance(claim, known.instance)

    async def _instance(self, claim: NodeClaim) -> Instance:
        now = self._context.clock.monotonic()
        self._remembered = {u: kept for u, kept in self._remembered.items() if kept.until > now}
        known = self._remembered.get(claim.metadata.uid)
        if known is not None:
            return known.instance
        instance = await self._context.clock.wait_for(
            self._context.cloud.create(claim), seconds=_LONGEST_CREATE
        )
        until = self._context.clock.monotonic() + _REMEMBERED_SECONDS
        self._remembered[claim.metadata.uid] = _Remembered(until, instance)
        return instance

    def _with_instance(self, claim: NodeClaim, instance: Instance) -> NodeClaim:
        now = self._context.clock.now()
        launched = with_fallback(with_instance(claim, instance), now)
        return conditioned(launched, LAUNCHED, TRUE, now=now)

    async def _without_capacity(self, claim: NodeClaim, error: Exception) -> ClaimStep:
        name = f"NodeClaim {claim.metadata.name}"
        self._publish(claim, shortened(f"{name} event: {error}"))
        text = shortened(f"{name} nominated for this pod failed to launch: {error}")
        for pod in self._pods_waiting_for(claim):
            if self._pod_events.try_take():
                self._publish(pod, text)
        return await self._give_up(claim, error, INSUFFICIENT_CAPACITY)

    def _publish(self, target: Resource, text: str) -> None:
        self._context.recorder.publish(
            Event(
                target,
                WARNING,
                "InsufficientCapacityError",
                text,
                dedupe=(target.metadata.uid,),
            )
        )

    def _pods_waiting_for(self, claim: NodeClaim) -> list[Pod]:
        """The pods planned for a claim that are real and still have no place."""
        known = self._context.mirror(Pod)
        current = (
            (planned, known.get(planned.metadata.name, planned.metadata.namespace))
            for planned in self._planned.pods_of(claim.metadata.name)
        )
        return [
            pod
            for planned, pod in current
            if pod is not None
            and pod.metadata.uid == planned.metadata.uid
            and is_active(pod)
            and not is_bound(pod)
        ]

    async def _give_up(self, claim: NodeClaim, error: Exception, reason: str) -> ClaimStep:
        why = shortened(str(error))
        self._context.decide(
            self._log.error,
            "failed launching nodeclaim",
            self.failed(claim, reason, why),
            NodeClaim={"name": claim.metadata.name},
            error=why,
        )
        await self._remover.remove(claim, reason)
        return ClaimStep(claim, is_over=True)

    def failed(self, claim: NodeClaim, reason: str, why: str) -> Draft:
        """Count a failed launch of a pool, and give its record."""
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        self._failed[pool] += 1
        command = self._context.command_of(claim)
        return drafts.launch_failed(claim, reason, why, self._failed[pool], command)

    async def _report(self, claim: NodeClaim) -> None:
        held = claim.metadata.labels
        self._failed.pop(held.get(labels.NODEPOOL, ""), None)
        self._context.decide(
            self._log.info,
            "launched nodeclaim",
            drafts.launched(claim, self._context.command_of(claim)),
            NodeClaim={"name": claim.metadata.name},
            **{
                "provider-id": claim.status.provider_id,
                "instance-type": held.get(labels.INSTANCE_TYPE, ""),
                "zone": held.get(labels.ZONE, ""),
                "capacity-type": held.get(labels.CAPACITY_TYPE, ""),
                "allocatable": dict(claim.status.allocatable),
            },
        )


def with_instance(claim: NodeClaim, instance: Instance) -> NodeClaim:
    """The claim with the labels, annotations and status of its instance.

    Where both set a key, the label of the claim wins, and the annotation of the provider.
    """
    launched = with_metadata(
        claim,
        labels={**instance.labels, **claim.metadata.labels},
        annotations={**claim.metadata.annotations, **instance.annotations},
    )
    return msgspec.structs.replace(launched, status=instance.status_of(claim))


def with_fallback(claim: NodeClaim, now: datetime) -> NodeClaim:
    """The claim with the time of its launch, if that fell back to on-demand from cheaper spot."""
    held = claim.metadata.annotations
    how = claim.metadata.labels.get(labels.CAPACITY_TYPE, "")
    if how != labels.ON_DEMAND or labels.SPOT_PRICE not in held or labels.FELL_BACK in held:
        return claim
    stamped = {**held, labels.FELL_BACK: timestamp(now) or ""}
    return with_metadata(claim, labels=claim.metadata.labels, annotations=stamped)


def failure(error: Exception) -> tuple[str, str]:
    """The reason and the message of a launch that will be tried again."""
    if isinstance(error, CreateError):
        return error.reason, str(error)
    if isinstance(error, TimeoutError):
        return "LaunchFailed", "the cloud provider did not answer in time"
    return "LaunchFailed", shortened(str(error) or type(error).__name__)


def shortened(text: str) -> str:
    """Text of a length that conditions and events may have."""
    if len(text) <= _LONGEST_MESSAGE:
        return text
    return text[: _LONGEST_MESSAGE - len(_ELLIPSIS)] + _ELLIPSIS
