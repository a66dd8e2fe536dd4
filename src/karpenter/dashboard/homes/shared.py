"""The cluster as the controllers of this process read it, for a dashboard beside them.

Their mirrors are shared; only kinds that they do not follow are read in addition, and only while
somebody looks. Handlers are called from the beginning of such a time to its end, first with everything
there is, in small slices, so that the controllers have their turns in between.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Final, Protocol, TypeVar

import structlog

from karpenter.api.cluster import Lease
from karpenter.api.meta import Resource, kind_of
from karpenter.api.pods import Pod
from karpenter.clock import Clock
from karpenter.controllers.mirrors import Mirrors
from karpenter.dashboard.homes.followed import begun
from karpenter.dashboard.sources import (
    READ,
    Changed,
    FollowedCluster,
    Reads,
    heard_of,
    refused_of,
)
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Trouble

R = TypeVar("R", bound=Resource)

ROLE: Final = "karpenter-dashboard-kinds (value controller.dashboard.enabled of the chart)"
_SLICE_SECONDS: Final = 0.004  # of work before others have a turn on the event loop
_LOOK_SECONDS: Final = 1.0  # between two looks at who leads, and at what cannot be read
_log: Final = structlog.get_logger(__name__)


class Leadership(Protocol):
    """Who leads, such as ``Election``."""

    def is_leading(self) -> bool:
        """Whether this process does."""

    @property
    def holder(self) -> str:
        """The identity of the leader when it was last seen; empty if there was none."""


class SharedCluster:
    """The mirrors of the controllers, and those of further kinds while somebody looks."""

    def __init__(
        self,
        mirrors: Mirrors,
        kube: Reads,
        clock: Clock,
        leadership: Leadership,
        *,
        rng: random.Random,
    ) -> None:
        """Take the mirrors, which their owner runs; ``looked_at`` begins to follow them.

        Args:
            mirrors: those of the controllers.
            kube: reads the kinds that they do not follow.
            clock: the time of the cluster.
            leadership: who leads.
            rng: the source of jitter.
        """
        self._mirrors = mirrors
        self._kube = kube
        self._clock = clock
        self._leadership = leadership
        self._rng = rng
        # The lease of the election is the business of the controllers, who know its holder
        self._others = [kind for kind in READ if kind not in (*mirrors.followed, Lease)]
        self._more = self._further()
        self._handlers: list[Changed] = []
        self._tellers: list[Callable[[], object]] = []
        self._filled = asyncio.Event()

    def _further(self) -> FollowedCluster:
        return FollowedCluster(
            self._kube, self._clock, rng=self._rng, kinds=self._others, role=ROLE
        )

    @asynccontextmanager
    async def looked_at(self) -> AsyncIterator[None]:
        """Call handlers for as long as the block runs, at first with everything there is."""
        async with AsyncExitStack() as stack:
            stack.callback(self._filled.clear)
            for kind in self._mirrors.followed:
                stack.callback(self._mirrors.of(kind).watch(self._changed))
            more = self._more = self._further()
            more.follow(self._changed)
            more.follow_trouble(self._tell)
            stack.push_async_callback(begun(more.run(), name="dashboard's further kinds"))
            stack.push_async_callback(begun(self._look(), name="dashboard's leader"))
            stack.push_async_callback(begun(self._fill(), name="dashboard's objects"))
            yield

    async def _fill(self) -> None:
        """Tell of everything there is."""
        await self._mirrors.synced()
        begun_at = time.monotonic()
        for known in self._present():
            metadata = known.metadata
            # It may be gone by now, or another version of it may be told already
            resource = self._mirrors.of(type(known)).get(metadata.name, metadata.namespace)
            if resource is None:
                continue
            try:
                self._changed(None, resource)
            except Exception as error:  # noqa: BLE001 all others are shown
                kind, name = kind_of(type(known)), metadata.name
                _log.error("object not shown", kind=kind, name=name, exc_info=error)
            if time.monotonic() - begun_at >= _SLICE_SECONDS:
                await asyncio.sleep(0)
                begun_at = time.monotonic()
        self._filled.set()

    def _present(self) -> Iterator[Resource]:
        """What the controllers know; pods at the end, by their nodes, each of which changes once."""
        for kind in self._mirrors.followed:
            if kind is not Pod:
                yield from self._mirrors.of(kind).list()
        yield from sorted(self._mirrors.of(Pod).list(), key=lambda pod: pod.spec.node_name)

    async def _look(self) -> None:
        """Tell when somebody else leads, or a kind can no longer be read."""
        known = self._standing()
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            if (now := self._standing()) != known:
                known = now
                self._tell()

    def _standing(self) -> object:
        troubled = {kind: type(each.error) for kind, each in self._mirrors.trouble.items()}
        return self._leadership.is_leading(), self._leadership.holder, troubled

    async def reached(self) -> None:
        """Wait until everything was told, and every further kind was read or could not be."""
        await self._filled.wait()
        await self._more.reached()

    def of(self, kind: type[R]) -> Mirror[R]:
        """The mirror of a kind."""
        return self._more.of(kind) if kind in self._others else self._mirrors.of(kind)

    def objects(self) -> Iterator[Resource]:
        """Everything that is known now."""
        for kind in self._mirrors.followed:
            yield from self._mirrors.of(kind).list()
        yield from self._more.objects()

    def follow(self, changed: Changed) -> None:
        """Call ``changed`` whenever somebody looks: for every object there is, and every change."""
        self._handlers.append(changed)

    def follow_trouble(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` when somebody else leads, or other kinds can be read than before."""
        self._tellers.append(changed)

    @property
    def trouble(self) -> Mapping[type[Resource], Trouble]:
        """The kinds that are not followed at the moment."""
        return {**self._mirrors.trouble, **self._more.trouble}

    def refused(self) -> list[type[Resource]]:
        """The kinds that the server does not show, without those that many do not have."""
        return refused_of(self.trouble)

    def heard(self) -> datetime:
        """When the cluster was last heard of: now, unless a connection is lost."""
        return heard_of(self.trouble, self._clock.now())

    @property
    def leader(self) -> str:
        """The identity of the leader; empty if it is not known."""
        return self._leadership.holder

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        for changed in self._handlers:
            changed(old, new)

    def _tell(self) -> None:
        for changed in self._tellers:
            changed()
