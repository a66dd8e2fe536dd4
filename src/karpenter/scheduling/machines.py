"""The machines of a problem, each looked at once for as long as nothing about it changes.

State hands out the same ``StateNode`` until something about the machine or its pods changes, so
machines are known by identity. Most of a large cluster is the same from one solve to the next.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from karpenter.api.pods import Pod
from karpenter.scheduling.daemons import Daemon, reserve_on
from karpenter.scheduling.existing import NodeIndex, NodeTarget, machine_requirements
from karpenter.scheduling.fingerprints import fingerprint
from karpenter.scheduling.ports import host_ports
from karpenter.scheduling.problem import BoundVolumes, Problem
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active

_NO_BOUND_VOLUMES: Final = BoundVolumes()


class Machines:
    """Makes the places of machines, each once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._daemons: Sequence[Daemon] = ()
        self._known: dict[int, tuple[StateNode, BoundVolumes, NodeTarget]] = {}  # by identity
        self._index = NodeIndex(())

    def index(self, problem: Problem, ordered: Iterable[StateNode]) -> NodeIndex:
        """The machines of a problem, in this order; those no longer there are forgotten."""
        if list(problem.daemons) != list(self._daemons):
            self._known.clear()
            self._daemons = problem.daemons
        places = [self._place(problem, node) for node in ordered]
        self._known = {id(place[0]): place for place in places}
        targets = [target for _, _, target in places]
        if len(targets) != len(self._index.targets) or any(
            new is not old for new, old in zip(targets, self._index.targets, strict=True)
        ):
            self._index = NodeIndex(targets)
        return self._index

    def _place(
        self, problem: Problem, node: StateNode
    ) -> tuple[StateNode, BoundVolumes, NodeTarget]:
        volumes = problem.node_volumes.get(node.name, _NO_BOUND_VOLUMES)
        known = self._known.get(id(node))
        if known is not None and known[0] is node and known[1] == volumes:
            return known
        return node, volumes, _target(node, volumes, problem.daemons)


def _target(node: StateNode, volumes: BoundVolumes, daemons: Sequence[Daemon]) -> NodeTarget:
    requirements = machine_requirements(node.labels, node.hostname)
    kinds = tuple(_kind(pod) for pod in node.pods)
    return NodeTarget(
        name=node.name,
        requirements=requirements,
        taints=node.taints,
        free=node.allocatable - node.requested - reserve_on(node, requirements, daemons),
        ports=tuple(port for pod in node.pods for port in host_ports(pod.spec)),
        attached=volumes.attached,
        attach_limits=volumes.limits,
        kinds=kinds,
        repelling=tuple(
            (kind, pod) for kind, pod in zip(kinds, node.pods, strict=True) if _keeps_away(pod)
        ),
    )


def _keeps_away(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and bool(
        affinity.pod_anti_affinity and affinity.pod_anti_affinity.required
    )


def _kind(pod: Pod) -> bytes:
    """Equal for pods that count alike for topology."""
    affinity = pod.spec.affinity
    apart = affinity.pod_anti_affinity if affinity is not None else None
    return fingerprint((pod.metadata.namespace, pod.metadata.labels, apart, is_active(pod)))
