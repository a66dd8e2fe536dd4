"""What pods placed in this pass have taken of the machines that exist.

Which machines still have room for a class is kept as masks: for some of the amounts that classes
need of a resource, the machines that have as much. A machine's bits are cleared as it fills up, so
machines that are full for everybody cost nobody a look.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.devices.protocol import Devices
from karpenter.scheduling.existing import NodeIndex, NodeTarget
from karpenter.scheduling.ports import HostPort, conflict

_MOST_STEPS: Final = 64  # per resource; more make masks sharper and placing dearer


class NodeRoom:
    """The free room of every machine, less what this pass has put there."""

    __slots__ = ("_attached", "_devices", "_free", "_nodes", "_ports", "_steps")

    def __init__(
        self, nodes: NodeIndex, devices: Devices, classes: Iterable[PodClass] = ()
    ) -> None:
        """Begin with what is free before the pass; ``classes`` are those that will come."""
        self._nodes = nodes
        self._devices = devices
        self._free: dict[int, dict[str, int]] = {}  # machine -> resource -> what is left
        self._ports: dict[int, tuple[HostPort, ...]] = {}
        self._attached: dict[int, dict[str, frozenset[str]]] = {}
        needed: dict[str, set[int]] = {}
        if nodes.targets:
            for pod_class in classes:
                for name, amount in pod_class.needs:
                    needed.setdefault(name, set()).add(amount)
        self._steps = {name: _Steps(nodes, name, sorted(needed[name])) for name in needed}

    def perhaps(self, pod_class: PodClass) -> int:
        """Machines that may have room for a pod; all others have not, and never will."""
        machines = -1
        for name, amount in pod_class.needs:
            machines &= self._steps[name].at_least(amount)
        return machines

    def take(self, number: int, pod_class: PodClass) -> bool:
        """Put a pod on a machine if there is room, and say whether there was.

        A machine only fills up, so a refusal is final.
        """
        target = self._nodes.targets[number]
        free = self._free.get(number)
        if free is None:
            free = self._free[number] = dict(target.free.items())
        for name, amount in pod_class.needs:
            if free.get(name, 0) < amount:
                return False
        grant = None
        if pod_class.uses_devices:
            grant = self._devices.to_node(number, pod_class)
            if grant is None:
                return False
        if pod_class.has_extras and not self._take_extras(number, target, pod_class):
            return False
        if grant is not None:
            grant.commit()
        for name, amount in pod_class.needs:
            before = free[name]
            free[name] = before - amount
            self._steps[name].lower(number, before, before - amount)
        return True

    def _take_extras(self, number: int, target: NodeTarget, pod_class: PodClass) -> bool:
        taken = self._ports.get(number, target.ports)
        if pod_class.ports and conflict(pod_class.ports, taken) is not None:
            return False
        volumes = pod_class.volumes
        if volumes.alternatives and not any(
            target.requirements.is_compatible(alternative) for alternative in volumes.alternatives
        ):
            return False
        attached = dict(self._attached.get(number, target.attached))
        for driver, claims in volumes.attached.items():
            together = attached.get(driver, frozenset()) | claims
            limit = target.attach_limits.get(driver)
            if limit is not None and len(together) > limit:
                return False
            attached[driver] = together
        if volumes.attached:
            self._attached[number] = attached
        if pod_class.ports:
            self._ports[number] = (*taken, *pod_class.ports)
        return True


class _Steps:
    """For one resource: the machines that still have at least as much, for some amounts."""

    __slots__ = ("_amounts", "_masks")

    def __init__(self, nodes: NodeIndex, name: str, amounts: list[int]) -> None:
        self._amounts = amounts[:: 1 + (len(amounts) - 1) // _MOST_STEPS]
        self._masks = [nodes.with_free(name, amount) for amount in self._amounts]

    def at_least(self, amount: int) -> int:
        """Machines with this much, and perhaps some with a little less."""
        return self._masks[bisect_right(self._amounts, amount) - 1]

    def lower(self, number: int, before: int, after: int) -> None:
        """Note that a machine has less than before."""
        amounts = self._amounts
        first, end = bisect_right(amounts, after), bisect_right(amounts, before)
        if first < end:
            others = ~(1 << number)
            for step in range(first, end):
                self._masks[step] &= others
