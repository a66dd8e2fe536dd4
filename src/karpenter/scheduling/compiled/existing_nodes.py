"""Machines that exist or are starting, as places for pods.

Machines are numbered in the order they are tried: initialized ones first, then by name. Which
machines suit a stage of a pod at all (labels, taints, initial room) is one mask, computed from
per-label and per-resource indices; only the machines in it are checked one by one.

State hands out the same ``StateNode`` until something about the machine or its pods changes, so
machines are cached by identity and compiled once. Most of a large cluster is the same from one
solve to the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod, Toleration
from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.compiled.fingerprints import fingerprint
from karpenter.scheduling.compiled.host_ports import HostPort, host_ports
from karpenter.scheduling.compiled.offerings import Levels, levels_of, members
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.inputs.daemons import Daemon, reserve_on
from karpenter.scheduling.problem import BoundVolumes, Problem
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active

_NO_BOUND_VOLUMES: Final = BoundVolumes()


class NodeTarget:
    """One machine with its free room; a solve does not change it."""

    __slots__ = (
        "attach_limits",
        "attached",
        "free",
        "kinds",
        "name",
        "ports",
        "repelling",
        "requirements",
        "taints",
    )

    def __init__(
        self,
        name: str,
        requirements: Requirements,
        taints: tuple[Taint, ...],
        free: Resources,
        ports: tuple[HostPort, ...] = (),
        attached: Mapping[str, frozenset[str]] | None = None,
        attach_limits: Mapping[str, int] | None = None,
        kinds: tuple[bytes, ...] = (),
        repelling: tuple[tuple[bytes, Pod], ...] = (),
    ) -> None:
        """Describe a machine.

        Args:
            requirements: its labels, including its hostname.
            kinds: for each pod on it, a key that is equal for pods that count alike for topology.
            repelling: the pods on it with required anti-affinity, with their kinds.
        """
        self.name: Final = name
        self.requirements: Final = requirements
        self.taints: Final = taints
        self.free: Final = free
        self.ports: Final = ports
        self.attached: Final = attached or {}
        self.attach_limits: Final = attach_limits or {}
        self.kinds: Final = kinds
        self.repelling: Final = repelling


class NodeIndex:
    """Every machine of a cluster, indexed by label, taint and free room."""

    __slots__ = ("_by_taints", "_domains", "_levels", "_values", "everything", "targets")

    def __init__(self, targets: Sequence[NodeTarget]) -> None:
        """Index machines in the order they are to be tried."""
        self.targets = tuple(targets)
        self.everything = _mask(
            i
            for i, target in enumerate(self.targets)
            if all(amount >= 0 for _, amount in target.free.items())
        )
        self._values: dict[str, dict[str, int]] = {}  # label -> value -> machines
        self._by_taints: dict[tuple[Taint, ...], int] = {}
        for number, target in enumerate(self.targets):
            bit = 1 << number
            for requirement in target.requirements:
                values = self._values.setdefault(requirement.key, {})
                for value in requirement.values:
                    values[value] = values.get(value, 0) | bit
            self._by_taints[target.taints] = self._by_taints.get(target.taints, 0) | bit
        self._levels: dict[str, Levels] = {}
        self._domains: dict[str, list[str | None]] = {}  # label -> value of each machine

    def suitable(self, pod_class: PodClass, stage: Stage) -> int:
        """Machines that suit a pod by labels, taints and initial room."""
        return self._suited(pod_class, stage.requirements, stage.tolerations)

    def allowed(self, pod_class: PodClass, stage: Stage) -> int:
        """The same, whatever the pod prefers."""
        return self._suited(pod_class, stage.strict, stage.tolerations)

    def _suited(
        self, pod_class: PodClass, wanted: Requirements, tolerations: Sequence[Toleration]
    ) -> int:
        found = self.everything
        for requirement in wanted:
            found &= self.with_label(requirement)
        for name, amount in pod_class.needs:
            found &= self._free(name).at_least(amount)
        for taints, machines in self._by_taints.items():
            if taints and first_untolerated(taints, tolerations):
                found &= ~machines
        return found

    def with_free(self, name: str, amount: int) -> int:
        """Machines that have this much of a resource to begin with."""
        return self._free(name).at_least(amount)

    def in_domains(self, key: str, domains: Iterable[str]) -> int:
        """Machines whose label has one of these values."""
        values = self._values.get(key, {})
        machines = 0
        for domain in domains:
            machines |= values.get(domain, 0)
        return machines

    def domains(self, key: str) -> Mapping[str, int]:
        """The values that machines have of a label, each with the machines that have it."""
        return self._values.get(key, {})

    def domain_of(self, number: int, key: str) -> str | None:
        """The value of a machine's label, or None when it has none."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = [None] * len(self.targets)
            for value, machines in self.domains(key).items():
                for machine in members(machines):
                    found[machine] = value
        return found[number]

    def with_label(self, requirement: Requirement) -> int:
        """Machines that satisfy a requirement; a label that is missing satisfies only absence."""
        values = self._values.get(requirement.key, {})
        if not requirement.complement and requirement.values:
            return _union(values.get(value, 0) for value in requirement.values)
        having = _union(machines for value, machines in values.items() if requirement.has(value))
        if requirement.allows_absence:
            having |= ~_union(values.values())
        return having

    def _free(self, name: str) -> Levels:
        levels = self._levels.get(name)
        if levels is None:
            pairs = ((target.free, 1 << i) for i, target in enumerate(self.targets))
            levels = self._levels[name] = levels_of(pairs, name)
        return levels


def machine_requirements(labels: Mapping[str, str], hostname: str) -> Requirements:
    """A machine's labels as requirements, with its hostname whether or not it is labelled."""
    return Requirements.from_labels({**labels, HOSTNAME: hostname})


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _mask(numbers: Iterable[int]) -> int:
    return _union(1 << number for number in numbers)


class Machines:
    """Compiles machines to targets, each once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._daemons: Sequence[Daemon] = ()
        self._known: dict[int, tuple[StateNode, BoundVolumes, NodeTarget]] = {}  # by identity
        # Labels, by the name of the machine: its pods change far more often
        self._labels: dict[str, tuple[Mapping[str, str], Requirements]] = {}
        self._index = NodeIndex(())

    def index(self, problem: Problem, ordered: Iterable[StateNode]) -> NodeIndex:
        """The machines of a problem, in this order; those no longer there are forgotten."""
        if list(problem.daemons) != list(self._daemons):
            self._known.clear()
            self._daemons = problem.daemons
        places = [self._place(problem, node) for node in ordered]
        self._known = {id(place[0]): place for place in places}
        if len(self._labels) > len(places):
            there = {node.name for node, _, _ in places}
            self._labels = {name: known for name, known in self._labels.items() if name in there}
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
        return node, volumes, _target(node, self._requirements(node), volumes, problem.daemons)

    def _requirements(self, node: StateNode) -> Requirements:
        labels = {**node.labels, HOSTNAME: node.hostname}
        known = self._labels.get(node.name)
        if known is None or known[0] != labels:
            known = self._labels[node.name] = labels, Requirements.from_labels(labels)
        return known[1]


def _target(
    node: StateNode, requirements: Requirements, volumes: BoundVolumes, daemons: Sequence[Daemon]
) -> NodeTarget:
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
    """A key that is equal for pods that count alike for topology."""
    affinity = pod.spec.affinity
    apart = affinity.pod_anti_affinity if affinity is not None else None
    return fingerprint((pod.metadata.namespace, pod.metadata.labels, apart, is_active(pod)))
