"""What an API server and its etcd give up after a while: events, and the history of changes.

Events outnumber all other objects, and no controller reads them. So they are not mirrored, only
their times are decoded from the stored bytes, and what a write or a reader has parsed is dropped.
"""

from datetime import timedelta
from typing import Final

import msgspec

from karpenter_sandbox.backend import Backend, parse_timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

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

    async def tick(self) -> None:
        """Delete the events whose time is over."""
        limit = self.clock.now() - _KEPT
        for stored in self._store.entries("", "events"):
            if parse_timestamp(self._decoder.decode(stored.data).last()) < limit:
                key = stored.key
                await ignoring_missing(self._client.delete("v1", "events", key.namespace, key.name))
            else:
                stored.forget_parsed()


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
