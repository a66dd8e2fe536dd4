"""The records of disruption commands: begun, done, abandoned or failed, under one number."""

from typing import Any, Final

from karpenter.api.karpenter import NodeClaim
from karpenter.controllers.decision_drafts import counted, sampled
from karpenter.decision_log.record import Draft, Kind, Outcome
from karpenter.disruption.commands import Command, Decision

_MOST_NAMED: Final = 100  # candidates and placements in the detail of a record


def begun(command: Command, claims: tuple[NodeClaim, ...], number: str) -> Draft:
    """A command that is being carried out."""
    made = tuple(f"NodeClaim/{claim.metadata.name}" for claim in claims)
    return _draft(command, Outcome.BEGUN, sentence(command), number, made)


def done(command: Command, number: str) -> Draft:
    """A command whose candidates are deleted."""
    verb = "have" if len(command.candidates) > 1 else "has"
    return _draft(command, Outcome.DONE, f"{_names(command)} {verb} been asked to go", number)


def failed(command: Command, number: str, why: str) -> Draft:
    """A command whose replacements did not come; its candidates stay."""
    return _draft(command, Outcome.FAILED, f"{_names(command)} stays: {why}", number)


def abandoned(command: Command, number: str, why: str) -> Draft:
    """A command that was not begun, or that this process cannot end."""
    return _draft(command, Outcome.ABANDONED, f"{_names(command)} stays: {why}", number)


def sentence(command: Command) -> str:
    """What a command does, why, and what it saves."""
    pods = sum(len(each.reschedulable) for each in command.candidates)
    facts = [_what(command, pods)]
    saved = command.known_savings
    if saved is not None and saved > 0:
        facts.append(f"saves {command.about}${saved:.4f}/h")
    verb = "go" if len(command.candidates) > 1 else "goes"
    if command.decision is Decision.REBOOT:
        verb = "is restarted"
    return f"{_names(command)} {verb}: {', '.join(facts)}"


def _what(command: Command, pods: int) -> str:
    if command.repair is not None:
        condition = command.repair.governing.condition
        return f"{condition.type} is {condition.status}"
    moved = counted(pods, "pod")
    if command.replacements:
        types = sampled(
            [claim.launch.instance_type for claim in command.replacements if claim.launch], most=2
        )
        new = counted(len(command.replacements), "new node")
        return f"{command.reason.lower()}, {moved} to {new}" + (f" ({types})" if types else "")
    if not pods:
        return f"{command.reason.lower()}, no pod has to move"
    places = sampled(sorted(command.placements))
    verb = "fits" if pods == 1 else "fit"
    return f"{moved} {verb} on {places}" if places else f"{command.reason.lower()}, {moved} move"


def _draft(
    command: Command, outcome: Outcome, text: str, number: str, made: tuple[str, ...] = ()
) -> Draft:
    names = tuple(
        each
        for candidate in command.candidates
        for each in (f"Node/{candidate.name}", f"NodeClaim/{candidate.claim.metadata.name}")
    )
    saved = command.known_savings
    return Draft(
        Kind.DISRUPT if command.repair is None else Kind.REPAIR,
        outcome,
        command.reason,
        text,
        objects=(*names, *made),
        node_pools=tuple(sorted({candidate.pool for candidate in command.candidates})),
        pods=sum(len(each.reschedulable) for each in command.candidates),
        savings_hourly=saved,
        is_estimate=command.is_estimate and saved is not None,
        command=number,
        detail=_detail(command),
    )


def _detail(command: Command) -> dict[str, Any]:
    return {
        "method": command.method,
        "decision": command.decision.value,
        "candidates": list(command.names[:_MOST_NAMED]),
        "replacements": [
            {
                "nodePool": claim.node_pool,
                "instanceTypes": list(claim.instance_types[:_MOST_NAMED]),
                "pods": list(claim.pods[:_MOST_NAMED]),
            }
            for claim in command.replacements
        ],
        "placements": {
            node: list(pods) for node, pods in sorted(command.placements.items())[:_MOST_NAMED]
        },
        "score": command.score,
    }


def _names(command: Command) -> str:
    return sampled(command.names)
