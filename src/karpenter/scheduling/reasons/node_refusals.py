"""Why machines that exist do not take a pod, counted by reason.

The state at the end of a pass is used, so pods that the pass itself has placed count. Each machine
gives the first reason that applies.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from karpenter.model.resources import readable_amount
from karpenter.model.taints import first_untolerated, format_taint
from karpenter.scheduling.compiled.existing_nodes import NodeTarget
from karpenter.scheduling.compiled.host_ports import conflict
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.devices.protocol import Devices
from karpenter.scheduling.packing.packer import Packing
from karpenter.scheduling.packing.topology import Closed, Hosts, open_domains, open_hosts
from karpenter.scheduling.reasons.daemon_overhead import blame_on_machine
from karpenter.scheduling.reasons.placements import States


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Machines that refuse a pod for one reason."""

    detail: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """The verdicts of a cluster's machines on a pod."""

    possible: tuple[str, ...]
    refusals: tuple[NodeRefusal, ...]  # the most frequent first

    @property
    def total(self) -> int:
        """How many machines were checked."""
        return len(self.possible) + sum(len(refusal.nodes) for refusal in self.refusals)


def node_verdicts(
    compiled: CompiledProblem,
    packing: Packing,
    states: States,
    devices: Devices,
    position: int,
    stage: Stage,
) -> NodeVerdicts:
    """Check every machine for the pod at a position of the pass, as if it were not placed yet."""
    question = _Question(compiled, packing, states, devices, compiled.class_of[position], stage)
    possible: list[str] = []
    refused: dict[str, list[str]] = {}
    free: dict[str, int] = {}  # reason -> the most of what is missing that any machine has
    for number, target in enumerate(compiled.nodes.targets):
        is_there = position in packing.on_nodes.get(number, ())
        refusal = None if is_there else next(question.objections(number, target), None)
        if refusal is None:
            possible.append(target.name)
            continue
        detail, has = refusal
        refused.setdefault(detail, []).append(target.name)
        free[detail] = max(free.get(detail, 0), has)
    refusals = [
        NodeRefusal(question.completed(detail, free[detail]), tuple(sorted(names)))
        for detail, names in refused.items()
    ]
    refusals.sort(key=lambda refusal: (-len(refusal.nodes), refusal.detail))
    return NodeVerdicts(tuple(sorted(possible)), tuple(refusals))


class _Question:
    """One pod, to be checked against every machine."""

    def __init__(
        self,
        compiled: CompiledProblem,
        packing: Packing,
        states: States,
        devices: Devices,
        pod_class: PodClass,
        stage: Stage,
    ) -> None:
        self._compiled = compiled
        self._packing = packing
        self._devices = devices
        self._class = pod_class
        self._stage = stage
        hosts = open_hosts(states, stage.hosts) if stage.hosts else Hosts(-1, -1, True)
        self._hosts = 0 if isinstance(hosts, Closed) else hosts.nodes
        self._domains = self._open_machines(states)

    def objections(self, number: int, target: NodeTarget) -> Iterator[tuple[str, int]]:
        """Yield the objections to a machine, each with how much it has of what is missing."""
        bit = 1 << number
        if self._compiled.leaving_nodes & bit:
            yield "on its way out", 0
        taint = first_untolerated(target.taints, self._stage.tolerations)
        if taint is not None:
            yield f"the pod does not tolerate {format_taint(taint)}", 0
        incompatible = target.requirements.incompatibility(self._stage.requirements)
        if incompatible is not None:
            yield f"labels do not match {incompatible.incoming}", 0
        yield from self._lacking_room(number, target)
        if self._class.has_extras and self._lacks_extras(number, target):
            yield "host ports are taken, or volumes cannot be attached", 0
        if self._class.uses_devices and self._devices.to_node(number, self._class) is None:
            yield "the devices it asks for are not free", 0
        if self._hosts & bit == 0 or self._domains & bit == 0:
            yield "topology rules leave it out", 0

    def completed(self, detail: str, has: int) -> str:
        """Add the figures to a reason that is about room."""
        for name, amount in self._class.needs:
            if detail == _too_little(name):
                needs, most = readable_amount(name, amount), readable_amount(name, has)
                return f"{detail}: needs {needs}, the most that is free is {most}"
        return detail

    def _lacking_room(self, number: int, target: NodeTarget) -> Iterator[tuple[str, int]]:
        free = dict(target.free.items())
        for placed in self._placed(number):
            for name, amount in placed.needs:
                free[name] = free.get(name, 0) - amount
        for name, amount in self._class.needs:
            if free.get(name, 0) < amount:
                has = free.get(name, 0)
                kept = self._kept_for_daemons(number, target, name, amount - has)
                yield (_too_little(name), has) if kept is None else (kept, 0)
        if any(amount < 0 for amount in free.values()):
            yield "holds more than it has room for", 0

    def _kept_for_daemons(
        self, number: int, target: NodeTarget, name: str, missing: int
    ) -> str | None:
        node, daemons = self._compiled.state_nodes[number], self._compiled.problem.daemons
        return blame_on_machine(node, target.requirements, daemons, name, missing)

    def _placed(self, number: int) -> list[PodClass]:
        """The classes of the pods that the pass has put on a machine."""
        return [self._compiled.class_of[at] for at in self._packing.on_nodes.get(number, ())]

    def _lacks_extras(self, number: int, target: NodeTarget) -> bool:
        placed = self._placed(number)
        ports = (*target.ports, *(port for other in placed for port in other.ports))
        if self._class.ports and conflict(self._class.ports, ports) is not None:
            return True
        volumes = self._class.volumes
        if volumes.alternatives and not any(
            target.requirements.is_compatible(each) for each in volumes.alternatives
        ):
            return True
        return any(
            len(claims.union(*self._attached(driver, target, placed))) > limit
            for driver, claims in volumes.attached.items()
            if (limit := target.attach_limits.get(driver)) is not None
        )

    @staticmethod
    def _attached(
        driver: str, target: NodeTarget, placed: list[PodClass]
    ) -> Iterator[frozenset[str]]:
        yield target.attached.get(driver, frozenset())
        for other in placed:
            yield other.volumes.attached.get(driver, frozenset())

    def _open_machines(self, states: States) -> int:
        choices = open_domains(states, self._stage.domains) if self._stage.domains else []
        if isinstance(choices, Closed):
            return 0
        machines = -1
        for choice in choices:
            machines &= self._compiled.nodes.in_domains(choice.key, choice.domains)
        return machines


def _too_little(name: str) -> str:
    return f"too little {name}"
