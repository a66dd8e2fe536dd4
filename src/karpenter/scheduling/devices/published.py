"""The devices that drivers have published so far, found by where they can be reached."""

from collections.abc import Iterable, Sequence

from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices.inventory import DeviceKey, DevicePool, PoolDevice
from karpenter.scheduling.packing.claims import Shape


class Published:
    """Every published device, in the order devices are preferred."""

    __slots__ = ("_local", "_troubled", "by_key", "cluster")

    def __init__(self, pools: Iterable[DevicePool]) -> None:
        """Index pools."""
        self.by_key: dict[DeviceKey, PoolDevice] = {}
        self.cluster: list[PoolDevice] = []  # those that stand in no node
        self._local: dict[str, list[PoolDevice]] = {}  # node -> devices that stand in it
        self._troubled: list[DevicePool] = []
        for pool in pools:
            if pool.problem:
                self._troubled.append(pool)
            for device in pool.devices:
                self.by_key[device.key] = device
                if device.reach.node_name is None:
                    self.cluster.append(device)
                else:
                    self._local.setdefault(device.reach.node_name, []).append(device)

    def of_node(self, name: str) -> Sequence[PoolDevice]:
        """The devices that stand in a node."""
        return self._local.get(name, ())

    def problem_at(self, labels: Requirements, name: str) -> str:
        """Why the devices a node can reach are not known; empty when they are."""
        for pool in self._troubled:
            if any(reach.includes(labels, name) for reach in pool.reaches):
                return pool.problem
        return ""

    def problem_for_new(self, shape: Shape, well_known: frozenset[str]) -> str:
        """Why the devices a planned node can reach are not known; empty when they are."""
        for pool in self._troubled:
            for reach in pool.reaches:
                if reach.is_everywhere or any(
                    term.admits_new_nodes
                    and shape.requirements.is_compatible(term.requirements, well_known)
                    for term in reach.terms or ()
                ):
                    return pool.problem
        return ""
