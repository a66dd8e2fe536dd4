"""Polls EC2 every minute for failed status checks and scheduled events; needs no queue."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsError, AwsUnauthorizedError
from karpenter.cloud.aws.interruption.claims import ClaimDeletions
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.kube.errors import KubeError

PERIOD: Final = 60.0
PATIENCE: Final = timedelta(seconds=120)  # with a check that fails
INSTANCE_STATUS: Final = "instance_status"
SYSTEM_STATUS: Final = "system_status"
EVENT_STATUS: Final = "event_status"

_FORCEFUL: Final = (SYSTEM_STATUS, INSTANCE_STATUS)  # a machine that is dead cannot drain
_CATEGORIES: Final = {
    INSTANCE_STATUS: "InstanceStatus",
    SYSTEM_STATUS: "SystemStatus",
    EVENT_STATUS: "EventStatus",
}
_EVENT_CODES: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
_QUERIES: Final[tuple[tuple[str, list[str]], ...]] = (
    ("instance-status.status", ["impaired"]),
    ("system-status.status", ["impaired"]),
    ("event.code", list(_EVENT_CODES)),
)
_OVER: Final = ("[Completed]", "[Canceled]")  # how descriptions of past events begin

log = structlog.get_logger(__name__)


class StatusPoller:
    """Deletes the claims whose instances fail."""

    name: Final = "interruption.instancestatus"

    def __init__(
        self,
        calls: Calls,
        view: ClusterView,
        clock: Clock,
        claim_deletions: ClaimDeletions,
        metrics: AwsMetrics,
    ) -> None:
        self._calls = calls
        self._view = view
        self._clock = clock
        self._claim_deletions = claim_deletions
        self._metrics = metrics
        self._known: set[tuple[str, str]] = set()  # (instance, kind) counted and not recovered

    async def run(self) -> None:
        """Poll until cancelled, or until EC2 denies the permission."""
        await self._view.synced()
        while True:
            try:
                await self.step()
            except AwsUnauthorizedError as error:
                log.warning("instance status is not polled any more", error=str(error))
                return
            except (AwsError, KubeError) as error:
                log.warning("instance status not polled", error=str(error))
            await self._clock.sleep(PERIOD)

    async def step(self) -> None:
        """Check all instances once.

        Raises:
            AwsError: a call to EC2 failed.
            KubeError: one of the claims could not be deleted; the others have been.
        """
        found: dict[str, list[Mapping[str, Any]]] = {}
        for name, values in _QUERIES:
            entries = await self._calls.pages(
                "ec2",
                "DescribeInstanceStatus",
                "InstanceStatuses",
                Filters=[{"Name": name, "Values": values}],
            )
            for entry in entries:
                found.setdefault(entry["InstanceId"], []).append(entry)
        now = self._clock.now()
        failing = [
            (instance_id, kind)
            for instance_id in sorted(found)
            for kind in _worst_first(found[instance_id], now)
            if self._view.claims_of_instance(instance_id)
        ]
        is_new = {each: each not in self._known for each in failing}
        self._known = set(failing)
        failure: KubeError | None = None
        for instance_id, kind in failing:
            if is_new[instance_id, kind]:
                self._metrics.unhealthy.labels(_CATEGORIES[kind]).inc()
            try:
                await self._act(instance_id, kind, is_new=is_new[instance_id, kind])
            except KubeError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _act(self, instance_id: str, kind: str, *, is_new: bool) -> None:
        for claim in self._view.claims_of_instance(instance_id):
            if is_new or claim.metadata.deletion_timestamp is None:
                self._claim_deletions.announce(claim, kind)
            await self._claim_deletions.remove(claim, kind, forceful=kind in _FORCEFUL)


def _worst_first(entries: Iterable[Mapping[str, Any]], now: datetime) -> list[str]:
    """The problems of an instance over all answers, the most urgent first."""
    kinds = {kind for entry in entries for kind in _understood(entry, now)}
    return [kind for kind in (*_FORCEFUL, EVENT_STATUS) if kind in kinds]


def _understood(status: Mapping[str, Any], now: datetime) -> list[str]:
    """The problems in one answer; an unreadable one is logged and yields none."""
    try:
        return [*problems(status, now)]
    except Exception as error:
        log.warning(
            "status of an instance not understood",
            instance=str(status.get("InstanceId", "")),
            error=f"{type(error).__name__}: {error}",
            exc_info=error,
        )
        return []


def problems(status: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """The problems of an instance, worst first, without those that may still pass by themselves."""
    if _has_failed((status.get("SystemStatus") or {}).get("Details") or (), now):
        yield SYSTEM_STATUS
    if _has_failed((status.get("InstanceStatus") or {}).get("Details") or (), now):
        yield INSTANCE_STATUS
    if any(_is_ahead(event) for event in status.get("Events") or ()):
        yield EVENT_STATUS


def _has_failed(details: Iterable[Mapping[str, Any]], now: datetime) -> bool:
    return any(
        detail.get("Status") == "failed"
        and detail.get("ImpairedSince") is not None
        and now - detail["ImpairedSince"] >= PATIENCE
        for detail in details
    )


def _is_ahead(event: Mapping[str, Any]) -> bool:
    return event.get("Code") in _EVENT_CODES and not str(event.get("Description", "")).startswith(
        _OVER
    )
