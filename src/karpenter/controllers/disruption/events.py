"""The events of disruption: one sentence each, on the objects users look at."""

from collections.abc import Iterator
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command
from karpenter.disruption.events import saved, summary
from karpenter.kube.events import NORMAL, WARNING, Event
from karpenter.scheduling.provisioning import Announcement
from karpenter.state.nodes import StateNode

BLOCKED: Final = "DisruptionBlocked"
CANDIDATE: Final = "ConsolidationCandidate"
_A_MINUTE: Final = 60.0
_USUAL_SECONDS: Final = 120.0
_DEDUPE_SECONDS: Final = {"Unconsolidatable": 900.0, "NodeRepairBlocked": 900.0}


def announced(announcement: Announcement, target: Resource) -> Event:
    """An announcement of the planner about an object."""
    reason, message = announcement.reason, announcement.message
    dedupe, seconds = _uid(target), _DEDUPE_SECONDS.get(reason, _USUAL_SECONDS)
    if isinstance(target, NodePool) and reason == BLOCKED:
        dedupe, seconds = (target.metadata.uid, message), _A_MINUTE
    elif reason == CANDIDATE:
        dedupe = (target.metadata.uid, message)
    severity = WARNING if announcement.is_warning else NORMAL
    return Event(target, severity, reason, message, dedupe, seconds)


def rejected(command: Command, why: str, detail: str) -> Iterator[Event]:
    """Machines whose consolidation failed its validation."""
    for candidate in command.candidates:
        move = f"{summary(command, candidate)}, reason: {why} {saved(command)}"
        message = f"Consolidation rejected: {move}: {detail}"
        for target in both(candidate.machine):
            dedupe = (target.metadata.uid, ",".join(command.names), why)
            yield Event(target, NORMAL, "ConsolidationRejected", message, dedupe)


def launching(claim: NodeClaim, reason: str) -> Event:
    """A claim that takes the place of others."""
    dedupe = (claim.metadata.uid, reason)
    return Event(claim, NORMAL, "DisruptionLaunching", f"Launching NodeClaim: {reason}", dedupe)


def waiting_for(claim: NodeClaim) -> Event:
    """A claim that others wait for."""
    message = "Waiting on readiness to continue disruption"
    return Event(claim, NORMAL, "DisruptionWaitingReadiness", message, _uid(claim))


def terminating(candidate: Candidate, reason: str) -> Iterator[Event]:
    """A machine whose end has begun."""
    for target in both(candidate.machine):
        message = f"Disrupting {target.kind}: {reason}"
        yield Event(target, NORMAL, "DisruptionTerminating", message, (target.metadata.uid, reason))


def both(machine: StateNode) -> tuple[Resource, ...]:
    """The Node and the NodeClaim of a machine, as far as there are any."""
    return tuple(each for each in (machine.node, machine.node_claim) if each is not None)


def _uid(target: Resource) -> tuple[str, ...]:
    return (target.metadata.uid,)
