"""Fills a decision log with what is seen in a cluster that another controller runs."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from karpenter.api.meta import Resource
from karpenter.api.times import earlier
from karpenter.clock import Clock
from karpenter.dashboard.observed.nominations import Nominations
from karpenter.dashboard.observed.observer import MEMORY, Observer
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.sources import Followed
from karpenter.decision_log.log import DecisionLog

# Events come a moment after what they tell of; together they are one record
_FOLDED_SECONDS: Final = 1.0
_AT_A_TIME: Final = 50  # records without a turn for others


class WatchedDecisions:
    """Records of a followed cluster, and where its waiting pods are expected."""

    def __init__(
        self,
        followed: Followed,
        log: DecisionLog,
        clock: Clock,
        *,
        redaction: Redaction | None = None,
        is_told: Callable[[], bool] = lambda: True,
    ) -> None:
        """Begin to collect; ``run`` records.

        Args:
            followed: the mirrors; their maker runs them.
            log: where records go.
            clock: the time of the cluster.
            redaction: is let learn the names of all objects.
            is_told: whether what is seen is recorded; not while the log of decisions is better.
        """
        self.nominations = Nominations()
        self._is_told = is_told
        self._followed = followed
        self._log = log
        self._clock = clock
        self._redaction = redaction
        self._observer = Observer(since=earlier(clock.now(), MEMORY))
        self._has_changed = asyncio.Event()
        followed.follow(self._changed)

    async def run(self) -> None:
        """Record what is seen, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_changed.wait()
            await self._followed.reached()  # claims say whose machines the events are about
            await self._clock.sleep(_FOLDED_SECONDS)
            self._has_changed.clear()
            # A first look at a large cluster takes too long for the event loop
            found = await loop.run_in_executor(None, self._observer.look, self._clock.now())
            for number, each in enumerate(found if self._is_told() else (), start=1):
                self._log.add(each.at, each.draft)
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)

    def forget(self, since: datetime) -> None:
        """Begin again after a time in which the cluster was not followed; ``since`` is no news."""
        self.nominations = Nominations()
        self._observer = Observer(since=since)
        self._has_changed.clear()

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        if new is not None and self._redaction is not None:
            self._redaction.learn((new,))
        self.nominations.changed(old, new)
        self._observer.changed(old, new)
        self._has_changed.set()
