"""What the events of Karpenter say to have happened, in the words of this project and of upstream."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.api.cluster import Event
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import kind_of
from karpenter.api.pods import Pod
from karpenter.dashboard.observed.machines import (
    GOES,
    GONE,
    NODE,
    NODE_CLAIM,
    STEPS,
    Machine,
    Machines,
    step,
)
from karpenter.dashboard.observed.sightings import Sighting, is_word, seen
from karpenter.decision_log.record import Kind, Outcome, Severity
from karpenter.kube.events import FOLDED_PREFIX, WARNING
from karpenter.model import labels
from karpenter.model.conditions import FALSE, READY, TRUE

COMPONENT: Final = "karpenter"
NODE_POOL: Final = kind_of(NodePool)
POD: Final = kind_of(Pod)
# Rank: an event says more than a deletion, a condition more than the event about it
_BY_EVENT: Final = 1
_TERMINATING: Final = "DisruptionTerminating"
_INTERRUPTED: Final = "TerminatingOnInterruption"
_TRANSITION: Final = re.compile(
    r"Status condition transitioned, Type: (?P<type>\w+), Status: \w+ -> (?P<status>\w+)"
    r"(?:, Reason: (?P<reason>\w+))?(?:, Message: (?P<message>.*))?",
    re.DOTALL,
)
_SAVING: Final = re.compile(r"savings: \$(?P<amount>-?\d+(?:\.\d+)?)")
_ESTIMATED: Final = "by estimated prices"
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_EITHER: Final = re.compile(r"\bNodeClaim\b")


@dataclass(frozen=True, slots=True)
class _Says:
    """What an event of a reason stands for."""

    kind: Kind
    outcome: Outcome
    severity: Severity | None = None
    on: frozenset[str] = frozenset()  # kinds; empty: whatever it is about


_INTERRUPT: Final = _Says(Kind.INTERRUPT, Outcome.BEGUN)
_SAYS: Final[Mapping[str, _Says]] = {
    "FailedScheduling": _Says(Kind.REFUSE, Outcome.FAILED, on=frozenset({POD})),
    "NoCompatibleInstanceTypes": _Says(Kind.CONFIG, Outcome.FAILED),
    # On pods that wait for the claim it says nothing more
    "InsufficientCapacityError": _Says(Kind.LAUNCH, Outcome.FAILED, on=frozenset({NODE_CLAIM})),
    "UnregisteredTaintMissing": _Says(Kind.REGISTER, Outcome.FAILED),
    "FailedConsistencyCheck": _Says(Kind.INITIALIZE, Outcome.FAILED),
    "ConsolidationCandidate": _Says(Kind.DISRUPT, Outcome.BEGUN),
    "ConsolidationRejected": _Says(Kind.DISRUPT, Outcome.ABANDONED),
    "DisruptionLaunching": _Says(Kind.PROVISION, Outcome.BEGUN),
    _TERMINATING: _Says(Kind.DISRUPT, Outcome.DONE),
    "NodeRepairBlocked": _Says(Kind.REPAIR, Outcome.FAILED),
    "RebootObserved": _Says(Kind.REPAIR, Outcome.DONE),
    "RebootFailed": _Says(Kind.REPAIR, Outcome.FAILED),
    "TerminationGracePeriodExpiring": _Says(Kind.DRAIN, Outcome.BEGUN, Severity.WARNING),
    "FailedDraining": _Says(Kind.DRAIN, Outcome.FAILED),
    "AwaitingVolumeDetachment": _Says(Kind.DRAIN, Outcome.BEGUN),
    "Disrupted": _Says(Kind.DRAIN, Outcome.DONE, Severity.WARNING, frozenset({POD})),
    "SpotInterrupted": _INTERRUPT,
    "SpotRebalanceRecommendation": _Says(Kind.INTERRUPT, Outcome.BEGUN, Severity.INFO),
    "CapacityReservationInstanceInterrupted": _INTERRUPT,
    "InstanceStopping": _INTERRUPT,
    "InstanceTerminating": _INTERRUPT,
    "InstanceUnhealthy": _INTERRUPT,
    _INTERRUPTED: _Says(Kind.INTERRUPT, Outcome.DONE),
    "ZonalShiftActive": _INTERRUPT,
    "ZonalShiftCleared": _Says(Kind.INTERRUPT, Outcome.DONE, Severity.INFO),
    "WaitingOnNodeClaimTermination": _Says(Kind.CONFIG, Outcome.BEGUN),
}


def is_of_karpenter(event: Event) -> bool:
    """Whether Karpenter wrote an event, in either of the two shapes that events have."""
    return COMPONENT in (event.source.component, event.reporting_component)


def last_moment(event: Event, now: datetime) -> datetime:
    """When an event was last repeated."""
    series = event.series.last_observed_time if event.series is not None else None
    known = (series, event.last_timestamp, event.event_time, event.metadata.creation_timestamp)
    return next(filter(None, known), now)


def event_sighting(event: Event, machines: Machines, now: datetime) -> Sighting | None:
    """What an event of Karpenter says; None if it is about what might happen, or stays as it is."""
    about = event.involved_object
    machine = machines.find(about.kind, about.name) if about.kind in _OF_MACHINES else None
    message = event.message.removeprefix(FOLDED_PREFIX)
    until = last_moment(event, now)
    first = event.first_timestamp or event.event_time or event.metadata.creation_timestamp
    at = min(first or until, until)
    transition = _TRANSITION.match(message)
    if transition is not None:
        return _transition(event, machine, transition, at)
    if event.reason == "Finalized":
        return _finalized(event, machine, message, at)
    says = _SAYS.get(event.reason)
    if says is None:
        if event.type != WARNING:
            return None
        says = _Says(Kind.CONFIG, Outcome.FAILED, Severity.WARNING)
    if says.on and about.kind not in says.on:
        return None
    reason, name = event.reason, _name(about.namespace, about.name, about.kind)
    objects: tuple[str, ...] = (f"{about.kind}/{name}",)
    pool = name if about.kind == NODE_POOL else ""
    subject, rank = about.uid or f"{about.kind}/{name}", _BY_EVENT
    if machine is not None:
        objects, pool, name, subject = machine.objects, machine.pool, machine.name, machine.uid
    key: tuple[str, ...] = (reason, subject, _alike(message))
    if reason in (_TERMINATING, _INTERRUPTED):
        key = (GOES, subject)
        rank -= reason == _INTERRUPTED
        until = at  # a machine goes once, whatever is repeated about it
        if reason == _TERMINATING:
            reason = _cause(message)
    more: dict[str, Any] = {}
    amount = _SAVING.search(message)
    if amount is not None:
        more = {"savings_hourly": float(amount["amount"]), "is_estimate": _ESTIMATED in message}
    return seen(
        key,
        at,
        says.kind,
        says.outcome,
        reason,
        f"{name}: {message}" if name else message or reason,
        objects=objects if about.name and is_word(about.kind) else (),
        pool=pool,
        rank=rank,
        until=until,
        pods=1 if about.kind == POD else 0,
        severity=says.severity,
        **more,
    )


_OF_MACHINES: Final = frozenset({NODE, NODE_CLAIM})


def _transition(
    event: Event, machine: Machine | None, found: re.Match[str], at: datetime
) -> Sighting | None:
    """A condition that has changed: of claims they are followed anyway, unless one was too short-lived."""
    about, kind, status = event.involved_object, found["type"], found["status"]
    if about.kind == NODE_CLAIM and about.name and kind in STEPS and status == TRUE:
        held = machine or Machine(about.uid or about.name, about.name, "", "")
        return step(held, kind, at, rank=_BY_EVENT)
    if about.kind == NODE_POOL and kind == READY and status in (TRUE, FALSE):
        is_ready = status == TRUE
        why = found["message"] or found["reason"] or ""
        text = "is ready" if is_ready else f"is not ready{f': {why}' if why else ''}"
        return seen(
            ("ready", about.uid or about.name, status, str(at)),
            at,
            Kind.CONFIG,
            Outcome.DONE if is_ready else Outcome.FAILED,
            found["reason"] or READY,
            f"nodepool {about.name} {text}",
            objects=(f"{NODE_POOL}/{about.name}",),
            pool=about.name,
        )
    return None


def _finalized(
    event: Event, machine: Machine | None, message: str, at: datetime
) -> Sighting | None:
    """A claim that is gone; its own disappearance says so too, unless it was not seen."""
    about = event.involved_object
    if about.kind != NODE_CLAIM or not about.name or labels.TERMINATION not in message:
        return None  # of an object that is gone already some releases know no name
    held = machine or Machine(about.uid or about.name, about.name, "", "")
    return seen(
        (GONE, held.uid),
        at,
        Kind.TERMINATE,
        Outcome.DONE,
        "NodeClaimDeleted",
        f"{held.claim} is gone",
        objects=tuple(reversed(held.objects)),
        pool=held.pool,
        rank=_BY_EVENT,
    )


def _cause(message: str) -> str:
    """The reason at the end of the message about a removal, such as ``Disrupting Node: Empty``."""
    words = _WORD.findall(message.rpartition(":")[2])
    return words[0][:1].upper() + words[0][1:] if words else _TERMINATING


def _alike(message: str) -> str:
    """What repeats of a message have in common: not the counts, nor which of the two objects it is on."""
    return _EITHER.sub(NODE, _NUMBER.sub("#", message))


def _name(namespace: str, name: str, kind: str) -> str:
    # Events about objects without a namespace are in one all the same, their references are not
    return f"{namespace}/{name}" if namespace and kind not in _CLUSTER_WIDE else name


_CLUSTER_WIDE: Final = frozenset({NODE, NODE_CLAIM, NODE_POOL})
