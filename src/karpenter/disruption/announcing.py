"""What users are told: about machines that stay, and about commands that are begun."""

from collections.abc import Iterable
from typing import Final

from karpenter.disruption.candidates import Blocked, Candidate, Why
from karpenter.disruption.commands import MULTI, SINGLE, Command, Decision
from karpenter.disruption.consolidation import is_balanced
from karpenter.scheduling.provisioning import Announcement
from karpenter.state.departing import annotation_problem
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

_REASONS: Final = {
    Why.UNCONSOLIDATABLE: "Unconsolidatable",
    Why.REPAIR_BLOCKED: "NodeRepairBlocked",
}


def announced(verdict: Blocked, snapshot: Snapshot) -> list[Announcement]:
    """What users are told about a machine that stays."""
    machine = snapshot.node(verdict.node)
    if machine is None or not verdict.has_event:
        return []
    reason = _REASONS.get(verdict.why, "DisruptionBlocked")
    is_warning = verdict.why is Why.REPAIR_BLOCKED
    targets = _targets(machine)
    if is_warning:
        targets.append(f"NodePool/{machine.node_pool}")
    return [Announcement(target, reason, verdict.detail, is_warning) for target in targets]


def announced_pods(snapshot: Snapshot) -> list[Announcement]:
    """What users are told about pods of our machines that wish to stay in words of their own."""
    return [
        Announcement(f"Pod/{key_of(pod)}", "InvalidDoNotDisruptAnnotation", problem)
        for machine in snapshot.nodes
        if machine.node_claim is not None
        for pod in machine.pods
        if (problem := annotation_problem(pod.metadata.annotations)) is not None
    ]


def announced_command(command: Command) -> list[Announcement]:
    """What users are told about a consolidation that is begun."""
    if command.method not in (MULTI, SINGLE):
        return []
    told = []
    if command.decision is Decision.REPLACE:
        told += _to_each(command.candidates, "ConsolidationCandidate", _said(command))
    if command.score is not None:
        message = f"{_said(command)}, score {command.score:.2f}"
        if command.method == SINGLE:
            told += _to_each(command.candidates, "ConsolidationApproved", message)
        else:
            pools = sorted({each.pool for each in command.candidates if is_balanced(each)})
            told += [
                Announcement(f"NodePool/{pool}", "ConsolidationApproved", message, is_warning=False)
                for pool in pools
            ]
    return told


def _to_each(candidates: Iterable[Candidate], reason: str, message: str) -> list[Announcement]:
    return [
        Announcement(target, reason, message, is_warning=False)
        for candidate in candidates
        for target in _targets(candidate.machine)
    ]


def _said(command: Command) -> str:
    names = ", ".join(command.names)
    return f"consolidating {names} saves {command.about}${command.savings:.2f}/h"


def _targets(machine: StateNode) -> list[str]:
    targets = [f"Node/{machine.node.metadata.name}"] if machine.node is not None else []
    if machine.node_claim is not None:
        targets.append(f"NodeClaim/{machine.node_claim.metadata.name}")
    return targets
