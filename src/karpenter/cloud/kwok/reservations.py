"""How much is left of each reservation: what the catalogue promises less the Nodes that use it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from karpenter.api.node_classes import kwok_labels
from karpenter.api.nodes import Node
from karpenter.cloud.types import InstanceType, Offering

if TYPE_CHECKING:  # its import loads asyncio, which plans do not need
    from karpenter.cloud.kwok.arrivals import Arrivals
    from karpenter.kube.client import Kube

_MOST_SHOWN: Final = 16
_Shown = tuple[tuple[InstanceType, ...], Counter[str], tuple[InstanceType, ...]]


def what_is_left(types: tuple[InstanceType, ...], used: Counter[str]) -> tuple[InstanceType, ...]:
    """The types with what is left of each reservation when so many machines use it."""
    return tuple(_less(kind, used) for kind in types)


def taken_by(holders: Iterable[Mapping[str, str]]) -> Counter[str]:
    """How many machines use each reservation, according to their labels."""
    held = (found.get(kwok_labels.RESERVATION_ID, "") for found in holders)
    return Counter(filter(None, held))


def _less(kind: InstanceType, used: Counter[str]) -> InstanceType:
    if not any(used[each.reservation_id] for each in kind.offerings if each.is_reserved):
        return kind
    return kind.with_offerings(tuple(_offering_less(each, used) for each in kind.offerings))


def _offering_less(offering: Offering, used: Counter[str]) -> Offering:
    if not offering.is_reserved:
        return offering
    left = offering.reservation_capacity - used[offering.reservation_id]
    return replace(offering, reservation_capacity=max(0, left))


class Reservations:
    """The reservations of a catalogue; makes no requests where there are none."""

    def __init__(self, kube: "Kube", arrivals: "Arrivals", types: tuple[InstanceType, ...]) -> None:
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
        # pending Nodes first: one created meanwhile may be missing from the list
        holders = self._arrivals.labels()
        nodes = await self._kube.list(Node, label_selector=kwok_labels.RESERVATION_ID)
        holders |= {node.metadata.name: node.metadata.labels for node in nodes}
        return taken_by(holders.values())
