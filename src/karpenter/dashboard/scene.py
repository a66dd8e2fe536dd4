"""The cluster that is shown, as it stands now: from mirrors that read it, with what machines cost.

A scene keeps a state of its own and takes pictures of it. Prices come from whoever sells machines,
and may come later: until then nothing has a price.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.controllers.pool_types import PoolTypes as Lister
from karpenter.dashboard.contract import Notice
from karpenter.dashboard.notices import notices_of
from karpenter.dashboard.picture import Picture, PoolTypes, PriceBook
from karpenter.dashboard.sources import FollowedCluster
from karpenter.decision_log.record import moment_text
from karpenter.disruption.context import DisruptionSettings
from karpenter.scheduling.inputs.cluster import as_planned, catalogue_of
from karpenter.state.cluster import ClusterState
from karpenter.state.snapshot import Snapshot

_FIRST_SECONDS: Final = 10.0  # to wait for the first lists; then what is known is shown
_LISTED_SECONDS: Final = 30.0  # after which the types of pools are asked for again


@dataclass(frozen=True, slots=True)
class Machines:
    """Whoever sells machines, and the settings that shape what they cost."""

    cloud: CloudProvider
    settings: DisruptionSettings

    @property
    def facts(self) -> ProviderFacts:
        """What is known about the provider."""
        return self.cloud.facts


class FollowedScene:
    """A cluster that is read through mirrors of its own."""

    def __init__(
        self,
        followed: FollowedCluster,
        clock: Clock,
        *,
        is_hidden: Callable[[Resource], bool] = lambda resource: False,
    ) -> None:
        """Make a scene.

        Args:
            followed: the mirrors; whoever made them runs them.
            clock: the time of the cluster.
            is_hidden: what does not belong to the cluster although it is in it.
        """
        self._followed = followed
        self._clock = clock
        self._is_hidden = is_hidden
        self._state = ClusterState()
        self._tellers: list[Callable[[], object]] = []
        self._prices: _Prices | None = None
        self._has_begun = False
        followed.follow(self._apply)
        followed.follow_trouble(self._tell)

    def sell(self, machines: Machines) -> None:
        """Have prices from now on."""
        self._prices = _Prices(machines, self._clock)
        self._tell()

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` after every change, until the returned function is called."""
        self._tellers.append(changed)
        return lambda: self._tellers.remove(changed)

    @property
    def heard(self) -> str:
        """When the cluster was last heard of."""
        return moment_text(self._followed.heard())

    async def picture(self) -> Picture:
        """The cluster now."""
        if not self._has_begun:
            await self._begun()
        snapshot, now = self._state.snapshot(), self._clock.now()
        types = await self._prices.types(snapshot) if self._prices is not None else {}
        return Picture(snapshot, now, types, notices=self._notices(snapshot, types))

    def _notices(self, snapshot: Snapshot, types: PoolTypes) -> tuple[Notice, ...]:
        return notices_of(self._followed, snapshot, has_prices=any(types.values()))

    async def _begun(self) -> None:
        """Wait until there is something to show, but not for ever."""
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._followed.reached()
        except TimeoutError:
            return
        self._has_begun = True

    def _apply(self, old: Resource | None, new: Resource | None) -> None:
        for each, change in (
            (new, self._state.apply),
            (old if new is None else None, self._state.delete),
        ):
            if each is not None and not self._is_hidden(each) and change(each):
                self._tell()

    def _tell(self) -> None:
        for changed in self._tellers:
            changed()


class _Prices:
    """The types of all pools, listed again when pools change and from time to time."""

    def __init__(self, machines: Machines, clock: Clock) -> None:
        self._machines = machines
        self._clock = clock
        self._book = PriceBook()
        # Why a pool has none is in the log of the controllers, and in its explanation
        self._lister = Lister(machines.cloud, lambda pool, why: None, may_be_empty=True)
        self._listed: Mapping[str, tuple[InstanceType, ...]] = {}
        self._pools: Mapping[str, NodePool] | None = None
        self._listed_at = 0.0

    async def types(self, snapshot: Snapshot) -> PoolTypes:
        """The types by pool, with overlays; the same objects as before where nothing changed."""
        machines, pools = self._machines, snapshot.node_pools
        age = self._clock.monotonic() - self._listed_at
        if pools is not self._pools or age >= _LISTED_SECONDS:
            self._listed = await self._lister.of(_served(pools.values(), machines.facts))
            self._pools, self._listed_at = pools, self._clock.monotonic()
        loop, now = asyncio.get_running_loop(), self._clock.now()
        return await loop.run_in_executor(
            None,
            lambda: self._book.types(
                as_planned(
                    snapshot, machines.facts.name, overlays=machines.settings.planning.overlays
                ),
                catalogue_of(self._listed),
                machines.facts,
                machines.settings,
                now=now,
            ),
        )


def _served(pools: Collection[NodePool], facts: ProviderFacts) -> list[NodePool]:
    return [pool for pool in pools if facts.serves(pool.spec.template.spec.node_class_ref)]
