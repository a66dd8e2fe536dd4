"""The cluster that is shown, as it stands now: from mirrors that read it, with what machines cost.

A scene keeps a state of its own and takes pictures of it. Prices come from the seller of machines,
and may come later: until then nothing has a price.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.contract import Notice
from karpenter.dashboard.homes.notices import notices_of
from karpenter.dashboard.picture import Picture, PoolTypes, PriceBook
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.shown import EVERYTHING
from karpenter.dashboard.sources import Followed
from karpenter.decision_log.record import moment_text
from karpenter.disruption.context import DisruptionSettings
from karpenter.scheduling.inputs.cluster import as_planned
from karpenter.state.cluster import ClusterState
from karpenter.state.snapshot import Snapshot

_FIRST_SECONDS: Final = 10.0  # to wait for the first lists; then what is known is shown


Supplier: TypeAlias = Callable[[], Awaitable[Supply]]


class FollowedScene:
    """A cluster that is read through mirrors of its own."""

    def __init__(
        self,
        followed: Followed,
        clock: Clock,
        *,
        is_hidden: Callable[[Resource], bool] = lambda resource: False,
        targets: Callable[[], Mapping[str, str]] = dict,
        redaction: Redaction | None = None,
        more_notices: Callable[[], Sequence[Notice]] = tuple,
    ) -> None:
        """Make a scene.

        Args:
            followed: the mirrors; their maker runs them.
            clock: the time of the cluster.
            is_hidden: what does not belong to the cluster although it is in it.
            targets: where waiting pods are expected, by their keys.
            redaction: takes names that may not be shown out of notices.
            more_notices: what a home has to say besides.
        """
        self._followed = followed
        self._clock = clock
        self._is_hidden = is_hidden
        self._targets = targets
        self._redaction = redaction or Redaction(EVERYTHING)
        self._more_notices = more_notices
        self._state = ClusterState()
        self._tellers: list[Callable[[], object]] = []
        self._prices: _Prices | None = None
        self._has_begun = False
        followed.follow(self._apply)
        followed.follow_trouble(self.tell)

    def sell(self, supplier: Supplier, settings: DisruptionSettings) -> None:
        """Have prices from now on."""
        self._prices = _Prices(supplier, settings)
        self.tell()

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` after every change, until the returned function is called."""
        self._tellers.append(changed)
        return lambda: self._tellers.remove(changed)

    def forget(self) -> None:
        """Forget the cluster: it is not followed any more, or anew."""
        self._state, self._has_begun = ClusterState(), False

    @property
    def heard(self) -> str:
        """When the cluster was last heard of."""
        return moment_text(self._followed.heard())

    async def picture(self) -> Picture:
        """The cluster now."""
        if not self._has_begun:
            await self._begun()
        snapshot, now = self._state.snapshot(), self._clock.now()
        types = await self._prices.types(snapshot, now) if self._prices is not None else {}
        notices = self._notices(snapshot, types)
        return Picture(snapshot, now, types, self._targets(), notices=notices)

    def _notices(self, snapshot: Snapshot, types: PoolTypes) -> tuple[Notice, ...]:
        found = notices_of(self._followed, snapshot, has_prices=any(types.values()))
        return tuple(map(self._redaction.notice, (*self._more_notices(), *found)))

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
                self.tell()

    def tell(self) -> None:
        """Have a new picture taken."""
        for changed in self._tellers:
            changed()


class _Prices:
    """The types of all pools with overlays applied."""

    def __init__(self, supplier: Supplier, settings: DisruptionSettings) -> None:
        self._supplier = supplier
        self._settings = settings
        self._book = PriceBook()

    async def types(self, snapshot: Snapshot, now: datetime) -> PoolTypes:
        """The types by pool; the same objects as before where nothing changed."""
        supply, settings = await self._supplier(), self._settings
        facts, overlays = supply.facts, settings.planning.overlays

        def listed() -> PoolTypes:
            shown = as_planned(snapshot, facts.name, overlays=overlays)
            return self._book.types(shown, supply.of, facts, settings, now=now)

        return await asyncio.get_running_loop().run_in_executor(None, listed)
