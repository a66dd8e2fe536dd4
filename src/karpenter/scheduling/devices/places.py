"""Where devices are searched: on a machine that exists, or on the offerings of a claim."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices.inventory import DevicePool, PoolDevice, Published
from karpenter.scheduling.devices.reach import NodeTerm
from karpenter.scheduling.packing.claims import Shape, Shapes


@dataclass(frozen=True, slots=True, eq=False)
class TypeGroup:
    """Offerings whose types will publish the same devices; compared by identity."""

    bits: int
    devices: tuple[PoolDevice, ...]
    problem: str


class NodePlace:
    """A machine that exists, with every device that can be reached from it."""

    __slots__ = ("_labels", "_name", "devices", "problem")

    def __init__(
        self,
        name: str,
        labels: Requirements,
        published: Published,
        promised: Sequence[DevicePool] | None,
    ) -> None:
        """Collect the devices of a node; ``promised`` are those of one not initialized yet."""
        self._name = name
        self._labels = labels
        around = (device for device in published.cluster if device.reach.includes(labels, name))
        if promised is None:
            self.devices: Sequence[PoolDevice] = (*published.of_node(name), *around)
            self.problem = published.problem_at(labels, name)
            return
        self.devices = (*around, *(device for pool in promised for device in pool.devices))
        # until it is initialized, its published devices and their completeness are ignored
        self.problem = next(
            (pool.problem for pool in promised if pool.problem), ""
        ) or published.problem_at(labels, "")

    def is_meant(self, terms: Sequence[NodeTerm]) -> bool:
        """Whether one of these alternatives matches the machine."""
        return any(term.admits(self._labels, self._name) for term in terms)

    def reached(
        self, spot: Shape | None, device: PoolDevice
    ) -> Iterator[tuple[Shape | None, NodeTerm | None]]:
        """The only way: an existing machine cannot be narrowed."""
        yield spot, device.reach.term_for(self._labels, self._name)


class ClaimPlace:
    """The offerings of a claim that publish the same devices, and what the cluster offers them."""

    __slots__ = ("_bits", "_shapes", "_well_known", "devices", "problem")

    def __init__(
        self,
        group: TypeGroup,
        bits: int,
        shapes: Shapes,
        well_known: frozenset[str],
        cluster: Sequence[PoolDevice],
        problem: str,
    ) -> None:
        """Collect the devices of the ``cluster`` first, then those of the group."""
        self._bits = bits
        self._shapes = shapes
        self._well_known = well_known
        self.devices: Sequence[PoolDevice] = (*cluster, *group.devices)
        self.problem = group.problem or problem

    def reached(
        self, spot: Shape | None, device: PoolDevice
    ) -> Iterator[tuple[Shape | None, NodeTerm | None]]:
        """The ways to narrow a claim so that its node will reach the device."""
        assert spot is not None
        if device.is_template or device.reach.is_everywhere:
            yield spot, None
            return
        for term in device.reach.terms or ():
            shape = narrowed(self._shapes, spot, term, self._well_known)
            if shape is not None and shape.bits & self._bits:
                yield shape, term


def narrowed(
    shapes: Shapes, shape: Shape, term: NodeTerm, well_known: frozenset[str]
) -> Shape | None:
    """The shape once it satisfies a term, or None when it cannot."""
    if not term.admits_new_nodes:
        return None
    if not shape.requirements.is_compatible(term.requirements, well_known):
        return None
    return shapes.of(shape.requirements & term.requirements)
