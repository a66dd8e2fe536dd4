"""Records a cluster that runs: lists and watches come in, segments go out.

Each kind is followed by a reflector of its own, through a client that cannot write. What a list or
a watch could not tell becomes a gap.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Final, Protocol, TypeVar, cast

from karpenter.api.codec import WatchEvent
from karpenter.api.meta import ObjectList, Resource
from karpenter.clock import Clock
from karpenter.kube.errors import ForbiddenError, GoneError, KubeError, NotFoundError
from karpenter.kube.index import Key as NameKey
from karpenter.kube.mirror import key_of
from karpenter.kube.reflector import Reflector
from karpenter.simulate.record.folder import Archive
from karpenter.simulate.record.kinds import NEEDED, RECORDED, Recorded, Whole, whole
from karpenter.simulate.record.recorder import Recorder, Scope

R = TypeVar("R", bound=Resource)

# A crash loses what happened since the last flush, which must be less than 10 s
_FLUSH_EVERY: Final = 4.0
# A server says that a history is too old only after it has answered a watch
_WELL_AFTER: Final = 2.0
ROLE: Final = "karpenter-record of examples/install/rbac-record.yaml"


class NotRecordableError(Exception):
    """The cluster cannot be recorded; one sentence."""


class Reads(Protocol):
    """The part of a client that a recorder needs."""

    async def page(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[R]:
        """One page of a list."""

    def watch(
        self,
        kind: type[R],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        field_selector: str = "",
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[R]]]:
        """The changes after a version."""


class Recording:
    """One run of the recorder."""

    def __init__(
        self,
        kube: Reads,
        clock: Clock,
        recorder: Recorder,
        archive: Archive,
        *,
        rng: random.Random,
        namespaces: Sequence[str] = (),
        said: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Prepare; ``run`` begins to read.

        Args:
            kube: a client, of which only what reads is used.
            clock: the clock of retries, and the time of day.
            recorder: takes the objects.
            archive: takes the lines.
            rng: the source of jitter.
            namespaces: whose objects to record; all by default.
            said: is told when the cluster is away, and that it is back.
        """
        self._clock = clock
        self._recorder = recorder
        self._archive = archive
        self._said = said
        self.has_begun = False
        self._lists = [
            _List(kube, recorder, clock, each, namespace)
            for each in RECORDED
            for namespace in (namespaces or ("",) if each.model.namespaced else ("",))
        ]
        self._reflectors = [
            Reflector(each, each.recorded.model, each, clock, rng=rng, optional=True, role=ROLE)
            for each in self._lists
        ]

    async def run(
        self, stop: asyncio.Event, *, lasts: float | None, heard: float | None = None
    ) -> None:
        """Record until told to stop, or for so many seconds.

        Args:
            stop: is set to end it.
            lasts: how many seconds at most.
            heard: when the recorder that is continued was last heard of.

        Raises:
            NotRecordableError: what it takes may not be read.
            WriteError: something could not be written.
        """
        followers = asyncio.gather(*(each.run() for each in self._reflectors))
        try:
            if await self._has_reached(stop):
                ends = None if lasts is None else self._clock.monotonic() + lasts
                self._begin_segment(heard)
                await self._keep_writing(stop, ends)
                self._recorder.stop()
                self._recorder.end()
                self._archive.finish()
        finally:
            followers.cancel()
            await asyncio.gather(followers, return_exceptions=True)

    async def _has_reached(self, stop: asyncio.Event) -> bool:
        """Wait until every kind was read once, or could not be; False if told to stop before."""
        while not all(each.is_reached for each in self._lists):
            if await self._clock.wait(stop, seconds=0.1):
                return False
        refused = [each for each in self._lists if each.refusal is not None]
        for each in refused:
            if each.recorded.kind in NEEDED:
                raise NotRecordableError(
                    f"the cluster cannot be recorded: {each.refusal}; bind the ClusterRole {ROLE}"
                )
        named = sorted({each.recorded.kind for each in refused if not each.recorded.is_rare})
        if named:
            self._said(f"not recorded, as the cluster does not show them: {', '.join(named)}")
        return True

    def _begin_segment(self, heard: float | None = None) -> None:
        self._recorder.begin(*self._archive.open(), heard=heard)
        self.has_begun = True
        self._archive.began()

    async def _keep_writing(self, stop: asyncio.Event, ends: float | None) -> None:
        was_away = False
        while True:
            pause = _FLUSH_EVERY
            if ends is not None:
                pause = min(pause, ends - self._clock.monotonic())
            if pause <= 0 or await self._clock.wait(stop, seconds=pause):
                return
            self._recorder.live()
            self._archive.flush()
            if self._archive.is_full():
                self._recorder.end()
                self._archive.finish()
                self._begin_segment()
            if self._recorder.is_away != was_away:
                was_away = not was_away
                self._said(
                    "the cluster does not answer; the recording goes on when it does again"
                    if was_away
                    else "the cluster answers again"
                )


class _List:
    """One list of objects: where its reflector reads, and where it writes."""

    def __init__(
        self, kube: Reads, recorder: Recorder, clock: Clock, recorded: Recorded, namespace: str
    ) -> None:
        self.recorded: Final = recorded
        self.is_reached = False
        self.refusal: KubeError | None = None
        self._has_listed = False
        self._kube = kube
        self._recorder = recorder
        self._clock = clock
        self._namespace = namespace
        self._scope: Final[Scope] = (recorded.kind, namespace)

    # --- Where a reflector reads

    async def page(
        self, kind: type[R], *, limit: int = 0, continue_token: str = ""
    ) -> ObjectList[R]:
        """One page of the list."""
        with self._noted():
            return await self._kube.page(
                kind,
                self._namespace,
                field_selector=self.recorded.selector,
                limit=limit,
                continue_token=continue_token,
            )

    @asynccontextmanager
    async def watch(
        self, kind: type[R], *, resource_version: str, seconds: float
    ) -> AsyncIterator[AsyncIterator[WatchEvent[R]]]:
        """The changes of the list."""
        with self._noted():
            async with self._kube.watch(
                kind,
                self._namespace,
                resource_version=resource_version,
                seconds=seconds,
                field_selector=self.recorded.selector,
            ) as events:
                timer = self._clock.call_later(_WELL_AFTER, self._is_well)
                try:
                    yield self._heard(events)
                finally:
                    timer.cancel()

    async def _heard(self, events: AsyncIterator[WatchEvent[R]]) -> AsyncIterator[WatchEvent[R]]:
        async with aclosing(cast(AsyncGenerator[WatchEvent[R], None], events)) as open_events:
            async for event in open_events:
                self._is_well()
                yield event

    def _is_well(self) -> None:
        self._recorder.well(self._scope)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except (NotFoundError, ForbiddenError) as error:
            if self._has_listed and isinstance(error, ForbiddenError):
                self._recorder.lost(self._scope)
            else:
                self.refusal = error
                self._is_well()
            raise
        except GoneError:
            self._recorder.lost(self._scope, is_history_lost=True)
            raise
        except (KubeError, TimeoutError):
            self._recorder.lost(self._scope)
            raise

    # --- Where it writes

    def put(self, obj: Whole) -> None:
        """Take an object that is new or has changed."""
        self._recorder.put(self.recorded.kind, whole(obj))

    def drop(self, obj: Whole) -> None:
        """Take note that an object is gone."""
        self._recorder.drop(self.recorded.kind, *key_of(obj))

    def drop_key(self, key: NameKey, uid: str) -> None:
        """Take note that an object is gone of which only key and uid are known."""
        self._recorder.drop(self.recorded.kind, *key)

    def forget_others(
        self, items: Iterable[Whole], resource_version: str, *, spared: Iterable[NameKey] = ()
    ) -> None:
        """Remove all objects but these and those spared."""
        self._recorder.drop_others(self._scope, [*map(key_of, items), *spared])

    def replace_all(
        self, items: Iterable[Whole], resource_version: str = "", *, spared: Iterable[NameKey] = ()
    ) -> None:
        """Take note that a list is complete, or empty because the API server refuses it."""
        self.forget_others(items, resource_version, spared=spared)
        if resource_version:
            self._has_listed = True
            self.refusal = None
        self.is_reached = True
        self._is_well()


def sentence(recorder: Recorder) -> str:
    """What a recorder has taken, in words."""
    counts = recorder.counts
    found = [
        _counted(counts["Pod"], "pod"),
        _counted(counts["Job"], "Job"),
        _counted(counts["scale"], "change of scale", "changes of scale"),
        _counted(counts["Node"], "node"),
    ]
    text = f"{', '.join(found[:-1])} and {found[-1]} came"
    if gaps := recorder.gaps:
        missing = sum(gap.until - gap.since for gap in gaps)
        text += f"; {_counted(len(gaps), 'gap')} of {missing:.0f} s in all"
    return text


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
