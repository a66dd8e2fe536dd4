"""A dashboard of manifests: a cluster that stands still, of which plans and reasons can be asked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from karpenter import __version__
from karpenter.api.meta import Resource
from karpenter.clock import Clock, SystemClock
from karpenter.dashboard.answers.answers import Answers, Origin
from karpenter.dashboard.answers.planning import Planning
from karpenter.dashboard.answers.world import Terms
from karpenter.dashboard.assets import load_assets
from karpenter.dashboard.contract import View
from karpenter.dashboard.feed import Feed, Identity
from karpenter.dashboard.homes.offered import Offered
from karpenter.dashboard.picture import Picture, PriceBook
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.server.serving import Address, Place, serving
from karpenter.dashboard.shown import EVERYTHING, Shown
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import moment_text
from karpenter.inquiry.question import Question
from karpenter.settings import Settings


@dataclass(frozen=True, slots=True)
class StillCluster:
    """The cluster of manifests."""

    objects: Sequence[Resource]
    unjudged: frozenset[str]  # disruption budgets without a status
    asked: Question  # with the snapshot, what there is to buy, and the time
    settings: Settings
    gates_are_set: bool
    name: str  # of the files


class StillScene:
    """The one picture of such a cluster."""

    def __init__(self, cluster: StillCluster) -> None:
        """Take a cluster."""
        self._cluster = cluster
        self._picture: Picture | None = None

    async def picture(self) -> Picture:
        """The cluster."""
        if self._picture is None:
            loop = asyncio.get_running_loop()
            self._picture = await loop.run_in_executor(None, self._taken)
        return self._picture

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Nothing changes."""
        return lambda: None

    @property
    def heard(self) -> str:
        """The time of the cluster."""
        return moment_text(self._cluster.asked.now)

    def _taken(self) -> Picture:
        asked = self._cluster.asked
        types = PriceBook().types(
            asked.snapshot, asked.offer.catalogue, asked.offer.facts, asked.settings, now=asked.now
        )
        return Picture(asked.snapshot, asked.now, types)


class _Objects:
    """The objects as the planning process is told of them."""

    def __init__(self, objects: Sequence[Resource]) -> None:
        self._objects = objects

    def objects(self) -> Iterator[Resource]:
        """All of them."""
        return iter(self._objects)

    def follow(self, changed: Callable[[Any, Any], None]) -> None:
        """Nothing changes."""


@dataclass(frozen=True, slots=True)
class _Home:
    """What the answers know of where they run."""

    settings: Settings
    prices: str = "Those of the instance types that were given, or of the provider's built-in list."
    settings_from: str = "The defaults, and what --set says."
    unread: Sequence[str] = ()
    leader: str = ""


class _StillClock(SystemClock):
    """The time of the cluster, which stands still; waits are real."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


@asynccontextmanager
async def still_dashboard(
    cluster: StillCluster, place: Place, clock: Clock, shown: Shown = EVERYTHING
) -> AsyncIterator[Address]:
    """Serve the dashboard of manifests for as long as a block runs.

    Raises:
        ServingError: the port cannot be listened on.
    """
    asked, facts = cluster.asked, cluster.asked.offer.facts
    redaction = Redaction(shown)
    redaction.learn(cluster.objects)
    origin = Origin("files", facts.name, cluster.name)
    assets = load_assets()
    identity = Identity(
        origin.source,
        origin.provider,
        origin.cluster,
        is_live=False,
        release=__version__,
        assets=assets.hash,
    )
    feed = Feed(StillScene(cluster), identity, clock, shown=shown)
    pools = tuple(asked.snapshot.node_pools.values())
    terms = Terms(
        cluster.settings,
        gates_are_set=cluster.gates_are_set,
        is_files=True,
        unjudged=cluster.unjudged,
    )
    planning = Planning(
        _Objects(cluster.objects),
        Offered(asked.offer, lambda: pools).supply,
        lambda: terms,
        _StillClock(asked.now),
    )

    async def view() -> View:
        return (await feed.view()).view

    answers = Answers(
        origin,
        _Home(cluster.settings),
        view,
        DecisionLog(),
        _StillClock(asked.now),
        planning,
        redaction,
        real=clock,
    )
    running = asyncio.create_task(answers.run(), name="dashboard's answers")
    try:
        async with serving(feed, answers, assets, place, clock) as address:
            yield address
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
