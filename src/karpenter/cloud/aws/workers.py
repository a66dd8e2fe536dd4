"""The background workers of the provider, which run while it leads."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from karpenter.cloud.aws.assembly import Parts
from karpenter.cloud.aws.housekeeping.memory_discovery import MemoryDiscovery
from karpenter.cloud.aws.housekeeping.offering_gauges import OfferingGauges
from karpenter.cloud.aws.housekeeping.profile_garbage import ProfileGarbage
from karpenter.cloud.aws.housekeeping.reservation_watch import BlockExpiration, CapacityTypeWatch
from karpenter.cloud.aws.housekeeping.rounds import (
    FIVE_MINUTES,
    HALF_A_DAY,
    HALF_AN_HOUR,
    Refresh,
)
from karpenter.cloud.aws.housekeeping.tagging import Tagging
from karpenter.cloud.aws.interruption.queue import Interruption, Queue
from karpenter.cloud.aws.interruption.status_poller import StatusPoller
from karpenter.cloud.aws.node_class.controller import NodeClassController
from karpenter.cloud.aws.node_class.dry_runs import LaunchRehearsal
from karpenter.cloud.aws.node_class.status import Discovery, StatusSteps
from karpenter.cloud.aws.node_class.validation import Validation
from karpenter.cloud.aws.prices.commitments import HOURLY
from karpenter.runtime import Runnable


def node_class_controller(parts: Parts) -> NodeClassController:
    """Make the controller of node classes."""
    base = parts.base
    discovery = Discovery(
        subnets=parts.subnets,
        security_groups=parts.security_groups,
        images=parts.images,
        profiles=parts.profiles,
        reservations=parts.reservations,
        groups=parts.groups,
        version=parts.version,
    )
    rehearsal = LaunchRehearsal(
        base.calls,
        parts.view,
        parts.types,
        parts.templates,
        parts.cluster,
        parts.groups,
        uses_reservations=base.chooses_reservations,
    )
    return NodeClassController(
        parts.view,
        base.clock,
        parts.recorder,
        StatusSteps(discovery, base.clock, uses_reservations=base.chooses_reservations),
        Validation(
            base.clock, base.settings, parts.types, rehearsal, parts.cluster.load_service_cidr
        ),
        parts.profiles,
        parts.templates,
        base.telemetry,
        uses_reservations=base.chooses_reservations,
        is_isolated=base.settings.isolated_vpc,
        ca_bundle=lambda: parts.cluster.ca_bundle,
    )


def memory_discovery(parts: Parts) -> MemoryDiscovery:
    """Make the memory discovery."""
    return MemoryDiscovery(parts.view, parts.types)


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
        StatusPoller(base.calls, view, clock, parts.claim_deletions, base.metrics),
        BlockExpiration(clock, metrics, view, parts.claim_deletions),
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
    if parts.commitments.is_enabled:
        read = parts.commitments.refresh
        found.append(Refresh("providers.commitments", clock, metrics, read, HOURLY))
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
        parts.claim_deletions,
        parts.unavailable,
        parts.reservations,
        base.metrics,
    )
