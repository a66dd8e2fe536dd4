"""Records events about objects.

Two generations exist. Most components still write the older form, where a repeated event grows a
count; the scheduler writes the newer one, where it becomes a series. Both end up in the same
resource. Emitting never waits and never fails: a task writes the events in their order.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.runtime.api_client import ApiClient
from karpenter_sandbox.status import ApiError

log = logging.getLogger(__name__)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_NOT_FOUND: Final = 404
_REMEMBERED: Final = 4096
_LONGEST_MESSAGE: Final = 1024
# A series that was not continued for so long has ended
_SERIES_SECONDS: Final = 360.0
# The API server deletes an event an hour after it happened last; the next one is written anew
_EVENT_SECONDS: Final = 3600.0


class _WrittenEvent:
    """An event that has been written, and how often it happened."""

    __slots__ = ("count", "last", "name", "namespace")

    def __init__(self, namespace: str, name: str, last: float) -> None:
        self.namespace = namespace
        self.name = name
        self.last = last
        self.count = 1


class Recorder:
    """Writes the events of one component."""

    def __init__(self, client: ApiClient, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._written: OrderedDict[Hashable, _WrittenEvent] = OrderedDict()
        self._pending: asyncio.Queue[tuple[_WrittenEvent, JsonObject]] = asyncio.Queue()
        self._last_stamp = 0

    def emit(
        self, obj: JsonObject, kind: str, reason: str, message: str, *, host: str = ""
    ) -> None:
        """Record an event about ``obj`` in the older form, which counts repetitions."""
        self._drop_expired()
        reference = reference_to(obj)
        now = timestamp(self._clock.now())
        key = (reference.get("uid"), kind, reason, message, host)
        written = self._written.get(key)
        if written is not None:
            written.count += 1
            written.last = self._clock.monotonic()
            self._put(key, written, {"count": written.count, "lastTimestamp": now})
            return
        written = self._begin(key, reference)
        source = {"component": self._component}
        if host:
            source["host"] = host
        body = self._body(written, reference, kind, reason, message)
        body |= {"source": source, "count": 1, "firstTimestamp": now, "lastTimestamp": now}
        body |= {"eventTime": None, "reportingInstance": host}
        self._put(key, written, body)

    def emit_series(
        self,
        obj: JsonObject,
        kind: str,
        reason: str,
        message: str,
        *,
        action: str,
        related: JsonObject | None = None,
    ) -> None:
        """Record an event about ``obj`` in the newer form, which makes repetitions a series.

        A second event about the same version of an object is a repetition, whatever its message.
        """
        self._drop_expired()
        reference = reference_to(obj)
        moment = self._clock.now()
        key = (reference.get("uid"), reference.get("resourceVersion"), kind, reason, action)
        written = self._written.get(key)
        if written is not None and self._clock.monotonic() - written.last < _SERIES_SECONDS:
            written.count += 1
            written.last = self._clock.monotonic()
            self._written.move_to_end(key)
            # rate limit: of a series, only the first repetition is written
            if written.count == 2:
                series = {"count": written.count, "lastObservedTime": microseconds(moment)}
                self._put(key, written, {"series": series})
            return
        written = self._begin(key, reference)
        body = self._body(written, reference, kind, reason, message)
        body |= {"action": action, "eventTime": microseconds(moment), "source": {}}
        body |= {"firstTimestamp": None, "lastTimestamp": None}
        body |= {"reportingInstance": f"{self._component}-sandbox"}
        if related is not None:
            body["related"] = reference_to(related)
        self._put(key, written, body)

    async def run(self) -> None:
        """Write what has been emitted, until cancelled."""
        while True:
            written, body = await self._pending.get()
            try:
                await self._write(written, body)
            except ApiError as error:
                # usually a terminating namespace; events are best effort
                log.debug("event %s not written: %s", written.name, error)
            await asyncio.sleep(0)

    async def _write(self, written: _WrittenEvent, body: JsonObject) -> None:
        if "metadata" in body:
            await self._client.record(body)
            return
        try:
            await self._client.patch("merge", "v1", "events", written.namespace, written.name, body)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    def _drop_expired(self) -> None:
        """Drop what was written about events that are gone by now; the oldest come first."""
        oldest = self._clock.monotonic() - _EVENT_SECONDS
        while self._written and next(iter(self._written.values())).last < oldest:
            self._written.popitem(last=False)

    def _begin(self, key: Hashable, reference: JsonObject) -> _WrittenEvent:
        # names contain the time, which may not advance between two events in virtual time
        stamp = max(int(self._clock.now().timestamp() * 1e6) * 1000, self._last_stamp + 1)
        self._last_stamp = stamp
        namespace = reference.get("namespace") or "default"
        written = _WrittenEvent(
            namespace, f"{reference['name']}.{stamp:x}", self._clock.monotonic()
        )
        self._written[key] = written
        return written

    def _put(self, key: Hashable, written: _WrittenEvent, body: JsonObject) -> None:
        self._written.move_to_end(key)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        self._pending.put_nowait((written, body))

    def _body(
        self, written: _WrittenEvent, reference: JsonObject, kind: str, reason: str, message: str
    ) -> JsonObject:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": written.name, "namespace": written.namespace},
            "involvedObject": reference,
            "type": kind,
            "reason": reason,
            "message": message[:_LONGEST_MESSAGE],
            "reportingComponent": self._component,
        }


def object_reference(api_version: str, kind: str, obj: JsonObject) -> JsonObject:
    """The reference by which one object names this version of another."""
    return reference_to({"apiVersion": api_version, "kind": kind, "metadata": obj["metadata"]})


def reference_to(obj: JsonObject) -> JsonObject:
    """The reference by which an event names an object."""
    metadata = obj["metadata"]
    reference = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {key: value for key, value in reference.items() if value}


def microseconds(moment: datetime) -> str:
    """A moment as events of the newer form write it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"
