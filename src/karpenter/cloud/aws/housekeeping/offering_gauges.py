"""Gauges of the offerings: price and availability.

A region has ten thousand offerings, so they are kept as the lines that are scraped and not as
objects, and a type's lines are rebuilt only when the type has changed. With the detail ``pool``
they are only counted, by zone and capacity type.
"""

import asyncio
from collections import Counter
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
from karpenter.telemetry.exposition import label_text, number
from karpenter.telemetry.family import Detail, Family

PERIOD: Final = 60.0
_AT_ONCE: Final = 20  # types per turn of the event loop
_PREFIX: Final = "karpenter_cloudprovider_instance_type_"
_PLACE_LABELS: Final = "capacity_type zone"
_OFFERING_LABELS: Final = "capacity_type instance_type zone"
_AVAILABLE: Final = Family(
    f"{_PREFIX}offering_available",
    "Whether an offering is available, 1 or 0.",
    _OFFERING_LABELS,
    per="offering",
    only=Detail.OBJECT,
)
_PRICE: Final = Family(
    f"{_PREFIX}offering_price_estimate",
    "Estimated price of an offering per hour.",
    _OFFERING_LABELS,
    per="offering",
    only=Detail.OBJECT,
)
_CORES: Final = Family(
    f"{_PREFIX}cpu_cores",
    "Number of vCPUs of an instance type.",
    "instance_type",
    per="instance type",
    only=Detail.OBJECT,
)
_MEMORY: Final = Family(
    f"{_PREFIX}memory_bytes",
    "Memory of an instance type.",
    "instance_type",
    per="instance type",
    only=Detail.OBJECT,
)
_COUNT: Final = Family.of_pools(
    "karpenter_cloudprovider_offerings",
    "How many instance types are sold in a zone.",
    _PLACE_LABELS,
)
_COUNT_AVAILABLE: Final = Family.of_pools(
    "karpenter_cloudprovider_offerings_available", "How many of them can be had.", _PLACE_LABELS
)
OFFERING_FAMILIES: Final = (_AVAILABLE, _PRICE, _CORES, _MEMORY, _COUNT, _COUNT_AVAILABLE)
_MIB: Final = 2**20

_Places: TypeAlias = dict[tuple[str, str], float]  # capacity type and zone -> value


@dataclass(frozen=True, slots=True)
class _Shown:
    """One type as it is scraped."""

    available: str
    prices: str
    places: Mapping[tuple[str, str], float]  # what is available where, 1 or 0


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
        """All lines, in pieces that yield to other tasks."""
        if self.metrics.detail is Detail.POOL:
            yield from self._counts()
            return
        facts = list(self._types.catalogue.facts)
        yield _CORES.text(_sample(each, each.vcpus) for each in facts)
        yield _MEMORY.text(_sample(each, each.memory_mib * _MIB) for each in facts)
        yield from _in_pieces(_AVAILABLE, (each.available for each in self._shown.values()))
        yield from _in_pieces(_PRICE, (each.prices for each in self._shown.values()))

    def _counts(self) -> Iterator[str]:
        everywhere: Counter[tuple[str, str]] = Counter()
        available: Counter[tuple[str, str]] = Counter()
        for shown in self._shown.values():
            everywhere.update(shown.places.keys())
            available.update({place: int(value) for place, value in shown.places.items()})
        for family, counts in ((_COUNT, everywhere), (_COUNT_AVAILABLE, available)):
            yield family.text(
                f'{{capacity_type="{purchase}",zone="{zone}"}} {count}'
                for (purchase, zone), count in sorted(counts.items())
            )

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
            # With a series of zero, alerts can tell "none available" from "not known"
            for zone in {zone for _, zone in available}:
                available.setdefault((labels.RESERVED, zone), 0.0)
        self._shown[name] = _Shown(
            _text(_AVAILABLE.name, name, available), _text(_PRICE.name, name, prices), available
        )


def _text(family: str, instance_type: str, places: Mapping[tuple[str, str], float]) -> str:
    kind = label_text({"instance_type": instance_type})
    return "".join(
        f'{family}{{capacity_type="{purchase}",{kind},zone="{zone}"}} {number(value)}\n'
        for (purchase, zone), value in sorted(places.items())
    )


def _sample(facts: TypeFacts, value: float) -> str:
    return f"{{{label_text({'instance_type': facts.name})}}} {number(value)}"


def _in_pieces(family: Family, texts: Iterable[str]) -> Iterator[str]:
    yield family.text(())
    left = iter(list(texts))
    while piece := "".join(islice(left, _AT_ONCE)):
        yield piece
