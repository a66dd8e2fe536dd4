"""Gauges of the offerings: price and availability.

A region has ten thousand offerings, so they are kept as the lines that are scraped and not as
objects, and a type's lines are rebuilt only when the type has changed.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.cloud.aws.types.facts import TypeFacts
from karpenter.cloud.aws.types.instance_types import InstanceTypes
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.telemetry import Metrics
from karpenter.telemetry.exposition import gauge, label_text, number

PERIOD: Final = 60.0
_AT_ONCE: Final = 20  # types per turn of the event loop
_PREFIX: Final = "karpenter_cloudprovider_instance_type_"
_AVAILABLE: Final = (f"{_PREFIX}offering_available", "Whether an offering can be had, 1 or 0.")
_PRICE: Final = (
    f"{_PREFIX}offering_price_estimate",
    "What an hour of an offering is estimated to cost.",
)
_CORES: Final = (f"{_PREFIX}cpu_cores", "The vCPUs of an instance type.")
_MEMORY: Final = (f"{_PREFIX}memory_bytes", "The memory of a type.")
_MIB: Final = 2**20

_Places: TypeAlias = dict[tuple[str, str], float]  # capacity type and zone -> value


@dataclass(frozen=True, slots=True)
class _Shown:
    """One type as it is scraped."""

    available: str
    prices: str


class OfferingGauges(Rounds):
    """Shows instance types."""

    name = "cloudprovider.metrics"

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        view: ClusterView,
        types: InstanceTypes,
        *,
        shows_reserved: bool,
    ) -> None:
        super().__init__(clock, metrics)
        self._view = view
        self._types = types
        self._shows_reserved = shows_reserved
        self._known: dict[str, dict[str, InstanceType]] = {}  # node class -> its types by name
        self._shown: dict[str, _Shown] = {}  # by the name of the type

    async def run(self) -> None:
        """Work until cancelled."""
        remove = self.metrics.add_lines(self.lines)
        try:
            await super().run()
        finally:
            remove()

    async def step(self) -> float:
        """Show what has changed."""
        await self._view.synced()
        changed: dict[str, None] = {}
        classes = [each for each in self._view.node_classes.list() if each.status.subnets]
        for gone in self._known.keys() - {each.metadata.name for each in classes}:
            changed |= dict.fromkeys(self._known.pop(gone))
        for node_class in classes:
            known = self._known.setdefault(node_class.metadata.name, {})
            for kind in await self._types.list(node_class):
                if known.get(kind.name) is not kind:
                    known[kind.name] = kind
                    changed[kind.name] = None
        for count, name in enumerate(changed, start=1):
            self._show(name)
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return PERIOD

    def lines(self) -> Iterator[str]:
        """Everything that is shown, bit by bit."""
        facts = list(self._types.catalogue.facts)
        yield gauge(*_CORES, (_sample(each, each.vcpus) for each in facts))
        yield gauge(*_MEMORY, (_sample(each, each.memory_mib * _MIB) for each in facts))
        yield from _in_pieces(_AVAILABLE, (each.available for each in self._shown.values()))
        yield from _in_pieces(_PRICE, (each.prices for each in self._shown.values()))

    def _show(self, name: str) -> None:
        """Write a type as the node classes see it; where they differ, the last one counts."""
        available: _Places = {}
        prices: _Places = {}
        for types in self._known.values():
            kind = types.get(name)
            for offering in () if kind is None else kind.offerings:
                place = (offering.capacity_type, offering.zone)
                available[place] = float(offering.is_launchable)
                prices[place] = offering.price
        if not available:
            self._shown.pop(name, None)
            return
        if self._shows_reserved:
            # a series that is always there lets alerts tell "none" from "not known"
            for zone in {zone for _, zone in available}:
                available.setdefault((labels.RESERVED, zone), 0.0)
        self._shown[name] = _Shown(
            _text(_AVAILABLE[0], name, available), _text(_PRICE[0], name, prices)
        )


def _text(family: str, instance_type: str, places: Mapping[tuple[str, str], float]) -> str:
    kind = label_text({"instance_type": instance_type})
    return "".join(
        f'{family}{{capacity_type="{purchase}",{kind},zone="{zone}"}} {number(value)}\n'
        for (purchase, zone), value in sorted(places.items())
    )


def _sample(facts: TypeFacts, value: float) -> str:
    return f"{{{label_text({'instance_type': facts.name})}}} {number(value)}"


def _in_pieces(family: tuple[str, str], texts: Iterable[str]) -> Iterator[str]:
    yield gauge(*family, ())
    left = iter(list(texts))
    while piece := "".join(islice(left, _AT_ONCE)):
        yield piece
