"""The dashboard of a controller: beside the controllers of its process, and never in their way.

It is off unless a port is set. It reads what the controllers read anyway, and begins to when somebody
looks; views of the past are kept until an hour after that. The leader shows its own decisions. A process
that waits to lead shows what is seen of them, and says who leads.
"""

import heapq
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from karpenter.api.karpenter import NodePool
from karpenter.api.times import earlier, later
from karpenter.dashboard.answers.answers import Origin
from karpenter.dashboard.answers.selling import Seller
from karpenter.dashboard.attendance import Attendance
from karpenter.dashboard.contract import Notice
from karpenter.dashboard.history import History
from karpenter.dashboard.homes.followed import (
    FollowedHome,
    Market,
    Options,
    Parts,
    begun,
    served,
)
from karpenter.dashboard.homes.scene import FollowedScene
from karpenter.dashboard.homes.shared import Leadership, SharedCluster
from karpenter.dashboard.observed.observer import MEMORY
from karpenter.dashboard.observed.watching import WatchedDecisions
from karpenter.dashboard.redaction import Redaction
from karpenter.dashboard.server.entrance import SHORTEST_TOKEN, Entrance, EntranceError
from karpenter.dashboard.server.serving import Address, Place, ServingError
from karpenter.dashboard.shown import EVERYTHING
from karpenter.decision_log.log import DecisionLog, Follower
from karpenter.decision_log.record import DecisionRecord
from karpenter.operator.beside import Beside, Running
from karpenter.operator.run import StartError
from karpenter.runtime import kept_running
from karpenter.settings import Settings
from karpenter.visible import visible

HISTORY_BYTES: Final = 16 * 2**20  # beside controllers, whose memory is limited
NOT_LEADER: Final = "not-leader"
_PORTS: Final = range(65536)
_MOMENT: Final = timedelta(milliseconds=1)  # which is how exactly records know their time
_PRICES: Final = "Those of the controller's provider."
_SETTINGS: Final = "Those of the controller."


def dashboard_of(settings: Settings, *, is_on_terminal: bool) -> Beside:
    """What serves the dashboard that settings ask for.

    Args:
        settings: those of the controller.
        is_on_terminal: whether standard output is one, where a token may be printed.

    Raises:
        EntranceError: it may not be served so.
    """
    entrance = entrance_of(settings)
    place = entrance.place()
    if entrance.token_file is None and not is_on_terminal:
        raise EntranceError(
            f"{named('port')} {settings.dashboard_port}: nobody could know the token of the dashboard,"
            f" which is printed on a terminal alone: give it one of {SHORTEST_TOKEN} characters or"
            f" more with {named('token-file')}"
        )
    return ControllerDashboard(entrance, place)


def entrance_of(settings: Settings) -> Entrance:
    """Where the dashboard is served, and to whom, as settings say it.

    Raises:
        EntranceError: it cannot be served there.
    """
    if settings.dashboard_port not in _PORTS:
        raise EntranceError(
            f"{named('port')}: {settings.dashboard_port} is not a port; choose one from 0 to"
            f" {_PORTS[-1]}"
        )
    names = (name.strip() for name in settings.dashboard_allow_host.split(","))
    return Entrance(
        settings.dashboard_host,
        settings.dashboard_port,
        tuple(filter(None, names)),
        _path(settings.dashboard_token_file),
        _path(settings.dashboard_tls_cert),
        _path(settings.dashboard_tls_key),
        named=named,
    )


def named(option: str) -> str:
    """The environment variable of an option that ``karpenter dashboard`` has too."""
    return f"DASHBOARD_{option.upper().replace('-', '_')}"


def _path(text: str) -> Path | None:
    return Path(text) if text else None


@dataclass(frozen=True, slots=True)
class ControllerDashboard:
    """Serves the dashboard of a process."""

    entrance: Entrance
    place: Place

    @asynccontextmanager
    async def __call__(self, running: Running) -> AsyncIterator[Address]:
        """Serve for as long as the block runs.

        Raises:
            StartError: the port cannot be listened on.
        """
        process, entrance = running.process, self.entrance
        if entrance.warning:
            process.log.warning(entrance.warning)
        async with AsyncExitStack() as stack:
            try:
                address = await stack.enter_async_context(dashboard_beside(running, self.place))
            except ServingError as error:
                raise StartError(str(error)) from error
            if entrance.token_file is None:
                # On a terminal; a line of the log would keep the token
                print(visible(f"Watch the cluster in a browser: {address.url}"), flush=True)
            else:
                process.log.info("serving the dashboard", address=address.page)
            renewing = entrance.renewed(self.place.tls, process.clock, process.log.warning)
            stack.push_async_callback(begun(renewing, name="dashboard's certificate"))
            yield address


@asynccontextmanager
async def dashboard_beside(running: Running, place: Place) -> AsyncIterator[Address]:
    """Serve the dashboard of a process at a place for as long as the block runs.

    Raises:
        ServingError: the port cannot be listened on.
    """
    home = _Beside(running)
    process = running.process
    async with AsyncExitStack() as stack:
        for worker in (
            _Worker("dashboard", lambda: home.attendance.run(home.looked_at)),
            _Worker("dashboard's observed decisions", home.watched.run),
        ):
            running_on = kept_running(worker, process.clock, process.log, process.metrics)
            stack.push_async_callback(begun(running_on, name=worker.name))
        yield await stack.enter_async_context(served(home.parts, home.options(place)))


@dataclass(frozen=True, slots=True)
class _Worker:
    """A part that is begun again where it fails, as workers of the controllers are."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]


class _Beside:
    """The parts of a dashboard beside controllers."""

    def __init__(self, running: Running) -> None:
        """Put them together; nothing is followed before somebody looks."""
        process = running.process
        clock, settings = process.clock, process.settings
        rng = random.Random()  # noqa: S311 not used for secrets
        self._running = running
        self._leadership: Leadership = running.election or _Alone()
        self.attendance: Final = Attendance(clock)
        self._cluster = SharedCluster(
            running.mirrors, running.reads, clock, self._leadership, rng=rng
        )
        self._seen = DecisionLog()
        self.watched: Final = WatchedDecisions(
            self._cluster, self._seen, clock, is_told=lambda: not self._leadership.is_leading()
        )
        self._decisions = _Both(process.decisions, self._seen)
        redaction = Redaction(EVERYTHING)
        self._scene = FollowedScene(
            self._cluster,
            clock,
            targets=lambda: self.watched.nominations.targets,
            redaction=redaction,
            more_notices=self._notices,
        )
        home = FollowedHome(self._cluster, self._scene, EVERYTHING, process.decisions)
        seller = Seller(process.cloud, running.mirrors.of(NodePool).list, clock)
        home.trade(Market(seller.supply, settings, _PRICES, _SETTINGS))
        self.parts: Final = Parts(
            home,
            self._decisions,
            self._scene,
            redaction,
            clock,
            clock,
            History(most_bytes=HISTORY_BYTES),
            self.attendance,
        )

    def options(self, place: Place) -> Options:
        """What shapes it."""
        return Options(Origin("controller", self._running.process.cloud.facts.name), place)

    @asynccontextmanager
    async def looked_at(self) -> AsyncIterator[None]:
        """Follow the cluster for as long as the block runs."""
        self._scene.forget()
        self.watched.forget(self._unseen_since())
        async with self._cluster.looked_at():
            self._scene.tell()
            yield
        self._scene.forget()

    def _unseen_since(self) -> datetime:
        """Since when decisions may have been made that no record tells of, as far as events go back."""
        hour_ago = earlier(self._running.process.clock.now(), MEMORY)
        latest = next(iter(self._decisions.newest()), None)
        if latest is None:
            return hour_ago
        return max(hour_ago, later(datetime.fromisoformat(latest.at), _MOMENT))

    def _notices(self) -> Sequence[Notice]:
        """Who leads, where this process does not."""
        leadership = self._leadership
        if leadership.is_leading():
            return ()
        if not leadership.holder:
            text = "No process leads at the moment; decisions are those that were seen."
            return (Notice(kind=NOT_LEADER, text=text),)
        pod = leadership.holder.partition("_")[0]
        namespace, port = self._running.namespace, self._running.process.settings.dashboard_port
        forward = f"kubectl --namespace {namespace} port-forward pod/{pod} {port}"
        return (
            Notice(
                kind=NOT_LEADER,
                text=f"This process waits to lead; {pod} leads. Decisions are those that were seen.",
                objects=[f"Pod/{pod}"] if namespace else [],
                command=forward if namespace else "",
            ),
        )


class _Alone:
    """The leadership of a process that takes part in no election."""

    holder = ""

    def is_leading(self) -> bool:
        """Always."""
        return True


class _Both:
    """The decisions of this process, and those that were seen while another one led."""

    def __init__(self, *logs: DecisionLog) -> None:
        self._logs = logs

    def newest(self) -> Iterator[DecisionRecord]:
        """What is kept, the newest first."""
        kept = (log.newest() for log in self._logs)
        return heapq.merge(*kept, key=lambda record: record.at, reverse=True)

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call ``follower`` with every new record, until the returned function is called."""
        ends = [log.follow(follower) for log in self._logs]

        def end() -> None:
            for each in ends:
                each()

        return end
