"""How much room is left on machines that exist and on planned claims, and which may have enough.

Room only shrinks. So for each amount of a resource that classes of pods request, a mask holds the
places that may have as much; a place's bit is cleared once it has less. A place that is full for
every class is then never checked again. With many different amounts only some have a mask, and the
mask of the next lower one is used: it may contain a place too many, never one too few.

The room of a claim is computed only when it finally refuses a pod: what does not fit now never
will, and many claims never refuse a pod.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from karpenter.scheduling.compiled.existing_nodes import NodeIndex, NodeTarget
from karpenter.scheduling.compiled.host_ports import HostPort, conflict
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.devices.protocol import Devices
from karpenter.scheduling.packing.claims import OpenClaim

_MOST_STEPS: Final = 64  # per resource; more make masks more exact and updates more expensive


class RoomIndex:
    """For every resource: the places that may have at least so much, by amount."""

    __slots__ = ("_by_name", "_slots")

    def __init__(self, classes: Iterable[PodClass], having: Callable[[str, int], int]) -> None:
        """Keep masks for what ``classes`` need; ``having`` gives the initial mask of an amount."""
        needed: dict[str, set[int]] = {}
        for pod_class in classes:
            for name, amount in pod_class.needs:
                needed.setdefault(name, set()).add(amount)
        self._by_name: dict[str, tuple[Sequence[int], list[int]]] = {}  # amounts, their masks
        for name, found in needed.items():
            amounts = sorted(found)[:: 1 + (len(found) - 1) // _MOST_STEPS]
            self._by_name[name] = amounts, [having(name, amount) for amount in amounts]
        self._slots: dict[int, list[tuple[list[int], int]]] = {}  # class -> masks, and which one

    def perhaps(self, pod_class: PodClass) -> int:
        """Places that may have room for a pod; all others are finally too full."""
        slots = self._slots.get(pod_class.number)
        if slots is None:
            slots = [self._slot(name, amount) for name, amount in pod_class.needs]
            self._slots[pod_class.number] = slots
        places = -1
        for masks, step in slots:
            places &= masks[step]
        return places

    def lower(self, place: int, name: str, left: int, before: int | None = None) -> None:
        """Clear the bits of a place that has ``left`` of a resource, and had ``before``."""
        amounts, masks = self._by_name[name]
        first = bisect_right(amounts, left)
        end = len(amounts) if before is None else bisect_right(amounts, before)
        if first < end:
            others = ~(1 << place)
            for step in range(first, end):
                masks[step] &= others

    @property
    def resources(self) -> Iterable[str]:
        """The resources that some class needs."""
        return self._by_name.keys()

    def _slot(self, name: str, amount: int) -> tuple[list[int], int]:
        amounts, masks = self._by_name[name]
        return masks, bisect_right(amounts, amount) - 1


class FullClaims:
    """What is known about the room of claims that have refused a pod."""

    __slots__ = ("_classes", "_steps")

    def __init__(self, classes: Iterable[PodClass]) -> None:
        """Begin without refusals; ``classes`` are those of the pods that will come."""
        self._classes = classes
        self._steps: RoomIndex | None = None

    def others(self, pod_class: PodClass) -> int:
        """The claims that are not known to be too full for a pod."""
        return -1 if self._steps is None else self._steps.perhaps(pod_class)

    def note(self, template: Template, claim: OpenClaim) -> None:
        """Record the room of a claim that has refused a pod."""
        if self._steps is None:
            self._steps = RoomIndex(self._classes, lambda name, amount: -1)
        for name in self._steps.resources:
            largest = template.levels(name).largest(claim.bits)
            self._steps.lower(claim.index, name, largest - claim.requests.get(name, 0))


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
        self._steps = RoomIndex(classes if nodes.targets else (), nodes.with_free)

    def perhaps(self, pod_class: PodClass) -> int:
        """Machines that may have room for a pod; all others are finally too full."""
        return self._steps.perhaps(pod_class)

    def take(self, number: int, pod_class: PodClass) -> bool:
        """Put a pod on a machine if there is room; return whether there was.

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
