"""Whether a pod fits on one node, regardless of other nodes, and the node's score."""

from collections.abc import Iterable
from typing import Final

from karpenter_sandbox.matching import (
    NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    Taint,
    Toleration,
    any_term_holds,
    is_tolerated,
)
from karpenter_sandbox.scheduling import wording
from karpenter_sandbox.scheduling.nodes import NodeFacts, NodeState
from karpenter_sandbox.scheduling.requests import Requests
from karpenter_sandbox.scheduling.shapes import PodInfo, Shape
from karpenter_sandbox.scheduling.topology import BEST
from karpenter_sandbox.scheduling.volumes import NO_VOLUMES, VolumeNeeds
from karpenter_sandbox.scheduling.wording import Failure

_CORDON: Final = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)


def static_failure(shape: Shape, facts: NodeFacts) -> Failure | None:
    """Why a pod does not fit on a node, whichever pods are on it."""
    if facts.is_unschedulable and not is_tolerated(_CORDON, shape.tolerations):
        return wording.UNSCHEDULABLE
    if not tolerates(shape.tolerations, facts):
        return wording.TAINT
    if not matches_affinity(shape, facts):
        return wording.NODE_AFFINITY
    return None


def tolerates(tolerations: tuple[Toleration, ...], facts: NodeFacts) -> bool:
    """Whether no taint of the node keeps the pod away."""
    return all(is_tolerated(taint, tolerations) for taint in facts.taints)


def matches_affinity(shape: Shape, facts: NodeFacts) -> bool:
    """Whether the node matches the pod's node selector and node affinity."""
    return all(requirement.holds(facts.labels) for requirement in shape.node_selector) and (
        any_term_holds(shape.node_terms, facts.name, facts.labels)
    )


def dynamic_failure(shape: Shape, needs: VolumeNeeds, node: NodeState) -> Failure | None:
    """Why a pod does not fit on a node because of the pods on it now."""
    if shape.ports and not node.has_free(shape.ports):
        return wording.PORTS
    if shortage := _shortage(shape, node):
        return shortage
    return None if needs is NO_VOLUMES else needs.failure(node)


def _shortage(shape: Shape, node: NodeState) -> Failure | None:
    requests = shape.requests
    has = node.facts.allocatable
    pods, cpu, memory = len(node.pods), node.cpu, node.memory
    storage = node.storage
    waiting = _rivals(shape, node) if node.nominated else ()
    if waiting:
        pods += len(waiting)
        cpu += sum(pod.shape.requests.cpu for pod in waiting)
        memory += sum(pod.shape.requests.memory for pod in waiting)
        storage += sum(pod.shape.requests.storage for pod in waiting)
    if (
        pods < has.pods
        and requests.cpu <= has.cpu - cpu
        and requests.memory <= has.memory - memory
        and not requests.storage
        and not requests.scalars
    ):
        return None  # fast path: it fits, and requests no extended resources
    amounts = [
        ("cpu", requests.cpu, cpu, has.cpu),
        ("memory", requests.memory, memory, has.memory),
        ("ephemeral-storage", requests.storage, storage, has.ephemeral_storage),
        *_scalars(requests, node, waiting),
    ]
    reasons = [wording.TOO_MANY_PODS] if pods >= has.pods else []
    is_final = False
    for name, wanted, used, available in amounts:
        if wanted > 0 and wanted > available - used:
            reasons.append(wording.insufficient(name))
            is_final = is_final or wanted > available
    return Failure(tuple(reasons), is_final) if reasons else None


def _rivals(shape: Shape, node: NodeState) -> list[PodInfo]:
    """Pods nominated to the node, of at least the same priority."""
    return [pod for pod in node.nominated.values() if pod.shape.priority >= shape.priority]


def _scalars(
    requests: Requests, node: NodeState, waiting: Iterable[PodInfo]
) -> list[tuple[str, int, int, int]]:
    amounts = []
    for name, wanted in requests.scalars:
        used = node.scalars.get(name, 0)
        for pod in waiting:
            used += dict(pod.shape.requests.scalars).get(name, 0)
        amounts.append((name, wanted, used, node.facts.allocatable[name]))
    return amounts


def room_score(requests: Requests, node: NodeState) -> int:
    """How much room the pod would leave on a node, and how evenly; each counts up to 100."""
    has = node.facts.allocatable
    cpu, memory = has.cpu, has.memory
    score = 0
    parts = 0
    if cpu:
        left = cpu - node.weighed_cpu - requests.weighed_cpu
        score += BEST * left // cpu if left > 0 else 0
        parts += 1
    if memory:
        left = memory - node.weighed_memory - requests.weighed_memory
        score += BEST * left // memory if left > 0 else 0
        parts += 1
    if parts:
        score //= parts
    if requests.is_best_effort:
        return score
    if not (cpu and memory):
        return score + BEST
    used_cpu = min((node.cpu + requests.cpu) / cpu, 1.0)
    used_memory = min((node.memory + requests.memory) / memory, 1.0)
    return score + int((1 - abs(used_cpu - used_memory) / 2) * BEST)


def discouraging_taints(shape: Shape, facts: NodeFacts) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    if not facts.discouraging:
        return 0
    return sum(not is_tolerated(taint, shape.tolerations) for taint in facts.discouraging)


def node_preference(shape: Shape, facts: NodeFacts) -> int:
    """The weight of the pod's preferred node affinity that this node fulfils."""
    if not shape.preferred_nodes:
        return 0
    return sum(
        weight for weight, term in shape.preferred_nodes if term.holds(facts.name, facts.labels)
    )
