"""What pods placed in this pass have taken of the machines that exist."""

from collections.abc import Iterable

from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.devices.protocol import Devices
from karpenter.scheduling.existing import NodeIndex, NodeTarget
from karpenter.scheduling.ports import HostPort, conflict
from karpenter.scheduling.steps import Steps


class NodeRoom:
    """The free room of every machine, less what this pass has put there."""

    __slots__ = ("_attached", "_devices", "_free", "_nodes", "_ports", "_steps")

    def __init__(self, nodes: NodeIndex, devices: Devices, classes: Iterable[PodClass]) -> None:
        """Begin with what is free before the pass; ``classes`` are those of the pods to come."""
        self._nodes = nodes
        self._devices = devices
        self._free: dict[int, dict[str, int]] = {}  # machine -> resource -> what is left
        self._ports: dict[int, tuple[HostPort, ...]] = {}
        self._attached: dict[int, dict[str, frozenset[str]]] = {}
        self._steps = Steps(classes if nodes.targets else (), nodes.with_free)

    def perhaps(self, pod_class: PodClass) -> int:
        """Machines that may have room for a pod; all others have not, and never will."""
        return self._steps.perhaps(pod_class)

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
            self._steps.lower(number, name, before - amount, before)
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
