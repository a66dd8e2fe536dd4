"""Zones with an active zonal shift, read from Amazon's Application Recovery Controller.

In such a zone nothing is launched and nothing is terminated: its instances may appear gone and
reappear when the shift is over.
"""

from datetime import datetime
from typing import Any, Final

import structlog

from karpenter.api.karpenter import NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.cloud.aws.network.cluster import describe_cluster
from karpenter.cloud.registry import ProviderError
from karpenter.kube.events import NORMAL, WARNING, Event, Recorder
from karpenter.model import labels
from karpenter.model.requirements import Requirements

PERIOD: Final = 30.0
_APPLIED: Final = "APPLIED"

log = structlog.get_logger(__name__)


class ZonalShifts:
    """The zones, by id, that are shifted away from."""

    name: Final = "zonalshift"

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        cluster: str,
        *,
        view: ClusterView,
        recorder: Recorder,
        is_enabled: bool,
    ) -> None:
        self.is_enabled: Final = is_enabled
        self.sequence = 0  # grows with every change, so that caches notice it
        self._calls = calls
        self._clock = clock
        self._cluster = cluster
        self._view = view
        self._recorder = recorder
        self._arn = ""
        self._until: dict[str, datetime] = {}  # zone id -> end of the shift

    def is_shifted(self, zone_id: str) -> bool:
        """Whether a zone is shifted away from now."""
        end = self._until.get(zone_id)
        return end is not None and end > self._clock.now()

    def shifted(self) -> frozenset[str]:
        """The ids of all zones that are shifted away from now."""
        now = self._clock.now()
        return frozenset(zone_id for zone_id, end in self._until.items() if end > now)

    async def check(self) -> None:
        """Check that shifts can be read.

        Raises:
            ProviderError: they cannot.
        """
        try:
            await self.step()
        except AwsError as error:
            raise ProviderError(
                f"ENABLE_ZONAL_SHIFT: shifts of cluster {self._cluster} cannot be read: {error};"
                " enable zonal shift for the cluster or turn the setting off"
            ) from error

    async def run(self) -> None:
        """Keep up to date, until cancelled."""
        while self.is_enabled:
            try:
                await self.step()
            except AwsError as error:
                log.warning("zonal shifts not read", error=str(error))
            await self._clock.sleep(PERIOD)

    async def step(self) -> None:
        """Read the shifts there are now."""
        if not self._arn:
            self._arn = (await describe_cluster(self._calls, self._cluster)).arn
        answer = await self._calls.call(
            "arc-zonal-shift", "GetManagedResource", resourceIdentifier=self._arn
        )
        now = self._clock.now()
        before = set(self._until)
        # Replaced, not merged: a cancelled shift is no longer listed
        self._until = _active(answer.get("zonalShifts") or (), now)
        after = set(self._until)
        if before != after:
            self.sequence += 1
        for zone_id in sorted(after - before):
            log.info("zonal shift began", zone_id=zone_id)
            self._publish(zone_id, WARNING, "ZonalShiftActive", "detected", "unavailable")
        for zone_id in sorted(before - after):
            log.info("zonal shift ended", zone_id=zone_id)
            self._publish(zone_id, NORMAL, "ZonalShiftCleared", "cleared", "restored")

    def _publish(self, zone_id: str, type_: str, reason: str, what: str, now: str) -> None:
        for pool in self._view.pools.list():
            zone = self._zone_of(pool, zone_id)
            if zone:
                where = f"offerings in zone {zone} ({zone_id})"
                message = f"Zonal shift {what}: {where} are {now} for this NodePool"
                dedupe = (pool.metadata.uid, zone_id)
                self._recorder.publish(Event(pool, type_, reason, message, dedupe))

    def _zone_of(self, pool: NodePool, zone_id: str) -> str:
        """The zone's name, if the pool's class has a subnet there that the pool would take."""
        node_class = self._view.node_classes.get(pool.spec.template.spec.node_class_ref.name)
        if node_class is None:
            return ""
        wanted = Requirements.from_wire(pool.spec.template.spec.requirements)
        found = (
            subnet.zone
            for subnet in node_class.status.subnets
            if subnet.zone_id == zone_id
            and wanted[labels.ZONE].has(subnet.zone)
            and wanted[ec2_labels.ZONE_ID].has(zone_id)
        )
        return next(found, "")


def _active(shifts: Any, now: datetime) -> dict[str, datetime]:
    return {
        shift["awayFrom"]: shift["expiryTime"]
        for shift in shifts
        if shift.get("appliedStatus") == _APPLIED and shift.get("expiryTime", now) > now
    }
