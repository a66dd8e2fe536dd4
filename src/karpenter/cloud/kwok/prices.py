"""Prices of the simulated cloud that move: as a factor of the list price, or set.

A running machine is not told of a new price, as with a real cloud; asking what its offering
costs now gets the price of the moment.
"""

from collections.abc import Mapping
from dataclasses import replace

from karpenter.cloud.types import InstanceType, Offering

# Type, zone and capacity type
OfferingName = tuple[str, str, str]

_MOST_SHOWN = 16


class Prices:
    """The prices that differ from the list."""

    def __init__(self) -> None:
        self._set: dict[OfferingName, float] = {}
        # by identity of the types, which are kept for it
        self._shown: dict[int, tuple[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = {}

    def set(self, prices: Mapping[OfferingName, float]) -> None:
        """Let offerings have other prices from now on."""
        if any(self._set.get(name) != price for name, price in prices.items()):
            self._set.update(prices)
            self._shown.clear()

    def of(self, name: OfferingName) -> float | None:
        """The price of an offering, if it is not that of the list."""
        return self._set.get(name)

    def show(self, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """The types at the prices of the moment; the same object while nothing changes."""
        if not self._set:
            return types
        shown = self._shown.get(id(types))
        if shown is None:
            if len(self._shown) >= _MOST_SHOWN:
                self._shown.clear()
            changed = tuple(map(self._repriced, types))
            shown = self._shown[id(types)] = (types, changed)
        return shown[1]

    def _repriced(self, kind: InstanceType) -> InstanceType:
        offerings = tuple(self._offering(kind.name, each) for each in kind.offerings)
        return kind if offerings == kind.offerings else kind.with_offerings(offerings)

    def _offering(self, kind: str, offering: Offering) -> Offering:
        price = self._set.get((kind, offering.zone, offering.capacity_type))
        return offering if price is None else replace(offering, price=price)
