"""What a provider sells to the pools of a cluster, asked again when they change and from time to time."""

from collections.abc import Callable, Iterable
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudProvider
from karpenter.controllers.pool_types import PoolTypes
from karpenter.dashboard.answers.supply import Supply, Types, supply_of
from karpenter.inquiry.question import CloudOffer

LISTED_SECONDS: Final = 30.0  # after which the provider is asked again


class Seller:
    """Asks one provider; a supply stays the same object for as long as it is the same."""

    def __init__(
        self,
        cloud: CloudProvider,
        pools: Callable[[], Iterable[NodePool]],
        clock: Clock,
        *,
        others: Types = (),
    ) -> None:
        """Take a provider.

        Args:
            cloud: the provider.
            pools: those of the cluster now.
            clock: says when to ask again.
            others: what is sold to a pool of a class that no pool names so far.
        """
        self._cloud = cloud
        self._pools = pools
        self._clock = clock
        self._others = others
        # Why a pool has no types is in the log of the controllers, and in its explanation
        self._lister = PoolTypes(cloud, lambda pool, why: None, may_be_empty=True)
        self._listed: tuple[NodePool, ...] = ()
        self._listed_at = 0.0
        self._supply: Supply | None = None

    async def supply(self) -> Supply:
        """What is sold now."""
        pools = tuple(sorted(self._pools(), key=lambda pool: pool.metadata.name))
        now = self._clock.monotonic()
        known = self._supply
        if known is not None and pools == self._listed and now - self._listed_at < LISTED_SECONDS:
            return known
        facts = self._cloud.facts
        served = [pool for pool in pools if facts.serves(pool.spec.template.spec.node_class_ref)]
        types = await self._lister.of(served)
        offer = CloudOffer(
            lambda pool: types.get(pool.metadata.name, ()), facts, self._cloud.repair_policies
        )
        found = supply_of(offer, pools, self._others)
        self._listed, self._listed_at = pools, now
        if known is None or not known.is_same(found):
            self._supply = known = found
        return known
