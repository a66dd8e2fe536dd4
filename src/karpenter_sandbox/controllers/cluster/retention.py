"""What an API server and its etcd give up after a while: events, and the history of changes.

Events outnumber all other objects, and no controller reads them. So they are not mirrored, only
their times are decoded from the stored bytes, each once, and what a write or a reader has parsed is
dropped.
"""

import heapq
from datetime import datetime, timedelta
from typing import Final

import msgspec

from karpenter_sandbox.backend import Backend, parse_timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing
from karpenter_sandbox.store.store import Event, Key

_EVENTS: Final = ("", "events")
_KEPT: Final = timedelta(hours=1)


class _Metadata(msgspec.Struct, gc=False):
    creationTimestamp: str  # noqa: N815 as it is on the wire


class _Series(msgspec.Struct, gc=False):
    lastObservedTime: str | None = None  # noqa: N815 as it is on the wire


class _Times(msgspec.Struct):
    metadata: _Metadata
    series: _Series | None = None
    lastTimestamp: str | None = None  # noqa: N815 as it is on the wire
    eventTime: str | None = None  # noqa: N815 as it is on the wire

    def last(self) -> str:
        """When the event happened last."""
        repeated = self.series.lastObservedTime if self.series else None
        return repeated or self.lastTimestamp or self.eventTime or self.metadata.creationTimestamp


class EventExpiry(Controller):
    """Deletes events an hour after they happened last."""

    name = "event-expiry"
    period = 60.0

    def __init__(self, runtime: Runtime, client: Client, backend: Backend) -> None:
        super().__init__(runtime)
        self._client = client
        self._store = backend.store
        self._decoder = msgspec.json.Decoder(_Times)
        # Those whose times were not read yet: at first all that a journal has brought back
        self._unread = dict.fromkeys(backend.store.entries(*_EVENTS))
        # When they happened last, the earliest on top; versions that were written over since as well
        self._last: list[tuple[datetime, int, Key]] = []
        self._over: dict[Key, int] = {}  # the version of events whose time is over
        backend.store.on_change(self._follow)

    def _follow(self, event: Event) -> None:
        key = event.stored.key
        if key.resource == _EVENTS[1] and key.group == _EVENTS[0]:
            if event.previous is not None:
                self._unread.pop(event.previous, None)
            if event.type != "DELETED":
                self._unread[event.stored] = None

    async def tick(self) -> None:
        """Delete the events whose time is over, in the order of their keys."""
        for stored in self._unread:
            last = parse_timestamp(self._decoder.decode(stored.data).last())
            heapq.heappush(self._last, (last, stored.rv, stored.key))
        self._unread.clear()
        self._store.collection(*_EVENTS).forget_parsed()
        limit = self.clock.now() - _KEPT
        while self._last and self._last[0][0] < limit:
            _, version, key = heapq.heappop(self._last)
            self._over[key] = version
        for key in sorted(self._over):
            known = self._store.find(key)
            if known is not None and known.rv == self._over[key]:
                await ignoring_missing(self._client.delete("v1", "events", key.namespace, key.name))
            del self._over[key]  # not before it is deleted, which a full disk may refuse


class Compaction(Controller):
    """Drops old changes from the history every five minutes."""

    name = "compaction"
    period = 300.0

    def __init__(self, runtime: Runtime, backend: Backend) -> None:
        super().__init__(runtime)
        self._store = backend.store

    async def tick(self) -> None:
        """Drop the changes that are older than the previous call."""
        self._store.compact()
