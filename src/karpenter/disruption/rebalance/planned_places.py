"""The places that a rebalance planned for pods that do not exist yet, as the nodes keep them.

The pods of a machine that goes are evicted, and their owners create new ones. Which of them is meant
is known by its owner and by everything that a place depends on: its requests, its constraints, its
labels and its claims. What a node awaits is written as the number of such pods that it holds in the
end, so that it can be read again at any time, and nothing has to be counted down.

The scheduler sees the same pods at the same moment, so a node that awaits pods is closed to it. That
is done only where nothing is left to the scheduler: it would otherwise find less room than the plan.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodStatus
from karpenter.disruption.commands import Command
from karpenter.disruption.context import DisruptionContext
from karpenter.model import labels
from karpenter.model.conditions import timestamp
from karpenter.model.taints import AWAITS_PODS, matches
from karpenter.scheduling.compiled.pod_classes import class_key
from karpenter.scheduling.inputs.pending_pods import needs_scheduler
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active, is_bound, key_of
from karpenter.state.snapshot import Snapshot

_DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_DIGITS: Final = 16  # of the digest of a pod's constraints
_PENDING: Final = ("", "Pending")


@dataclass(frozen=True, slots=True)
class Awaited:
    """What the node of a machine waits for."""

    until: datetime  # from then on it is left to the scheduler
    leaving: tuple[str, ...]  # the NodeClaims that the pods come from
    pods: Mapping[str, int]  # kind of pod -> how many of them run here in the end

    def text(self) -> str:
        """The annotation."""
        found = {
            "until": timestamp(self.until),
            "leaving": sorted(self.leaving),
            "pods": dict(sorted(self.pods.items())),
        }
        return msgspec.json.encode(found).decode()


class _Note(msgspec.Struct):
    until: datetime
    leaving: list[str]
    pods: dict[str, int]


def awaited_by(node: Node) -> Awaited | None:
    """What a node waits for; None when it waits for nothing, or that cannot be read."""
    text = node.metadata.annotations.get(labels.AWAITS_PODS)
    if text is None:
        return None
    try:
        note = msgspec.json.decode(text, type=_Note)
    except msgspec.DecodeError:
        return None
    if note.until.tzinfo is None:
        return None
    return Awaited(note.until, tuple(note.leaving), note.pods)


def is_closed(node: Node) -> bool:
    """Whether a node is kept from the scheduler for the pods it waits for, or was meant to be."""
    is_tainted = any(matches(taint, AWAITS_PODS) for taint in node.spec.taints)
    return is_tainted or labels.AWAITS_PODS in node.metadata.annotations


def kind_of(pod: Pod) -> str:
    """What a pod has in common with the one that its owner creates in its place.

    That is its owner and all that a place depends on; nothing for a pod without an owner that creates it again.
    """
    owner = next((o.uid for o in pod.metadata.owner_references if o.controller), "")
    if not owner:
        return ""
    bare = msgspec.structs.replace(pod, status=PodStatus())
    key = class_key(bare, pod.spec.topology_spread_constraints)
    return f"{owner}/{hashlib.sha256(key).hexdigest()[:_DIGITS]}"


def is_waiting(pod: Pod) -> bool:
    """Whether a pod has no node, and nothing but the scheduler stands between it and one.

    It need not have been found unschedulable, as a pod must that a node is created for.
    """
    return (
        not is_bound(pod)
        and is_active(pod)
        and pod.status.phase in _PENDING
        and not pod.spec.scheduling_gates
        and not pod.status.nominated_node_name
    )


def missing_on(awaited: Awaited, held: Iterable[str]) -> dict[str, int]:
    """How many more pods of each kind belong on a node that holds pods of these kinds."""
    left = dict(awaited.pods)
    for kind in held:
        if kind in left:
            left[kind] -= 1
    return {kind: count for kind, count in left.items() if count > 0}


def awaited_after(
    command: Command, made: Sequence[str], snapshot: Snapshot, until: datetime
) -> dict[str, Awaited]:
    """What each machine that takes pods of a command has to wait for, by its name.

    ``made``: the names of the NodeClaims that its replacements have become, in their order.
    """
    moved = moved_pods(command)
    planned = dict(command.placements)
    for replacement, name in zip(command.replacements, made, strict=True):
        planned[name] = replacement.pods
    leaving = tuple(candidate.claim.metadata.name for candidate in command.candidates)
    found: dict[str, Awaited] = {}
    for name, pods in sorted(planned.items()):
        kinds = [kind for pod in pods if pod in moved and (kind := kind_of(moved[pod]))]
        machine = snapshot.node(name)
        if not kinds or machine is None:
            continue
        coming = frozenset(kinds)
        kinds += [kind for kind in kinds_on(machine) if kind in coming]
        counts = {kind: kinds.count(kind) for kind in sorted(coming)}
        found[machine.name] = Awaited(until, leaving, counts)
    return found


def kinds_on(machine: StateNode, kind: Callable[[Pod], str] = kind_of) -> list[str]:
    """The kinds of the pods on a machine that stay there."""
    return [kind(pod) for pod in machine.pods if is_active(pod)]


def moved_pods(command: Command) -> dict[str, Pod]:
    """The pods that a command moves, by ``namespace/name``."""
    return {key_of(pod): pod for each in command.candidates for pod in each.reschedulable}


def can_be_bound(view: DisruptionContext, command: Command) -> bool:
    """Whether all pods of a command can be bound to their places, with nothing left to others.

    Not so for pods that the scheduler has to prepare something for, that look at other pods (what
    holds in the end need not hold in between), or that would have others evicted: to the scheduler
    it seems that there is no room for them until they are bound.
    """
    pods = moved_pods(command).values()
    takers = set(command.placements)
    if not all(_is_ours(view.snapshot.node(name)) for name in takers):
        return False
    if not all(kind_of(pod) and not _depends_on_others(pod) for pod in pods):
        return False
    if any(needs_scheduler(pod, view.snapshot.pvcs) for pod in pods):
        return False
    closed = takers.union(command.names)
    others = [m for m in view.snapshot.nodes if m.name not in closed]
    least = min((_priority(pod) for machine in others for pod in machine.pods), default=None)
    return least is None or all(_priority(pod) <= least for pod in pods)


def _is_ours(machine: StateNode | None) -> bool:
    """Whether a machine may be closed to others."""
    return machine is not None and machine.is_managed and machine.is_initialized


def _depends_on_others(pod: Pod) -> bool:
    spec = pod.spec
    if any(
        each.when_unsatisfiable == _DO_NOT_SCHEDULE for each in spec.topology_spread_constraints
    ):
        return True
    if spec.affinity is not None:
        for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            if affinity is not None and affinity.required:
                return True
    containers = (*spec.containers, *spec.init_containers)
    has_ports = any(port.host_port for each in containers for port in each.ports)
    return has_ports or (spec.host_network and any(each.ports for each in containers))


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0
