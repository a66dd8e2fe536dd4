"""What there is to buy, as it was offered last, and when its provider is asked again.

A companion has no controller beside it that asks for prices, so it does so itself, as often as a
controller would.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudError
from karpenter.cloud.registry import ProviderError
from karpenter.dashboard.answers.supply import Supply, supply_of
from karpenter.inquiry.question import CloudOffer
from karpenter.kube.errors import KubeError

EVERY: Final = timedelta(hours=12)
AFTER_FAILURE: Final = timedelta(hours=1)
_PRICES: Final = "Those of {provider}, asked for at {at}."
_OLD_PRICES: Final = (
    "Those of {provider}, asked for at {at}. They could not be asked for again at {failed}; why is in"
    " the output of the dashboard."
)
_ESTIMATES: Final = (
    "The built-in estimates of {provider}, which could not be asked; why is in the output of the"
    " dashboard."
)


class Offered:
    """An offer for pools that may change; the supply is made anew for other pools."""

    def __init__(self, offer: CloudOffer, pools: Callable[[], Iterable[NodePool]]) -> None:
        """Take an offer; ``pools`` are those of the cluster now."""
        self._offer = offer
        self._pools = pools
        self._listed: tuple[NodePool, ...] = ()
        self._supply: Supply | None = None
        self._is_current = False

    def renew(self, offer: CloudOffer) -> None:
        """Have another offer from now on."""
        self._offer = offer
        self._is_current = False

    async def supply(self) -> Supply:
        """What there is to buy now; the same object for as long as it is the same."""
        pools = tuple(sorted(self._pools(), key=lambda pool: pool.metadata.name))
        known = self._supply
        if known is not None and self._is_current and pools == self._listed:
            return known
        # A pool that the offer does not know yet buys what others of its class do
        found = supply_of(self._offer, [pool for pool in pools if self._offer.catalogue(pool)])
        if known is None or not known.is_same(found):
            self._supply = known = found
        self._listed, self._is_current = pools, True
        return known


class Renewal:
    """Asks for an offer again from time to time; the one of before stays where that fails."""

    def __init__(
        self,
        offered: Offered,
        ask: Callable[[], Awaitable[CloudOffer | None]],
        clock: Clock,
        provider: str,
        *,
        not_asked: str = "",
        told: Callable[[str], object],
        warn: Callable[[str], object],
    ) -> None:
        """Prepare; the offer there is counts as asked for now, unless it is estimated.

        Args:
            offered: has the offer.
            ask: asks the provider; None where its prices do not change.
            clock: says when to ask.
            provider: its name.
            not_asked: why it could not be asked so far, where its built-in estimates are offered.
            told: called with whose prices there are and of when, a sentence, once that has changed.
            warn: told why the provider could not be asked.
        """
        self._offered = offered
        self._ask = ask
        self._clock = clock
        self._provider = provider
        self._told = told
        self._warn = warn
        self._at = _minute(clock.now())
        self._is_estimated = bool(not_asked)
        self._not_asked = not_asked

    @property
    def prices(self) -> str:
        """Whose prices there are and of when, a sentence."""
        if self._is_estimated:
            return _ESTIMATES.format(provider=self._provider)
        return _PRICES.format(provider=self._provider, at=self._at)

    async def run(self) -> None:
        """Ask until cancelled, or until there is nothing to ask for."""
        wait = AFTER_FAILURE if self._is_estimated else EVERY
        while True:
            await self._clock.sleep(wait.total_seconds())
            try:
                offer = await self._ask()
            except (CloudError, KubeError, ProviderError, TimeoutError) as error:
                wait = AFTER_FAILURE
                self._fail(error)
                continue
            if offer is None:
                return
            wait, self._at = EVERY, _minute(self._clock.now())
            self._is_estimated = False
            self._offered.renew(offer)
            self._told(self.prices)

    def _fail(self, error: Exception) -> None:
        """Keep the prices of before; the reason may name accounts and roles, so pages do not have it."""
        failed = _minute(self._clock.now())
        why = str(error) or "it took too long"
        if not self._is_estimated:
            self._warn(
                f"{self._provider} could not be asked for prices, those of before stay: {why}"
            )
            self._told(_OLD_PRICES.format(provider=self._provider, at=self._at, failed=failed))
        elif (
            why != self._not_asked
        ):  # who has no credentials knows it, and need not be told every hour
            self._not_asked = why
            self._warn(f"{self._provider} could not be asked for prices, the estimates stay: {why}")


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
