"""Nodes as the scheduler sees them: what they are, and what is taken of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.model.resources import Resources
from karpenter_sandbox.matching import PREFER_NO_SCHEDULE, Taint, read_taints
from karpenter_sandbox.scheduling.requests import allocatable
from karpenter_sandbox.scheduling.shapes import PodInfo, Port

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 what a port without an address means, nothing listens


@dataclass(eq=False, slots=True)
class NodeFacts:
    """The relevant fields of a Node; replaced by another instance whenever one of them changes."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]  # NoSchedule and NoExecute
    discouraging: tuple[Taint, ...]  # PreferNoSchedule
    is_unschedulable: bool
    allocatable: Resources

    def says_the_same(self, other: "NodeFacts") -> bool:
        """Whether the two are equal in everything that the scheduler reads."""
        return (
            self.labels == other.labels
            and self.taints == other.taints
            and self.discouraging == other.discouraging
            and self.is_unschedulable == other.is_unschedulable
            and self.allocatable == other.allocatable
        )


def read_node(node: JsonObject) -> NodeFacts:
    """Read what the scheduler needs to know of a node."""
    spec = node.get("spec") or {}
    taints = read_taints(spec.get("taints"))
    return NodeFacts(
        name=node["metadata"]["name"],
        labels=node["metadata"].get("labels") or {},
        taints=tuple(taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE),
        discouraging=tuple(taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE),
        is_unschedulable=bool(spec.get("unschedulable")),
        allocatable=allocatable(node),
    )


class NodeState:
    """A node with its pods; sums are kept as pods come and go."""

    __slots__ = (
        "cpu",
        "drivers",
        "facts",
        "limits",
        "memory",
        "nominated",
        "pods",
        "ports",
        "scalars",
        "storage",
        "volumes",
        "weighed_cpu",
        "weighed_memory",
    )

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.pods: dict[str, PodInfo] = {}  # uid -> pod
        self.nominated: dict[str, PodInfo] = {}  # pods that wait for room here, by uid
        self.cpu = 0
        self.memory = 0
        self.storage = 0
        self.scalars: dict[str, int] = {}
        self.weighed_cpu = 0
        self.weighed_memory = 0
        self.ports: dict[Port, int] = {}
        self.volumes: dict[str, int] = {}  # volume -> pods here that use it
        self.drivers: dict[str, int] = {}  # CSI driver -> volumes attached here
        self.limits: Mapping[str, int] = {}  # CSI driver -> volumes it can attach here

    def add(self, pod: PodInfo) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        """Stop counting a pod."""
        del self.pods[pod.uid]
        self._count(pod, -1)

    def without(self, pods: Iterable[PodInfo]) -> "NodeState":
        """A copy that does not count ``pods``; volumes are taken to stay where they are."""
        copy = NodeState(self.facts)
        gone = {pod.uid for pod in pods}
        for pod in self.pods.values():
            if pod.uid not in gone:
                copy.add(pod)
        copy.nominated, copy.limits = self.nominated, self.limits
        copy.volumes, copy.drivers = self.volumes, self.drivers
        return copy

    def _count(self, pod: PodInfo, sign: int) -> None:
        requests = pod.shape.requests
        self.cpu += sign * requests.cpu
        self.memory += sign * requests.memory
        self.storage += sign * requests.storage
        self.weighed_cpu += sign * requests.weighed_cpu
        self.weighed_memory += sign * requests.weighed_memory
        for name, amount in requests.scalars:
            self.scalars[name] = self.scalars.get(name, 0) + sign * amount
        for port in pod.shape.ports:
            left = self.ports.get(port, 0) + sign
            if left:
                self.ports[port] = left
            else:
                del self.ports[port]

    def has_free(self, ports: tuple[Port, ...]) -> bool:
        """Whether none of ``ports`` is taken."""
        if not self.ports:
            return True
        return not any(_collide(wanted, taken) for wanted in ports for taken in self.ports)


def _collide(wanted: Port, taken: Port) -> bool:
    return wanted[1:] == taken[1:] and (
        wanted[0] == taken[0] or _ANY_ADDRESS in (wanted[0], taken[0])
    )
