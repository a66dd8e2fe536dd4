"""Records Kubernetes Events about the objects of users, with rate limits.

``publish`` never waits and never fails: an event goes into a bounded queue, from which ``run``
writes in the background. An event that cannot be written is dropped, and the oldest are dropped
when there are too many.

Three filters with bounded memory keep events from flooding a cluster. ``Dedupe`` publishes the same
event once in a while. ``SpamFilter`` bounds the events about one object. ``Correlator`` counts a
repeated event instead of writing it again, and folds many similar events into one.
"""

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import structlog

from karpenter.api.cluster import Event as WrittenEvent
from karpenter.api.meta import ObjectReference, Resource
from karpenter.clock import EPOCH, Clock
from karpenter.kube.errors import (
    AlreadyExistsError,
    ConnectionLostError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from karpenter.kube.limiter import Bucket
from karpenter.kube.retry import Backoff

V = TypeVar("V")

MOST_REMEMBERED: Final = 4096
# The prefix of client-go, which kubectl and dashboards recognise
FOLDED_PREFIX: Final = "(combined from similar events): "
_SIMILAR_EVENTS: Final = 10
_SIMILAR_SECONDS: Final = 600.0
# API servers delete an event an hour after its last change; a series of it has ended then
_EVENT_SECONDS: Final = 3600.0
_OBJECT_BURST: Final = 25
_OBJECT_REFILL: Final = 1.0 / 300.0

Key: TypeAlias = Hashable
NORMAL: Final = "Normal"
WARNING: Final = "Warning"
NOMINATED: Final = "Nominated"
# Limits that events of all objects share: per second, and at once
_SHARED_LIMITS: Final[Mapping[str, tuple[float, int]]] = {NOMINATED: (5.0, 10)}
_DEFAULT_NAMESPACE: Final = "default"
_QUEUE_SIZE: Final = 1000
_TRIES: Final = 5
_LONGEST_MESSAGE: Final = 1024
_LONGEST_NAME: Final = 230  # leaves room for the suffix of an event's name
_WORTH_A_RETRY: Final = (ConnectionLostError, ServerError, TooManyRequestsError)
_log = structlog.get_logger(__name__)


class Recent(Generic[V]):
    """An LRU mapping."""

    def __init__(self, size: int = MOST_REMEMBERED) -> None:
        self._size = size
        self._values: OrderedDict[Key, V] = OrderedDict()  # the least recently used one first

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> V | None:
        """The value of a key, which counts as a use."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: Key, value: V) -> None:
        """Remember a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)

    def drop_oldest(self, is_useless: Callable[[V], bool]) -> None:
        """Drop values, the least recently used one first, until one is still of use."""
        while self._values and is_useless(next(iter(self._values.values()))):
            self._values.popitem(last=False)

    def get_or_put(self, key: Key, make: Callable[[], V]) -> V:
        """The value of a key, made now if there is none."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value


class Dedupe:
    """Lets the same key through once in a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: Recent[float] = Recent()  # key -> when it may pass again

    def __len__(self) -> int:
        return len(self._until)

    def lets_through(self, key: Key, seconds: float) -> bool:
        """Whether the key has not passed lately; if so, it has now."""
        now = self._clock.monotonic()
        until = self._until.get(key)
        if until is not None and now < until:
            return False
        self._until.drop_oldest(lambda until: until <= now)
        self._until.put(key, now + seconds)
        return True


class SpamFilter:
    """Lets 25 events about an object through at once, and one more every five minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: Recent[Bucket] = Recent()

    def __len__(self) -> int:
        return len(self._buckets)

    def lets_through(self, target: Key) -> bool:
        """Whether one more event about an object may be written."""
        self._buckets.drop_oldest(lambda bucket: bucket.is_full)
        bucket = self._buckets.get_or_put(
            target, lambda: Bucket(self._clock, _OBJECT_REFILL, _OBJECT_BURST)
        )
        return bucket.try_take()


@dataclass(slots=True)
class Series:
    """An event that is written once and counted from then on."""

    used_at: float = 0.0
    count: int = 0
    name: str = ""  # of the Event object, once there is one
    namespace: str = ""


@dataclass(slots=True)
class _Similar:
    """Events about one object that differ in their message alone."""

    seen_at: float
    messages: set[str] = field(default_factory=set)


class Correlator:
    """Finds the series an event belongs to, and its message there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: Recent[_Similar] = Recent()
        self._series: Recent[Series] = Recent()

    def __len__(self) -> int:
        return max(len(self._similar), len(self._series))

    def place(self, kin: Key, message: str) -> tuple[Series, str]:
        """The series of an event, and its message.

        Args:
            kin: what similar events have in common.
            message: what this one says.
        """
        now = self._clock.monotonic()
        self._similar.drop_oldest(lambda similar: now - similar.seen_at > _SIMILAR_SECONDS)
        self._series.drop_oldest(lambda series: now - series.used_at > _EVENT_SECONDS)
        similar = self._similar.get_or_put(kin, lambda: _Similar(now))
        if now - similar.seen_at > _SIMILAR_SECONDS:
            similar.messages.clear()
        similar.seen_at = now
        if message not in similar.messages and len(similar.messages) >= _SIMILAR_EVENTS:
            return self._used((kin, None), now), f"{FOLDED_PREFIX}{message}"
        similar.messages.add(message)
        return self._used((kin, message), now), message

    def _used(self, key: Key, now: float) -> Series:
        series = self._series.get_or_put(key, Series)
        series.used_at = now
        return series


class EventClient(Protocol):
    """What a recorder asks of an API server."""

    async def create(self, kind: type[WrittenEvent], body: Mapping[str, Any]) -> WrittenEvent:
        """Write an event."""

    async def patch(
        self, kind: type[WrittenEvent], name: str, body: Any, namespace: str = ""
    ) -> WrittenEvent:
        """Change an event that was written."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an object.

    Events with ``dedupe`` values are published once in ``dedupe_seconds`` for each reason and
    values. Some reasons, such as ``Nominated``, share a limit for all objects; ``limiter_name``
    lets an event of another reason count towards it.
    """

    target: Resource | ObjectReference
    type: str
    reason: str
    message: str
    dedupe: tuple[str, ...] = ()
    dedupe_seconds: float = 120.0
    limiter_name: str = ""


@dataclass(frozen=True, slots=True)
class _Pending:
    series: Series
    about: ObjectReference
    event: Event
    message: str
    timestamp: str


class Recorder:
    """Writes events in the background."""

    def __init__(
        self,
        kube: EventClient,
        clock: Clock,
        *,
        rng: random.Random,
        component: str = "karpenter",
        instance: str = "",
        queue_size: int = _QUEUE_SIZE,
        observer: Callable[[Event], object] | None = None,
    ) -> None:
        self.dropped = 0  # events that never got written
        self._observer = observer  # called with each event that is queued; must not block
        self._kube = kube
        self._clock = clock
        self._rng = rng
        self._component = component
        self._instance = instance
        self._queue: deque[_Pending] = deque()
        self._queue_size = queue_size
        self._wakeup = asyncio.Event()
        self._last_suffix = 0
        self._dedupe = Dedupe(clock)
        self._spam = SpamFilter(clock)
        self._correlator = Correlator(clock)
        self._shared = {
            name: Bucket(clock, rate, size) for name, (rate, size) in _SHARED_LIMITS.items()
        }

    def publish(self, event: Event) -> None:
        """Queue an event, unless a filter drops it."""
        if event.dedupe and not self._dedupe.lets_through(
            (event.reason, *event.dedupe), event.dedupe_seconds
        ):
            return
        shared = self._shared.get(event.limiter_name or event.reason)
        if shared is not None and not shared.try_take():
            return
        about = reference_to(event.target)
        target = (about.api_version, about.kind, about.namespace, about.name, about.uid)
        message = _shortened(event.message)
        series, message = self._correlator.place((target, event.type, event.reason), message)
        if self._spam.lets_through(target):
            now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            self._enqueue(_Pending(series, about, event, message, now))
            if self._observer is not None:
                self._observer(event)

    async def run(self) -> None:
        """Write what is published, until cancelled."""
        while True:
            if not self._queue:
                self._wakeup.clear()
                await self._wakeup.wait()
                continue
            await self._write_stubbornly(self._queue.popleft())

    def _enqueue(self, pending: _Pending) -> None:
        self._queue.append(pending)
        if len(self._queue) > self._queue_size:
            self._queue.popleft()
            self.dropped += 1
        self._wakeup.set()

    async def _write_stubbornly(self, pending: _Pending) -> None:
        backoff = Backoff(self._rng)
        for _ in range(_TRIES):
            try:
                await self._write(pending)
            except _WORTH_A_RETRY as error:
                last: Exception = error
                await self._clock.sleep(backoff.next())
            except Exception as error:  # noqa: BLE001 other events must still be written
                last = error
                break
            else:
                return
        self.dropped += 1
        _log.debug("event dropped", reason=pending.event.reason, error=str(last))

    async def _write(self, pending: _Pending) -> None:
        series = pending.series
        if series.name:
            change = {
                "count": series.count + 1,
                "lastTimestamp": pending.timestamp,
                "message": pending.message,
            }
            try:
                await self._kube.patch(WrittenEvent, series.name, change, series.namespace)
            except NotFoundError:
                series.count, series.name = 0, ""  # events live for an hour; begin a new one
            else:
                series.count += 1
                return
        await self._create(pending)

    async def _create(self, pending: _Pending) -> None:
        body = self._body(pending)
        try:
            written = await self._kube.create(WrittenEvent, body)
        except AlreadyExistsError:
            # Another replica has generated the same name, in the same nanosecond
            written = await self._kube.create(WrittenEvent, self._body(pending))
        series = pending.series
        series.count = 1
        series.name, series.namespace = written.metadata.name, written.metadata.namespace

    def _body(self, pending: _Pending) -> dict[str, Any]:
        about, event = pending.about, pending.event
        reference = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
        name = f"{about.name[:_LONGEST_NAME]}.{self._suffix():x}"
        return {
            "metadata": {"name": name, "namespace": about.namespace or _DEFAULT_NAMESPACE},
            "involvedObject": {key: value for key, value in reference.items() if value},
            "type": event.type,
            "reason": event.reason,
            "message": pending.message,
            "count": 1,
            "firstTimestamp": pending.timestamp,
            "lastTimestamp": pending.timestamp,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _suffix(self) -> int:
        """The nanoseconds since 1970, as client-go names events; never the same twice."""
        passed = self._clock.now() - EPOCH
        microseconds = passed // timedelta(microseconds=1) + int(EPOCH.timestamp()) * 10**6
        self._last_suffix = max(microseconds * 1000, self._last_suffix + 1)
        return self._last_suffix


def reference_to(target: Resource | ObjectReference) -> ObjectReference:
    """An ObjectReference to an object."""
    if isinstance(target, ObjectReference):
        return target
    metadata = target.metadata
    return ObjectReference(
        api_version=target.api_version,
        kind=target.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _shortened(message: str) -> str:
    if len(message.encode()) <= _LONGEST_MESSAGE:
        return message
    return message.encode()[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."
