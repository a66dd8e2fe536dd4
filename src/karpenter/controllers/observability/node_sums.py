"""Sums about nodes by pool, zone and capacity type, in place of series for every node.

What a node adds to a sum is computed when the node changes, and cached until then.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.controllers.context import Context
from karpenter.controllers.observability.node_gauges import (
    FIGURES,
    UTILIZATION,
    figures_of,
    utilization,
    value_of,
)
from karpenter.model import labels
from karpenter.model.resources import NO_RESOURCES, Resources, total
from karpenter.state.nodes import StateNode
from karpenter.telemetry.exposition import label_text, snake_case
from karpenter.telemetry.family import Family

Place: TypeAlias = tuple[str, str, str]  # pool, zone, capacity type; empty where there is none

PLACE_LABELS: Final = "nodepool zone capacity_type"
_NODES_AT_A_TIME: Final = 20  # with all their pods
_ALLOCATABLE, _REQUESTED = 0, 1  # positions in what ``figures_of`` gives
_NODES: Final = Family.of_pools(
    "karpenter_nodepools_nodes",
    "How many nodes a pool has in a zone; a node of no pool has an empty nodepool.",
    PLACE_LABELS,
)
_SUMS: Final = tuple(
    Family.of_pools(
        f"karpenter_nodepools_nodes_{name}",
        f"The sum over nodes: {meaning[0].lower()}{meaning[1:]}",
        f"{PLACE_LABELS} resource_type",
    )
    for name, meaning in FIGURES.items()
)
NODE_SUM_FAMILIES: Final = (_NODES, *_SUMS)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one machine adds."""

    machine: StateNode
    place: Place
    figures: tuple[Resources, ...]


class NodeSums:
    """The source of the sums about nodes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._parts: dict[str, _Part] = {}  # by name of the node

    def lines(self) -> Iterable[str]:
        """All sums, each with all places."""
        found: dict[str, _Part] = {}
        for count, machine in enumerate(self._context.state.snapshot().nodes, start=1):
            if machine.node is not None:
                found[machine.name] = self._part(machine)
            if count % _NODES_AT_A_TIME == 0:
                yield ""
        self._parts = found
        nodes = Counter(part.place for part in found.values())
        yield _NODES.text(f"{{{place_text(place)}}} {count}" for place, count in nodes.items())
        by_place = _added(found.values())
        for position, family in enumerate(_SUMS):
            yield family.text(_amounts(by_place, position))
        everything = list(by_place.values())
        yield UTILIZATION.text(
            utilization(
                total(sums[_ALLOCATABLE] for sums in everything),
                total(sums[_REQUESTED] for sums in everything),
            )
        )

    def _part(self, machine: StateNode) -> _Part:
        """The cached part of a machine, computed again if it has changed."""
        assert machine.node is not None
        known = self._parts.get(machine.name)
        if known is not None and known.machine is machine:
            return known
        place = place_of(machine.node.metadata.labels)
        return _Part(machine, place, figures_of(machine, machine.node))


def place_of(held: Mapping[str, str]) -> Place:
    """Where a node with these labels belongs."""
    return (
        held.get(labels.NODEPOOL, ""),
        held.get(labels.ZONE, ""),
        held.get(labels.CAPACITY_TYPE, ""),
    )


def place_text(place: Place) -> str:
    """A place as it stands between braces."""
    return label_text(dict(zip(PLACE_LABELS.split(), place, strict=True)))


def _added(parts: Iterable[_Part]) -> Mapping[Place, tuple[Resources, ...]]:
    nothing = (NO_RESOURCES,) * len(FIGURES)
    found: dict[Place, tuple[Resources, ...]] = {}
    for part in parts:
        known = found.get(part.place, nothing)
        found[part.place] = tuple(a + b for a, b in zip(known, part.figures, strict=True))
    return found


def _amounts(by_place: Mapping[Place, tuple[Resources, ...]], position: int) -> Iterator[str]:
    for place, sums in by_place.items():
        names = dict.fromkeys(name for vector in sums for name, _ in vector.items())
        for name in names:
            value = value_of(name, sums[position][name])
            yield f'{{{place_text(place)},resource_type="{snake_case(name)}"}} {value}'
