"""The feed: one series of views and deltas, however many clients follow it.

With a client connected, a view is made at most four times a second and only after a change; changes in
between are folded into it. Views are built, compared and encoded in a thread, one at a time; the
event loop only hands out bytes that all clients share. Without a client, views are made for the
history alone, and without one, or where it is not kept all the time, not at all.
"""

import asyncio
import gzip
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import msgspec
import structlog

from karpenter.clock import Clock
from karpenter.dashboard.contract import Hello, View
from karpenter.dashboard.delta import changed_rows, delta, is_empty
from karpenter.dashboard.follower import (
    MOST_BYTES,
    MOST_WAITING,
    Follower,
    framed,
    resync,
)
from karpenter.dashboard.picture import Picture
from karpenter.dashboard.shown import EVERYTHING, Shown
from karpenter.dashboard.view import ViewBuilder

MOST_CLIENTS: Final = 32
BACKLOG_SECONDS: Final = 600.0  # for how long a client may be away and still get deltas alone
_BACKLOG_BYTES: Final = 8 * 2**20
_SHORTEST: Final = 0.25  # seconds between two views that clients wait for
_UNWATCHED: Final = 5.0  # between two that only the history is interested in
_LONGEST: Final = 15.0  # some rows depend on the time alone
_AFTER_FAILURE: Final = 5.0
_EPOCH_BYTES: Final = 4
_MOST_WORDS: Final = 200_000  # in the dictionaries of an epoch, which only grow
_FEW_ROWS: Final = 500  # which a delta may always change
_SHARE: Final = 5  # a delta may change one row of so many
_log: Final = structlog.get_logger(__name__)


class TooManyClientsError(Exception):
    """As many clients follow the stream as may."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What stays the same in all views of a server."""

    source: str  # sandbox, controller, live or files
    provider: str = ""
    cluster: str = ""
    is_live: bool = True
    release: str = ""
    assets: str = ""  # hash of the page's files


class Scene(Protocol):
    """The cluster that is shown."""

    async def picture(self) -> Picture:
        """The cluster now; called on the event loop."""

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` after every change, until the returned function is called."""

    @property
    def heard(self) -> str:
        """When the cluster was last heard of, as RFC 3339."""


class Recorder(Protocol):
    """Keeps views by their time."""

    def keep(self, published: "Published", difference: bytes) -> None:
        """Keep a view; called in a thread.

        Args:
            published: the view.
            difference: the delta that leads to it from the view before, as JSON; empty for the
                first view of an epoch.
        """


class Published:
    """A view that clients may have, with its encodings made once."""

    def __init__(self, view: View) -> None:
        """Publish a view, which does not change any more."""
        self.view: Final = view

    @property
    def tag(self) -> str:
        """What the view is known by."""
        return f"{self.view.epoch}-{self.view.seq}"

    @cached_property
    def body(self) -> bytes:
        """The view as JSON."""
        return msgspec.json.encode(self.view)

    @cached_property
    def compressed(self) -> bytes:
        """The same with gzip."""
        return gzip.compress(self.body, compresslevel=5, mtime=0)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a new picture has led to."""

    published: Published
    frame: bytes | None  # of the delta; None for a new epoch
    is_large: bool = False  # so that clients had better fetch the view


class Feed:
    """Views of one cluster, and the deltas between them."""

    def __init__(
        self,
        scene: Scene,
        identity: Identity,
        clock: Clock,
        *,
        shown: Shown = EVERYTHING,
        recorder: Recorder | None = None,
        recording: asyncio.Event | None = None,
    ) -> None:
        """Prepare; ``run`` begins to look.

        Args:
            scene: the cluster.
            identity: what all views say of this server.
            clock: real time, whatever the time of the cluster.
            shown: which names leave the process.
            recorder: keeps the views, with or without clients.
            recording: set while it does; by default all the time.
        """
        self._scene = scene
        self.identity: Final = identity
        self._clock = clock
        self._shown = shown
        self._recorder = recorder
        self._recording = recording or _always(recorder is not None)
        self._builder: ViewBuilder | None = None
        self._latest: Published | None = None
        self._built_at = 0.0
        self._turn = asyncio.Lock()
        self._is_changed = True
        self._changed = asyncio.Event()
        self._watched = asyncio.Event()
        self._backlog: deque[tuple[int, float, bytes]] = deque()  # seq, when, frame
        self._backlog_bytes = 0
        self._reach = 0  # the oldest view of the epoch that the backlog leads on from
        self._followers: set[Follower] = set()
        self.is_over = False  # streams end

    @property
    def clients(self) -> int:
        """How many clients follow the stream."""
        return len(self._followers)

    @property
    def heard(self) -> str:
        """When the cluster was last heard of."""
        return self._scene.heard

    @property
    def seq(self) -> int:
        """The number of the latest view."""
        return self._latest.view.seq if self._latest is not None else 0

    async def run(self) -> None:
        """Make views while they are wanted, until cancelled."""
        end = self._scene.follow(self._note)
        try:
            while True:
                await self._wanted()
                await self._clock.wait(self._changed, seconds=_LONGEST)
                if not (self._followers or self._recording.is_set()):
                    continue
                await self._looked()
                if self._followers:
                    await self._clock.sleep(_SHORTEST)
                else:
                    await self._clock.wait(self._watched, seconds=_UNWATCHED)
        finally:
            end()
            self.is_over = True
            for follower in self._followers:
                follower.filled.set()

    async def _wanted(self) -> None:
        """Wait until there are clients, or views are recorded."""
        if self._followers or self._recording.is_set():
            return
        coming = [asyncio.ensure_future(each.wait()) for each in (self._watched, self._recording)]
        try:
            await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in coming:
                each.cancel()

    async def view(self) -> Published:
        """The cluster as it is now, or was a moment ago."""
        latest = self._latest
        age = self._clock.monotonic() - self._built_at
        is_due = (self._is_changed and age >= _SHORTEST) or age >= _LONGEST
        if latest is None or is_due:
            await self._advance()
        assert self._latest is not None
        return self._latest

    @contextmanager
    def following(self, since: str = "") -> Iterator[Follower]:
        """Follow the stream.

        Args:
            since: the tag of the view that the client has; empty for none.

        Raises:
            TooManyClientsError: there are as many clients as there may be.
        """
        if len(self._followers) >= MOST_CLIENTS:
            raise TooManyClientsError
        follower = Follower()
        self._greet(follower, since)
        self._followers.add(follower)
        self._watched.set()
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            if not self._followers:
                self._watched.clear()

    def tell(self, event: str, body: bytes) -> None:
        """Send an event that is no delta to all clients; who is away does not get it later."""
        frame = framed(event, body)
        for follower in self._followers:
            follower.push(frame, self._tag_parts())

    def _tag_parts(self) -> tuple[str, int]:
        epoch = self._latest.view.epoch if self._latest is not None else ""
        return epoch, self.seq

    def _note(self) -> None:
        self._is_changed = True
        self._changed.set()

    def _greet(self, follower: Follower, since: str) -> None:
        """Say hello, and send what a client has missed."""
        epoch, seq = self._tag_parts()
        identity = self.identity
        hello = Hello(epoch=epoch, seq=seq, release=identity.release, assets=identity.assets)
        follower.put(framed("hello", msgspec.json.encode(hello)))
        if not since or since == f"{epoch}-{seq}":
            return
        known, _, number = since.rpartition("-")
        at = int(number) if number.isascii() and number.isdigit() else -1
        self._forget_old()
        missed = [frame for number_of, _, frame in self._backlog if number_of > at]
        if known != epoch or at > seq:
            missed = [resync(epoch, seq, "epoch")]
        elif at < self._reach:
            missed = [resync(epoch, seq, "too-old")]
        elif len(missed) >= MOST_WAITING or sum(map(len, missed)) >= MOST_BYTES:
            missed = [resync(epoch, seq, "too-much")]
        follower.put(*missed)

    async def _looked(self) -> None:
        """Make a view, and go on where that fails."""
        try:
            await self._advance()
        except Exception as error:  # noqa: BLE001 the next picture may be shown again
            _log.error("the dashboard's view was not made", error=str(error), exc_info=error)
            await self._clock.sleep(_AFTER_FAILURE)

    async def _advance(self) -> None:
        """Make the next view where there is something new, and send what is different."""
        async with self._turn:
            if not self._is_changed and self._clock.monotonic() - self._built_at < _SHORTEST:
                return  # another caller has just made it
            self._is_changed = False
            self._changed.clear()
            picture = await self._scene.picture()
            loop = asyncio.get_running_loop()
            try:
                step = await loop.run_in_executor(None, self._made, picture)
            except BaseException:
                self._note()
                raise
            self._built_at = self._clock.monotonic()
            if step is not None:
                self._publish(step)

    def _made(self, picture: Picture) -> _Step | None:
        """The next view, in a thread; None if it is the same as the last one."""
        last = self._latest
        if self._builder is None or self._builder.words > _MOST_WORDS:
            return self._begun(picture)
        view = self._builder.build(picture)
        assert last is not None
        view.seq = last.view.seq + 1
        difference = delta(last.view, view)
        if is_empty(difference):
            return None
        encoded = msgspec.json.encode(difference)
        published = Published(view)
        if self._recorder is not None:
            self._recorder.keep(published, encoded)
        rows = len(view.nodes.id) + len(view.pods.id)
        changed = changed_rows(difference)
        is_large = changed > _FEW_ROWS and changed * _SHARE > rows
        return _Step(published, framed("delta", encoded), is_large)

    def _begun(self, picture: Picture) -> _Step:
        """The first view of an epoch."""
        identity = self.identity
        builder = ViewBuilder(
            epoch=secrets.token_hex(_EPOCH_BYTES),
            source=identity.source,
            provider=identity.provider,
            cluster=identity.cluster,
            is_live=identity.is_live,
            shown=self._shown,
        )
        published = Published(builder.build(picture))
        self._builder = builder
        if self._recorder is not None:
            self._recorder.keep(published, b"")
        return _Step(published, None)

    def _publish(self, step: _Step) -> None:
        had_any = self._latest is not None
        self._latest = step.published
        view = step.published.view
        if step.frame is None or step.is_large:
            # Deltas of before lead nowhere: clients have to fetch the view
            self._backlog.clear()
            self._backlog_bytes, self._reach = 0, view.seq
            reason = "too-much" if step.frame is not None else "epoch"
            if had_any:
                for follower in self._followers:
                    follower.reset(resync(view.epoch, view.seq, reason))
            return
        self._backlog.append((view.seq, self._clock.monotonic(), step.frame))
        self._backlog_bytes += len(step.frame)
        self._forget_old()
        for follower in self._followers:
            follower.push(step.frame, (view.epoch, view.seq))

    def _forget_old(self) -> None:
        oldest = self._clock.monotonic() - BACKLOG_SECONDS
        backlog = self._backlog
        while backlog and (backlog[0][1] < oldest or self._backlog_bytes > _BACKLOG_BYTES):
            seq, _, frame = backlog.popleft()
            self._backlog_bytes -= len(frame)
            self._reach = seq


def _always(is_so: bool) -> asyncio.Event:
    """An event that is set from the beginning, or never."""
    event = asyncio.Event()
    if is_so:
        event.set()
    return event
