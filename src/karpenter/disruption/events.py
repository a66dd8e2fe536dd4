"""The texts of events about machines that stay, and about commands that are begun."""

import math
from typing import Final

from karpenter.disruption.candidates import Blocked, Candidate, Why
from karpenter.disruption.commands import MULTI, REBALANCE, SINGLE, Command, Decision, Score
from karpenter.disruption.methods.balanced import LEAST_SCORE
from karpenter.scheduling.provisioning import Announcement
from karpenter.state.departing_pods import annotation_problem
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

_REASONS: Final = {
    Why.UNCONSOLIDATABLE: "Unconsolidatable",
    Why.REPAIR_BLOCKED: "NodeRepairBlocked",
}


def announced(verdict: Blocked, snapshot: Snapshot) -> list[Announcement]:
    """The event about a machine that stays."""
    machine = snapshot.node(verdict.node)
    if machine is None or not verdict.has_event:
        return []
    reason = _REASONS.get(verdict.why, "DisruptionBlocked")
    is_warning = verdict.why is Why.REPAIR_BLOCKED
    targets = _targets(machine)
    if is_warning:
        targets.append(f"NodePool/{machine.node_pool}")
    return [Announcement(target, reason, verdict.message, is_warning) for target in targets]


def announced_pods(snapshot: Snapshot) -> list[Announcement]:
    """The events about pods of our machines whose do-not-disrupt annotation is invalid."""
    return [
        Announcement(f"Pod/{key_of(pod)}", "InvalidDoNotDisruptAnnotation", problem)
        for machine in snapshot.nodes
        if machine.node_claim is not None
        for pod in machine.pods
        if (problem := annotation_problem(pod.metadata.annotations)) is not None
    ]


def announced_command(command: Command) -> list[Announcement]:
    """The events about a consolidation that is begun."""
    if command.method not in (MULTI, SINGLE, REBALANCE):
        return []
    events = []
    if command.decision is Decision.REPLACE:
        events += [
            Announcement(target, "ConsolidationCandidate", message, is_warning=False)
            for candidate in command.candidates
            for message in (
                f"Consolidation candidate: {summary(command, candidate)} {saved(command)}",
            )
            for target in _targets(candidate.machine)
        ]
    for score in command.scores:
        message = _approved(score)
        targets = [f"NodePool/{score.node_pool}"]
        if command.method == SINGLE:
            targets = [each for c in command.candidates for each in _targets(c.machine)]
        events += [
            Announcement(target, "ConsolidationApproved", message, is_warning=False)
            for target in targets
        ]
    return events


def summary(command: Command, candidate: Candidate) -> str:
    """A command as a phrase, for one of its candidates."""
    if len(command.candidates) > 1:
        part = f"(part of {len(command.candidates)}-node consolidation)"
        return f"{command.decision}: [{candidate.name}] {part}"
    if not command.replacements:
        return f"{command.decision}: [{candidate.name}]"
    count = len(command.replacements)
    plural = "" if count == 1 else "s"
    return f"{command.decision}: [{candidate.name}] -> [{count} replacement{plural}]"


def saved(command: Command) -> str:
    """The savings of a command per hour as a phrase, marked if estimated or unknown."""
    if command.known_savings is None:
        return "(savings: unknown)"
    guess = ", by estimated prices" if command.is_estimate else ""
    return f"(savings: ${command.known_savings:.2f}){guess}"


def _approved(score: Score) -> str:
    value = f"{score.value:.2f}" if math.isfinite(score.value) else "+Inf"
    return (
        f"score {value} >= threshold {LEAST_SCORE:.2f} (k: {round(1 / LEAST_SCORE)},"
        f" savings {score.savings:.1%}, disruption {score.disruption:.1%})"
    )


def _targets(machine: StateNode) -> list[str]:
    targets = [f"Node/{machine.node.metadata.name}"] if machine.node is not None else []
    if machine.node_claim is not None:
        targets.append(f"NodeClaim/{machine.node_claim.metadata.name}")
    return targets
