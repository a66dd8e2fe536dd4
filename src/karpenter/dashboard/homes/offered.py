"""What there is to buy, as it was offered when the dashboard began."""

from collections.abc import Callable, Iterable

from karpenter.api.karpenter import NodePool
from karpenter.dashboard.answers.supply import Supply, supply_of
from karpenter.inquiry.question import CloudOffer


class Offered:
    """An offer that does not change, for pools that do; the supply is made anew for other pools."""

    def __init__(self, offer: CloudOffer, pools: Callable[[], Iterable[NodePool]]) -> None:
        """Take an offer; ``pools`` are those of the cluster now."""
        self._offer = offer
        self._pools = pools
        self._listed: tuple[NodePool, ...] = ()
        self._supply: Supply | None = None

    async def supply(self) -> Supply:
        """What there is to buy now."""
        pools = tuple(sorted(self._pools(), key=lambda pool: pool.metadata.name))
        if self._supply is None or pools != self._listed:
            # A pool that the offer does not know yet buys what others of its class do
            known = [pool for pool in pools if self._offer.catalogue(pool)]
            self._supply, self._listed = supply_of(self._offer, known), pools
        return self._supply
