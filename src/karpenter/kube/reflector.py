"""The reflector of an informer: fills a mirror of one kind by list, watch, resume and relist.

The mirror is never stale for long. Lists are paged and compared with the mirror, so that missed
deletions are noticed; watches resume where the last one ended, with bookmarks and a timeout, and
are dropped when they stay silent too long; an expired history (410) leads to a new list. Failures
are retried with jittered exponential back-off.

An object that cannot be decoded is set aside: it is logged once, the mirror keeps its last known
version, and all other objects are still processed. The reflector also survives unexpected errors.

Interpreting objects is left to the mirror's handlers.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from karpenter.api.codec import Unreadable, WatchEvent, unreadable_in
from karpenter.api.meta import ObjectList, Resource, Status, kind_of
from karpenter.clock import Clock
from karpenter.kube.errors import (
    ApiError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnreadableAnswerError,
)
from karpenter.kube.guard import GuardObserver, SetAside
from karpenter.kube.kinds import resource_of
from karpenter.kube.mirror import Key, key_of
from karpenter.kube.retry import Backoff

R = TypeVar("R", bound=Resource)
S = TypeVar("S", bound=Resource)
R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)

# A server may end a watch late, and its last bookmark takes time to arrive
_GRACE: Final = 30.0
# A watch that ends sooner without an event is a failure, even if it was closed cleanly
_SHORTEST_WATCH: Final = 1.0
# Objects processed per turn of the event loop, some milliseconds of work
_AT_A_TIME: Final = 20
# So many refusals in a row without a 410 lead to a new list: a server restored from a backup
# refuses to watch from a resourceVersion that is higher than its own
_REFUSALS_BEFORE_LIST: Final = 3
# A forbidden or missing kind is polled every few minutes only
_FORBIDDEN_LONGEST: Final = 300.0

_log = structlog.get_logger(__name__)


class Source(Protocol):
    """Where the objects come from."""

    async def page(
        self, kind: type[S], *, limit: int = 0, continue_token: str = ""
    ) -> ObjectList[S]:
        """One page of all objects of a kind."""

    def watch(
        self, kind: type[S], *, resource_version: str, seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[S]]]:
        """The changes after ``resource_version``, bookmarks included, for about ``seconds``."""


class Copy(Protocol[R_contra]):
    """Where the objects go."""

    def put(self, obj: R_contra) -> object:
        """Take an object that is new or has changed."""

    def drop(self, obj: R_contra) -> object:
        """Take note that an object is gone."""

    def drop_key(self, key: Key, uid: str) -> object:
        """Take note that an object is gone of which only key and uid are known."""

    def forget_others(
        self, items: Iterable[R_contra], resource_version: str, *, spared: Iterable[Key] = ()
    ) -> object:
        """Remove all objects but these, a complete list at a version, and those spared."""

    def replace_all(
        self, items: Iterable[R_contra], resource_version: str = "", *, spared: Iterable[Key] = ()
    ) -> object:
        """Store a complete list made at a version, and mark the copy as synced."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a kind is not followed at the moment."""

    error: Exception
    since: datetime

    @property
    def is_refused(self) -> bool:
        """Whether the server answers, but may not or cannot show the kind."""
        return isinstance(self.error, ForbiddenError | NotFoundError)


class Reflector(Generic[R]):
    """Keeps ``mirror`` equal to what the server holds of one kind.

    A kind that the server does not serve, or forbids us to list, leaves the mirror unsynced. With
    ``optional`` the mirror is empty and synced then, and fills should the kind appear later.
    """

    def __init__(
        self,
        kube: Source,
        kind: type[R],
        mirror: Copy[R],
        clock: Clock,
        *,
        rng: random.Random,
        page_size: int = 500,
        watch_seconds: float = 290.0,
        optional: bool = False,
        role: str = "",
        observer: GuardObserver | None = None,
    ) -> None:
        """Prepare the reflector; ``run`` starts it.

        Args:
            kube: where the objects come from.
            kind: of the objects.
            mirror: where they go.
            clock: the clock for retries.
            rng: the source of jitter.
            page_size: how many objects are listed at a time.
            watch_seconds: how long a watch lasts.
            optional: the kind may be absent or forbidden.
            role: the ClusterRole that grants access, and how to have it, for the log.
            observer: counts objects that cannot be decoded.
        """
        self._kube = kube
        self._kind = kind
        self._mirror = mirror
        self._clock = clock
        self._rng = rng
        self._page_size = page_size
        self._watch_seconds = watch_seconds
        self._is_optional = optional
        self._role = role
        self._backoff = Backoff(rng)
        self._patience = Backoff(rng, longest=_FORBIDDEN_LONGEST)
        self._aside = SetAside(kind_of(kind), observer)
        self._version: str | None = None  # the last one seen; None asks for a list
        self._has_listed = False
        self._refusals = 0  # of watches in a row, since the last event
        self._trouble = ""  # the failure that was logged last, while it lasts
        self.trouble: Trouble | None = None  # while the last request has failed

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        while True:
            backoff = self._backoff
            try:
                await self._follow()
            except (NotFoundError, ForbiddenError) as error:
                self._note(error)
                self._absent(error)
                if self._is_optional and isinstance(error, ForbiddenError):
                    backoff = self._patience
            except GoneError:
                self._version = None
            except (KubeError, TimeoutError) as error:
                self._note(error)
                self._failed(error)
            except Exception as error:  # noqa: BLE001 a new list may succeed
                self._version = None
                self._report(error, is_foreseen=False)
            await self._clock.sleep(backoff.next())

    async def _follow(self) -> None:
        """List if need be, then watch for as long as watches go well."""
        if self._version is None:
            self._version = await self._list()
        while await self._watch(self._version):
            pass

    async def _list(self) -> str:
        """List all objects into the mirror, and return the resourceVersion of the list."""
        items: list[R] = []
        unreadable: list[Unreadable] = []
        token, limit = "", self._page_size
        while True:
            try:
                page = await self._kube.page(self._kind, limit=limit, continue_token=token)
            except GoneError:
                if not token:
                    raise
                # The continue token has expired: list again without pages
                items, unreadable, token, limit = [], [], "", 0
                continue
            items.extend(page.items)
            unreadable.extend(unreadable_in(page))
            token = page.metadata.continue_token
            if not token:
                break
        version = page.metadata.resource_version
        self._aside.replace(unreadable)
        self._mirror.forget_others(items, version, spared=self._aside)
        await self._take_in(items)
        self._mirror.replace_all(items, version, spared=self._aside)
        self._has_listed = True
        self.trouble = None
        return version

    async def _take_in(self, items: Sequence[R]) -> None:
        """Put the objects of a list into the mirror, yielding to the event loop in between."""
        for number, obj in enumerate(items, start=1):
            self._mirror.put(obj)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    async def _watch(self, version: str) -> bool:
        """Follow one watch to its end, and return whether it succeeded."""
        seconds = self._watch_seconds * self._rng.uniform(0.8, 1.0)
        opened = self._clock.monotonic()
        heard, has_heard = 0, False
        watch = self._kube.watch(self._kind, resource_version=version, seconds=seconds)
        async with watch as events, _closed(events):
            self.trouble = None
            while (event := await self._next(events, seconds + _GRACE)) is not None:
                has_heard = True
                self._take(event)
                self._is_well()
                heard += 1
                if heard % _AT_A_TIME == 0:  # yield: many may have arrived at once
                    await asyncio.sleep(0)
        if self._clock.monotonic() - opened >= _SHORTEST_WATCH:
            has_heard = True
            self._is_well()
        return has_heard

    async def _next(
        self, events: AsyncIterator[WatchEvent[R]], seconds: float
    ) -> WatchEvent[R] | None:
        """The next event, or None at the end of the watch."""
        try:
            return await self._clock.wait_for(anext(events), seconds=seconds)
        except StopAsyncIteration:
            return None
        except TimeoutError as error:
            raise ConnectionLostError(
                f"no data arrived on the watch of {self._name} for {seconds:.0f} seconds"
            ) from error

    def _take(self, event: WatchEvent[R]) -> None:
        obj = event.object
        if isinstance(obj, Status):
            return
        if isinstance(obj, Unreadable):
            self._take_unreadable(event.type, obj)
            return
        if event.type in ("ADDED", "MODIFIED"):
            self._mirror.put(obj)
        elif event.type == "DELETED":
            self._mirror.drop(obj)
        if self._aside:
            self._aside.discard(key_of(obj))
        self._version = obj.metadata.resource_version

    def _take_unreadable(self, happened: str, obj: Unreadable) -> None:
        key = (obj.namespace, obj.name)
        if happened == "DELETED":
            self._aside.discard(key)
            self._mirror.drop_key(key, obj.uid)
        else:
            self._aside.add(obj)
        self._version = obj.resource_version

    def _note(self, error: Exception) -> None:
        known = self.trouble
        if known is None or type(known.error) is not type(error):
            since = known.since if known is not None else self._clock.now()
            self.trouble = Trouble(error, since)

    def _is_well(self) -> None:
        self._backoff.reset()
        self._patience.reset()
        self._refusals = 0
        if self._trouble:
            self._trouble = ""
            _log.info("watch restored", kind=self._name)

    def _absent(self, error: ApiError) -> None:
        self._version = None
        if not self._is_optional:
            self._report(error)
            return
        # Authorization comes before routing, so 403 may also mean a kind that is not installed.
        # After a first list it is a lost permission, and the objects stay in the mirror
        if isinstance(error, NotFoundError) or not self._has_listed:
            self._mirror.replace_all(())
        if not self._is_news(error):
            return
        if isinstance(error, NotFoundError):
            _log.debug("kind not followed", kind=self._name, error=str(error))
            return
        resource = resource_of(self._kind)
        group = resource.api_version.rpartition("/")[0]
        _log.info(
            "kind not followed",
            kind=self._name,
            error=str(error),
            advice=f"to watch it, bind the ClusterRole {self._role or 'of the kind'},"
            f" or one that may list and watch {resource.plural}.{group}".rstrip("."),
        )

    def _failed(self, error: Exception) -> None:
        if isinstance(error, ApiError) and not isinstance(error, TooManyRequestsError):
            self._refusals += 1
        if self._refusals >= _REFUSALS_BEFORE_LIST or isinstance(error, UnreadableAnswerError):
            self._refusals = 0
            self._version = None
        self._report(error)

    def _report(self, error: Exception, *, is_foreseen: bool = True) -> None:
        if not self._is_news(error):
            return
        if is_foreseen:
            _log.warning("watch failed", kind=self._name, error=self._trouble)
        else:
            _log.error("watch failed", kind=self._name, error=self._trouble, exc_info=error)

    def _is_news(self, error: Exception) -> bool:
        """Whether a failure differs from the last one logged."""
        trouble = str(error) or type(error).__name__
        is_news = trouble != self._trouble
        self._trouble = trouble
        return is_news

    @property
    def _name(self) -> str:
        return kind_of(self._kind)


def _closed(events: AsyncIterator[Any]) -> AbstractAsyncContextManager[Any]:
    """Close a generator when the block is left, so that its own blocks end there and then."""
    return aclosing(events) if hasattr(events, "aclose") else nullcontext()
