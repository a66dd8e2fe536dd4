"""What the nodes of a sandbox would cost, by the price list of the simulated provider.

The sandbox itself has no prices: the display looks them up here by the labels of a node.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from karpenter.cloud.kwok.catalogue import built_in, load
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as known

_AWS: Final = "aws"


class Prices(Protocol):
    """Prices of nodes in dollars an hour."""

    @property
    def are_estimates(self) -> bool:
        """Whether they are estimates, and not the cloud's own prices."""

    def of(self, labels: Mapping[str, str]) -> float | None:
        """The price of a node with these labels, or None when its type is not in the list."""


class PriceList:
    """The prices of a catalogue."""

    are_estimates = False

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self._in_zone: dict[tuple[str, str, str], float] = {}  # type, capacity type, zone -> price
        self._anywhere: dict[tuple[str, str], float] = {}  # type, capacity type -> highest price
        for kind in types:
            for offering in kind.offerings:
                place = (kind.name, offering.capacity_type)
                self._in_zone[*place, offering.zone] = offering.price
                self._anywhere[place] = max(offering.price, self._anywhere.get(place, 0.0))

    def of(self, labels: Mapping[str, str]) -> float | None:
        """The price of a node with these labels, or None when its type is not in the list.

        A node without a capacity type label counts as on-demand. In a zone that the list lacks,
        the highest price of the type applies.
        """
        capacity_type = labels.get(known.CAPACITY_TYPE, known.ON_DEMAND)
        place = (labels.get(known.INSTANCE_TYPE, ""), capacity_type)
        price = self._in_zone.get((*place, labels.get(known.ZONE, "")))
        return self._anywhere.get(place) if price is None else price


class SimulatedAwsPrices:
    """The prices of the simulated AWS, which are estimates."""

    are_estimates = True

    def __init__(self) -> None:
        from karpenter.cloud.aws.simulated.account import simulated_prices

        self._on_demand = simulated_prices()

    def of(self, labels: Mapping[str, str]) -> float | None:
        """The price of a node with these labels, or None when it is not of EC2."""
        from karpenter.cloud.aws.simulated.moto_gaps import spot_price

        name = labels.get(known.INSTANCE_TYPE, "")
        price = self._on_demand.get(name)
        if price is None or labels.get(known.CAPACITY_TYPE) != known.SPOT:
            return price
        return spot_price(name, labels.get(known.ZONE, ""), price)


def price_list(provider: str = "", file: str = "") -> Prices:
    """The prices of everything a simulated provider sells, or of what a file lists instead."""
    if provider == _AWS:
        return SimulatedAwsPrices()
    return PriceList(load(Path(file).read_bytes(), file) if file else built_in())
