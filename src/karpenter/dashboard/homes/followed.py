"""A dashboard of a cluster that changes; by mirrors of its own in a sandbox, and beside any cluster.

Everything it needs is put together here: mirrors, scene, feed, history, answers with their planning
process, and the server. What machines cost and which settings are in force may be known later.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from karpenter import __version__
from karpenter.api.meta import Resource, kind_of
from karpenter.clock import Clock, SystemClock
from karpenter.dashboard.answers.answers import Answers, Decisions, Origin
from karpenter.dashboard.answers.planning import Planning
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.answers.world import Terms
from karpenter.dashboard.assets import load_assets
from karpenter.dashboard.attendance import Attendance
from karpenter.dashboard.contract import View
from karpenter.dashboard.feed import Feed, Identity
from karpenter.dashboard.history import History
from karpenter.dashboard.homes.scene import FollowedScene
from karpenter.dashboard.observed.nominations import Nominations
from karpenter.dashboard.observed.watching import WatchedDecisions
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.server.serving import Address, Place, serving
from karpenter.dashboard.shown import EVERYTHING, Shown
from karpenter.dashboard.sources import Followed, FollowedCluster, Reads
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import DecisionRecord, encoded
from karpenter.pass_settings import disruption_settings
from karpenter.settings import Settings


@dataclass(frozen=True, slots=True)
class Options:
    """What shapes a dashboard of a followed cluster."""

    origin: Origin
    place: Place = field(default_factory=Place)
    shown: Shown = EVERYTHING
    can_plan: bool = True  # what machines there are will be known
    is_observed: bool = False  # decisions are those of another controller, and only seen
    is_hidden: Callable[[Resource], bool] = lambda resource: False
    namespace: str = ""  # the one that the context of the kubeconfig names
    gates_are_set: bool = True  # otherwise a cluster that uses a gate has it


@dataclass(frozen=True, slots=True)
class Market:
    """What is known of machines, prices and settings, once it is."""

    supplier: Callable[[], Coroutine[Any, Any, Supply]]
    settings: Settings
    prices: str  # whose and of when, a sentence
    settings_from: str  # a sentence


class FollowedHome:
    """What the parts of such a dashboard know of where they run."""

    def __init__(
        self,
        followed: Followed,
        scene: FollowedScene,
        shown: Shown,
        decisions: DecisionLog,
    ) -> None:
        """Begin without a market."""
        self.followed = followed
        self.decisions = decisions
        self._scene = scene
        self._shown = shown
        self._market: Market | None = None

    def trade(self, market: Market) -> None:
        """Have prices and settings from now on."""
        self._market = market
        self._scene.sell(market.supplier, disruption_settings(market.settings))

    async def supply(self) -> Supply | None:
        """What there is to buy; None while that is not known."""
        return await self._market.supplier() if self._market is not None else None

    @property
    def prices(self) -> str:
        """Whose prices they are and of when, a sentence."""
        return self._market.prices if self._market is not None else "No prices are known."

    @property
    def unread(self) -> Sequence[str]:
        """The kinds that could not be read."""
        return sorted(map(kind_of, self.followed.refused()))

    @property
    def settings(self) -> Settings | None:
        """The settings in force; None where they are not known."""
        return self._market.settings if self._market is not None else None

    @property
    def settings_from(self) -> str:
        """Where they are from, a sentence."""
        return self._market.settings_from if self._market is not None else ""

    @property
    def leader(self) -> str:
        """The identity of the leader as it is shown."""
        return self._shown.name(self.followed.leader)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard that is served."""

    address: Address
    home: FollowedHome


@asynccontextmanager
async def followed_dashboard(
    kube: Reads,
    clock: Clock,
    options: Options,
    *,
    history: History | None = None,
    real_clock: Clock | None = None,
) -> AsyncIterator[Dashboard]:
    """Serve the dashboard of a cluster for as long as a block runs.

    Args:
        kube: reads the cluster.
        clock: the time of the cluster.
        options: what shapes it.
        history: keeps the views; its maker closes it.
        real_clock: the time of clients, whatever the time of the cluster.

    Raises:
        ServingError: the port cannot be listened on.
    """
    rng = random.Random()  # noqa: S311 not used for secrets
    followed = FollowedCluster(kube, clock, rng=rng)
    redaction = Redaction(options.shown)
    decisions = DecisionLog()
    watched: WatchedDecisions | None = None
    if options.is_observed:
        watched = WatchedDecisions(followed, decisions, clock, redaction=redaction)
        nominations = watched.nominations
    else:
        nominations = Nominations()
        followed.follow(nominations.changed)
    scene = FollowedScene(
        followed,
        clock,
        is_hidden=options.is_hidden,
        targets=lambda: nominations.targets,
        redaction=redaction,
    )
    home = FollowedHome(followed, scene, options.shown, decisions)
    parts = Parts(home, decisions, scene, redaction, clock, real_clock or SystemClock(), history)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(begun(followed.run(), name="dashboard's mirrors"))
        if watched is not None:
            stack.push_async_callback(begun(watched.run(), name="observed decisions"))
        yield Dashboard(await stack.enter_async_context(served(parts, options)), home)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a dashboard is put together from."""

    home: FollowedHome
    decisions: Decisions  # those that are shown
    scene: FollowedScene
    redaction: Redaction
    clock: Clock  # the time of the cluster
    real_clock: Clock  # that of clients
    history: History | None = None
    attendance: Attendance | None = None  # without it, views are recorded all the time


@asynccontextmanager
async def served(parts: Parts, options: Options) -> AsyncIterator[Address]:
    """Serve a dashboard for as long as a block runs; whoever made its parts runs them.

    Raises:
        ServingError: the port cannot be listened on.
    """
    home, redaction, attendance = parts.home, parts.redaction, parts.attendance
    recording = attendance.awake if attendance is not None else None
    planning = (
        Planning(home.followed, home.supply, lambda: _terms(home, options), parts.clock)
        if options.can_plan
        else None
    )
    assets, origin = load_assets(), options.origin
    identity = Identity(
        origin.source, origin.provider, origin.cluster, release=__version__, assets=assets.hash
    )
    feed = Feed(
        parts.scene,
        identity,
        parts.real_clock,
        shown=options.shown,
        recorder=parts.history,
        recording=recording,
    )

    async def view() -> View:
        return (await feed.view()).view

    answers = Answers(
        origin,
        home,
        view,
        parts.decisions,
        parts.clock,
        planning,
        redaction,
        real=parts.real_clock,
        recording=recording,
    )

    def tell(record: DecisionRecord, line: bytes) -> None:
        feed.tell("decision", encoded(redaction.record(record)) if redaction.is_needed else line)

    async with AsyncExitStack() as stack:
        stack.callback(parts.decisions.follow(tell))
        stack.push_async_callback(begun(answers.run(), name="dashboard's answers"))
        yield await stack.enter_async_context(
            serving(
                feed,
                answers,
                assets,
                options.place,
                parts.real_clock,
                history=parts.history,
                attendance=attendance,
            )
        )


def begun(work: Coroutine[Any, Any, None], *, name: str) -> Callable[[], Awaitable[object]]:
    """Begin a task, and return what ends it."""
    task = asyncio.create_task(work, name=name)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return end


def _terms(home: FollowedHome, options: Options) -> Terms:
    settings = home.settings
    if settings is None:
        return Terms(namespace=options.namespace)
    return Terms(settings, options.gates_are_set, namespace=options.namespace)
