"""Gauges about pools: their limits, their usage, and what it costs an hour.

Prices are fetched when a pool is new or changed, or its node class becomes ready, and once an hour;
machines are counted on each scrape.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import ResourceMap
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.node_pools.managed import can_be_asked_for, is_served
from karpenter.kube.mirror import Key
from karpenter.model import labels
from karpenter.model.resources import CPU, Resources
from karpenter.runtime import REASONABLE
from karpenter.telemetry.exposition import escaped, number, snake_case
from karpenter.telemetry.family import Family

# Instance type, capacity type and zone
Offer: TypeAlias = tuple[str, str, str]
Prices: TypeAlias = Mapping[Offer, float]

_HOUR: Final = 3600.0
_AMOUNT: Final = "nodepool resource_type"
_LIMIT: Final = Family("karpenter_nodepools_limit", "Limits of a NodePool.", _AMOUNT)
_USAGE: Final = Family(
    "karpenter_nodepools_usage", "Resources of all nodes of a NodePool.", _AMOUNT
)
_COST: Final = Family(
    "karpenter_nodepools_cost_total", "Price of all nodes of a NodePool per hour.", "nodepool"
)
POOL_FAMILIES: Final = (_LIMIT, _USAGE, _COST)


class PriceTracker(Controller):
    """Caches the prices of every pool."""

    name = "state.pricing"
    kind = NodePool
    workers = 1
    backoff = REASONABLE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._prices: dict[str, Prices] = {}  # by pool
        self._learned: dict[str, tuple[int, float]] = {}  # by pool: generation, when
        self._without_price: set[str] = set()  # uids of claims whose missing price was logged
        self.follow(context.mirror(NodePool))

    async def reconcile(self, key: Key) -> float | None:
        """Fetch the prices of a pool again."""
        _, name = key
        pool = self.context.mirror(NodePool).get(name)
        if pool is None or not is_served(self.context, pool):
            self._prices.pop(name, None)
            self._learned.pop(name, None)
            return None
        now, generation = self.clock.monotonic(), pool.metadata.generation
        known, at = self._learned.get(name, (-1, now))
        if known == generation and now - at < _HOUR:
            return _HOUR - (now - at)  # only its status has changed
        try:
            listed = await self.context.cloud.instance_types(pool)
        except CloudError:
            if can_be_asked_for(pool):
                raise
            return None  # its status changes when they can be listed
        self._prices[name] = prices_of(listed)
        self._learned[name] = (generation, now)
        return _HOUR

    def costs(self) -> Mapping[str, float]:
        """What the machines of each pool that is known cost an hour, now."""
        costs = dict.fromkeys(self._prices, 0.0)
        without: set[str] = set()
        for claim in self.context.mirror(NodeClaim).list():
            pool = claim.metadata.labels.get(labels.NODEPOOL, "")
            if pool not in costs or not claim.status.provider_id:
                continue
            price = self._prices[pool].get(_offer_of(claim))
            if price is None:
                without.add(claim.metadata.uid)
                self._complain(claim, pool)
            else:
                costs[pool] += price
        self._without_price = without
        return costs

    def _complain(self, claim: NodeClaim, pool: str) -> None:
        if claim.metadata.uid not in self._without_price:
            self.context.metrics.nodepools_cost_tracker_errors_total.labels(nodepool=pool).inc()


class PoolGauges:
    """The source of the gauges about limits and usage."""

    def __init__(self, context: Context) -> None:
        self._pools = context.mirror(NodePool)

    def lines(self) -> Iterable[str]:
        """All gauges, each with all pools."""
        pools = self._pools.list()
        limits = ((pool.metadata.name, pool.spec.limits) for pool in pools)
        yield _LIMIT.text(_amounts(limits))
        usage = ((pool.metadata.name, pool.status.resources) for pool in pools)
        yield _USAGE.text(_amounts(usage))


class CostGauge:
    """The source of the gauge about costs."""

    def __init__(self, prices: PriceTracker) -> None:
        self._prices = prices

    def lines(self) -> Iterable[str]:
        """What every pool costs an hour."""
        yield _COST.text(
            f'{{nodepool="{escaped(name)}"}} {number(cost)}'
            for name, cost in self._prices.costs().items()
        )


def prices_of(types: Sequence[InstanceType]) -> Prices:
    """The price of each way to have a machine; the lowest where there are several."""
    prices: dict[Offer, float] = {}
    for kind in types:
        for offering in kind.offerings:
            offer = (kind.name, offering.capacity_type, offering.zone)
            prices[offer] = min(offering.price, prices.get(offer, offering.price))
    return prices


def _offer_of(claim: NodeClaim) -> Offer:
    held = claim.metadata.labels
    return (
        held.get(labels.INSTANCE_TYPE, ""),
        held.get(labels.CAPACITY_TYPE, ""),
        held.get(labels.ZONE, ""),
    )


def _amounts(pools: Iterable[tuple[str, ResourceMap]]) -> Iterator[str]:
    for pool, quantities in pools:
        amounts = Resources.from_wire(quantities)
        for name in quantities:
            amount = amounts[name] / 1000 if name == CPU else amounts[name]
            yield (
                f'{{nodepool="{escaped(pool)}",resource_type="{snake_case(name)}"}}'
                f" {number(amount)}"
            )
