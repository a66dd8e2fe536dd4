"""What a cluster costs, by pool, capacity type, namespace and owner; pure, from a view alone.

A pod pays the share of its node's price that it requests: of cpu or of memory, whichever is more. If
the pods of a node request more than it has, each pays in proportion; otherwise the rest is idle.
Daemons and static pods come with every node, so they are a sum of their own. Rows, daemons and idle
add up to the price of all nodes whose price is known; a node of unknown price is counted, never taken
for free. What a view does not show by name, costs do not show either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Final

from karpenter.dashboard.contract import (
    POD_FLAGS,
    CostRow,
    CostTable,
    View,
)
from karpenter.dashboard.view import HOURS, is_unpriced

POOL: Final = "pool"
CAPACITY_TYPE: Final = "capacityType"
NAMESPACE: Final = "namespace"
OWNER: Final = "owner"
TABLES: Final = (POOL, CAPACITY_TYPE, NAMESPACE, OWNER)
_COMES_WITH_NODE: Final = POD_FLAGS["daemon"] | POD_FLAGS["mirror"]


def cost_tables(view: View, by: Sequence[str] = TABLES) -> list[CostTable]:
    """The cost tables of a view, in the order in which they are named."""
    total = fsum(price for price in view.nodes.price if price is not None)
    shares = _shares(view) if {NAMESPACE, OWNER}.intersection(by) else None
    tables = []
    for each in by:
        if each in (NAMESPACE, OWNER):
            assert shares is not None
            tables.append(_of_pods(view, each, shares, total))
        else:
            tables.append(_of_nodes(view, each, total))
    return tables


@dataclass(slots=True)
class _Row:
    """What is summed up for one row."""

    prices: list[float] = field(default_factory=list)
    count: int = 0  # of nodes, or of pods
    unpriced: int = 0
    is_estimate: bool = False


def _of_nodes(view: View, by: str, total: float) -> CostTable:
    nodes, words = view.nodes, view.dictionaries
    column, names = (
        (nodes.pool, words.pool) if by == POOL else (nodes.capacity_type, words.capacity_type)
    )
    rows: dict[str, _Row] = {}
    for place, price, kind, state, is_estimate in zip(
        column, nodes.price, nodes.type, nodes.state, nodes.is_estimate, strict=True
    ):
        row = rows.setdefault(names[place], _Row())
        row.count += 1
        row.unpriced += is_unpriced(price, kind, state)
        if price is not None:
            row.prices.append(price)
            row.is_estimate = row.is_estimate or is_estimate
    made = [_row(name, row, total, nodes=row.count) for name, row in rows.items()]
    return CostTable(by=by, rows=_in_order(made))


@dataclass(slots=True)
class _Shares:
    """What every pod pays of its node's price."""

    paid: list[float | None]  # by the pod's place; None: its node has no price, or there is none
    is_estimate: list[bool]
    daemons: float
    idle: float


def _shares(view: View) -> _Shares:
    nodes, pods = view.nodes, view.pods
    place_of = {number: place for place, number in enumerate(nodes.id)}
    on: list[list[int]] = [[] for _ in nodes.id]  # places of the pods of each node
    for place, number in enumerate(pods.node):
        if number in place_of:
            on[place_of[number]].append(place)
    paid: list[float | None] = [None] * len(pods.id)
    is_estimate = [False] * len(pods.id)
    daemons: list[float] = []
    idle: list[float] = []
    for node, members in enumerate(on):
        price = nodes.price[node]
        if price is None:
            continue
        parts = [
            max(_part(pods.cpu[pod], nodes.cpu[node]), _part(pods.memory[pod], nodes.memory[node]))
            for pod in members
        ]
        taken = fsum(parts)
        scale = price / max(1.0, taken)
        for pod, part in zip(members, parts, strict=True):
            is_estimate[pod] = nodes.is_estimate[node]
            if pods.flags[pod] & _COMES_WITH_NODE:
                daemons.append(part * scale)
            else:
                paid[pod] = part * scale
        idle.append(price * max(0.0, 1.0 - taken))
    return _Shares(paid, is_estimate, fsum(daemons), fsum(idle))


def _part(requested: int, allocatable: int) -> float:
    """The requested part of what a node has; nothing of a node that says it has nothing."""
    return requested / allocatable if allocatable > 0 else 0.0


def _of_pods(view: View, by: str, shares: _Shares, total: float) -> CostTable:
    pods = view.pods
    name_of = _namer(view, by)
    names: dict[tuple[int, int], str] = {}  # places of namespace and owner -> name
    rows: dict[str, _Row] = {}
    for pod, flags in enumerate(pods.flags):
        if flags & _COMES_WITH_NODE or pods.node[pod] < 0:
            continue
        key = (pods.namespace[pod], pods.owner[pod])
        name = names.get(key)
        if name is None:
            name = names[key] = name_of(*key)
        row = rows.setdefault(name, _Row())
        row.count += 1
        paid = shares.paid[pod]
        if paid is None:
            row.unpriced += 1
        else:
            row.prices.append(paid)
            row.is_estimate = row.is_estimate or shares.is_estimate[pod]
    made = [_row(name, row, total, pods=row.count) for name, row in rows.items()]
    return CostTable(by=by, rows=_in_order(made), daemons=shares.daemons, idle=shares.idle)


def _namer(view: View, by: str) -> Callable[[int, int], str]:
    """Name a row by the places of namespace and owner: ``shop``, or ``Deployment/shop/web``."""
    namespaces, owners = view.dictionaries.namespace, view.dictionaries.owner

    def by_owner(namespace: int, owner: int) -> str:
        kind, _, name = owners[owner].partition("/")
        return f"{kind}/{namespaces[namespace]}/{name}" if name else ""

    return by_owner if by == OWNER else lambda namespace, owner: namespaces[namespace]


def _row(name: str, row: _Row, total: float, **counts: int) -> CostRow:
    hourly = fsum(row.prices)
    return CostRow(
        name=name,
        hourly=hourly,
        monthly=hourly * HOURS,
        share=hourly / total if total else 0.0,
        is_estimate=row.is_estimate,
        unpriced=row.unpriced,
        **counts,
    )


def _in_order(rows: Sequence[CostRow]) -> list[CostRow]:
    return sorted(rows, key=lambda row: (-row.hourly, row.name))
