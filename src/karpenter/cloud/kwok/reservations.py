"""How much is left of each reservation: what the catalogue promises less the Nodes that use it."""

from collections import Counter
from typing import Final

from karpenter.api.nodes import Node
from karpenter.cloud.kwok.arrivals import Arrivals
from karpenter.cloud.kwok.leftovers import taken_by, what_is_left
from karpenter.cloud.types import InstanceType
from karpenter.kube.client import Kube
from karpenter.model import labels

_MOST_SHOWN: Final = 16
_Shown = tuple[tuple[InstanceType, ...], Counter[str], tuple[InstanceType, ...]]


class Reservations:
    """The reservations of a catalogue; asks nobody where there are none."""

    def __init__(self, kube: Kube, arrivals: Arrivals, types: tuple[InstanceType, ...]) -> None:
        self._kube = kube
        self._arrivals = arrivals
        self.exist: Final = any(each.is_reserved for kind in types for each in kind.offerings)
        self._shown: dict[int, _Shown] = {}  # by identity of the types, which are kept for it

    async def show(self, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """The types with what is left; the same object for as long as nothing changes."""
        if not self.exist:
            return types
        used = await self._used()
        shown = self._shown.get(id(types))
        if shown is None or shown[1] != used:
            if len(self._shown) >= _MOST_SHOWN:
                self._shown.clear()
            shown = self._shown[id(types)] = (types, used, what_is_left(types, used))
        return shown[2]

    async def _used(self) -> Counter[str]:
        # first those on their way: one that comes meanwhile may be missing from the list
        holders = self._arrivals.labels()
        nodes = await self._kube.list(Node, label_selector=labels.KWOK_RESERVATION_ID)
        holders |= {node.metadata.name: node.metadata.labels for node in nodes}
        return taken_by(holders.values())
