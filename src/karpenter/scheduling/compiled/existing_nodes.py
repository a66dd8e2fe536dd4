"""Machines that exist or are on their way, as places for pods.

Machines are numbered in the order they are tried: initialized ones first, then by name. Which
machines suit a stage of a pod at all (labels, taints, room at the outset) is one mask, found from
per-label and per-resource indices; only what is left of it is looked at one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod
from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.classes import PodClass, Stage
from karpenter.scheduling.ports import HostPort
from karpenter.scheduling.universe import Levels, levels_of, members


class NodeTarget:
    """One machine with what is free on it; never changed by a solve."""

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
            requirements: its labels, its hostname among them.
            kinds: for each pod on it, something equal for pods that count alike for topology.
            repelling: those of the pods on it that keep others away, with their kinds.
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
        """Machines a pod could go to as far as labels, taints and initial room are concerned."""
        found = self.everything
        for requirement in stage.requirements:
            found &= self.with_label(requirement)
        for name, amount in pod_class.needs:
            found &= self._free(name).at_least(amount)
        for taints, machines in self._by_taints.items():
            if taints and first_untolerated(taints, stage.tolerations):
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
