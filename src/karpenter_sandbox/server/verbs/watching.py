"""Watches: the present objects first, then changes, with bookmarks in between.

A session is opened at once, so that nothing which happens after the request is missed, and read
later, batch by batch. It ends when its time is over or when the resource is no longer served.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.server.options import ListOptions
from karpenter_sandbox.server.selectors import Predicate
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs.read import parse_version, predicate
from karpenter_sandbox.status import ApiError, expired, version_too_large
from karpenter_sandbox.store.errors import Gone
from karpenter_sandbox.store.history import Watch
from karpenter_sandbox.store.store import Event, Stored

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_BOOKMARK_EVERY: Final = 60.0
_BEFORE_END: Final = 2.0
_LONGEST: Final = 3600
# A burst is sent in parts, so that one slow reader does not hold thousands of objects at once
_LARGEST_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch: a stored object, or a body made for this watch."""

    type: str
    stored: Stored | None = None
    body: JsonObject | None = None

    def served(self, target: Target) -> JsonObject:
        """The object in the version that was asked for."""
        if self.stored is None:
            assert self.body is not None
            return self.body
        return versions.served(self.stored.obj, target.resource)


class WatchSession:
    """One watch of one client."""

    def __init__(self, backend: Backend, target: Target, options: ListOptions) -> None:
        self.target = target
        self._backend = backend
        self._options = options
        self._matches = predicate(target, options)
        self._initial: list[Stored] = []
        self._watch: Watch | None = None
        self._refusal: ApiError | None = None
        self._open()

    async def batches(self) -> AsyncIterator[list[Change]]:
        """Changes as they come, several at a time.

        Raises:
            ApiError: the history does not reach back far enough; list again.
        """
        if self._refusal is not None:
            raise self._refusal
        for start in range(0, len(self._initial), _LARGEST_BATCH):
            entries = self._initial[start : start + _LARGEST_BATCH]
            yield [Change("ADDED", entry) for entry in entries]
        if self._options.initial_events and self._options.bookmarks:
            yield [self._bookmark(ends_initial_events=True)]
        self._initial = []
        async for batch in self._following():
            yield batch

    async def _following(self) -> AsyncIterator[list[Change]]:
        assert self._watch is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._options.timeout or _LONGEST)
        next_bookmark = _next_bookmark(loop.time(), end)
        while loop.time() < end:
            try:
                async with asyncio.timeout_at(min(end, next_bookmark)):
                    events = await self._watch.batch()
            except TimeoutError:
                if self._options.bookmarks and loop.time() < end:
                    yield [self._bookmark()]
                next_bookmark = _next_bookmark(loop.time(), end)
                continue
            except Gone as error:
                raise expired(str(error)) from error
            if not events:
                return
            changes = [change for event in events if (change := self._change(event)) is not None]
            for start in range(0, len(changes), _LARGEST_BATCH):
                yield changes[start : start + _LARGEST_BATCH]

    def _open(self) -> None:
        store, resource = self._backend.store, self.target.resource
        place = (resource.storage_group, resource.plural, self.target.namespace or None)
        wanted = parse_version(self._options.resource_version)
        starts_with_state = self._options.initial_events or (
            wanted is None and self._options.initial_events is None
        )
        if wanted is not None and wanted > store.resource_version:
            self._refusal = version_too_large(wanted, store.resource_version)
            return
        if starts_with_state:
            entries = store.entries(*place)
            self._initial = [e for e in entries if self._matches is None or self._matches(e.obj)]
        start = wanted if wanted is not None and not starts_with_state else store.resource_version
        try:
            self._watch = store.watch(*place, start)
        except Gone as error:
            self._refusal = expired(str(error))

    def _change(self, event: Event) -> Change | None:
        if self._matches is None:
            return Change(event.type, event.stored)
        return narrowed(event, self._matches)

    def _bookmark(self, *, ends_initial_events: bool = False) -> Change:
        resource = self.target.resource
        metadata: JsonObject = {"resourceVersion": str(self._backend.store.resource_version)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return Change("BOOKMARK", body=body)


def _next_bookmark(now: float, end: float) -> float:
    """Bookmarks come now and then, and once more shortly before the end."""
    last = end - _BEFORE_END
    return min(now + _BOOKMARK_EVERY, last) if last > now else now + _BOOKMARK_EVERY


def narrowed(event: Event, matches: Predicate) -> Change | None:
    """What a watcher with a selector sees: objects enter and leave its view."""
    was_seen = event.previous is not None and matches(event.previous.obj)
    is_seen = event.type != "DELETED" and matches(event.obj)
    if is_seen:
        return Change("MODIFIED" if was_seen else "ADDED", event.stored)
    if not was_seen:
        return None
    assert event.previous is not None
    last = event.previous.obj
    metadata = {**last["metadata"], "resourceVersion": str(event.rv)}
    data = msgspec.json.encode({**last, "metadata": metadata})
    return Change("DELETED", Stored(event.stored.key, data, event.rv))
