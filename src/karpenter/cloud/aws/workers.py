"""Everything the provider does by itself while it leads, in one list."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from karpenter.cloud.aws.housekeeping.offering_gauges import OfferingGauges
from karpenter.cloud.aws.housekeeping.profile_garbage import ProfileGarbage
from karpenter.cloud.aws.housekeeping.refreshing import (
    FIVE_MINUTES,
    HALF_A_DAY,
    HALF_AN_HOUR,
    Refresh,
)
from karpenter.cloud.aws.housekeeping.reservation_watch import BlockExpiration, CapacityTypeWatch
from karpenter.cloud.aws.housekeeping.tagging import Tagging
from karpenter.cloud.aws.interruption import Interruption, Queue
from karpenter.cloud.aws.node_class import memory_discovery, node_class_controller
from karpenter.cloud.aws.parts import Parts
from karpenter.cloud.aws.status_poller import StatusPoller
from karpenter.runtime import Runnable


@dataclass(frozen=True, slots=True)
class Named:
    """Something that runs, with a name."""

    name: str
    work: Callable[[], Awaitable[None]]

    async def run(self) -> None:
        """Work until cancelled."""
        await self.work()


def workers(parts: Parts) -> list[Runnable]:
    """What works in the background."""
    base, clock, view = parts.base, parts.base.clock, parts.view
    metrics = base.telemetry
    found: list[Runnable] = [
        view,
        Named("events", parts.recorder.run),
        node_class_controller(parts),
        memory_discovery(parts),
        parts.templates,
        Tagging(view, parts.instances, clock, base.settings.cluster_name),
        StatusPoller(base.calls, view, clock, parts.departures, base.metrics),
        BlockExpiration(clock, metrics, view, parts.departures),
        Refresh("providers.pricing", clock, metrics, parts.pricing.refresh, HALF_A_DAY),
        Refresh(
            "providers.instancetype", clock, metrics, parts.types.refresh, HALF_A_DAY, is_fresh=True
        ),
        Refresh(
            "providers.version", clock, metrics, parts.version.refresh, FIVE_MINUTES, is_fresh=True
        ),
        Refresh(
            "providers.ssm.invalidation",
            clock,
            metrics,
            parts.images.forget_deprecated_parameters,
            HALF_AN_HOUR,
            is_fresh=True,
        ),
        OfferingGauges(clock, metrics, view, parts.types, shows_reserved=base.chooses_reservations),
    ]
    if base.chooses_reservations:
        found.append(CapacityTypeWatch(clock, metrics, view, parts.instances))
    if not base.settings.isolated_vpc:
        found.append(ProfileGarbage(clock, metrics, view, parts.profiles))
    if parts.shifts.is_enabled:
        found.append(parts.shifts)
    if base.settings.interruption_queue:
        found.append(_interruption(parts))
    return found


def _interruption(parts: Parts) -> Interruption:
    base = parts.base
    queue = Queue(base.calls, base.settings.interruption_queue, wait_seconds=base.long_poll_seconds)
    return Interruption(
        queue,
        parts.view,
        base.clock,
        parts.departures,
        parts.unavailable,
        parts.reservations,
        base.metrics,
    )
