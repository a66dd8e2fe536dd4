"""Warning events as records, for what controllers and providers only observe."""

from collections.abc import Callable, Mapping
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome, Source
from karpenter.kube.events import WARNING, Event, reference_to
from karpenter.model import labels

# Events of decisions, which have records of their own
_TOLD: Final = frozenset(
    {
        "FailedScheduling",
        "NoCompatibleInstanceTypes",
        "InsufficientCapacityError",
        "RebootFailed",
        "TerminatingOnInterruption",
        "SpotInterrupted",
        "SpotRebalanceRecommendation",
        "InstanceStopping",
        "InstanceTerminating",
        "InstanceUnhealthy",
        "CapacityReservationInstanceInterrupted",
    }
)
_KINDS: Final[Mapping[str, Kind]] = {
    "NodeRepairBlocked": Kind.REPAIR,
    "UnregisteredTaintMissing": Kind.REGISTER,
    "FailedConsistencyCheck": Kind.INITIALIZE,
    "ZonalShiftActive": Kind.INTERRUPT,
}


def observing(decisions: DecisionLog, clock: Clock) -> Callable[[Event], None]:
    """An observer of events that writes records of the Warning ones."""

    def observe(event: Event) -> None:
        draft = seen_event(event)
        if draft is not None:
            decisions.add(clock.now(), draft)

    return observe


def seen_event(event: Event) -> Draft | None:
    """The record of a Warning event; None for other events, and for those of decisions."""
    if event.type != WARNING or event.reason in _TOLD:
        return None
    about = reference_to(event.target)
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    return Draft(
        _KINDS.get(event.reason, Kind.CONFIG),
        Outcome.FAILED,
        event.reason,
        f"seen: {event.message}",
        objects=(f"{about.kind}/{name}",),
        node_pools=_pools(event),
        source=Source.OBSERVED,
        identity=(about.uid, event.message) if about.uid else (),
    )


def _pools(event: Event) -> tuple[str, ...]:
    target = event.target
    if isinstance(target, NodePool):
        return (target.metadata.name,)
    if isinstance(target, NodeClaim | Node):
        pool = target.metadata.labels.get(labels.NODEPOOL, "")
        return (pool,) if pool else ()
    return ()
