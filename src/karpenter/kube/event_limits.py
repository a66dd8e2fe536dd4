"""What keeps events from flooding a cluster: three sieves, each with a bounded memory.

``Dedupe`` lets the same thing be said once in a while. ``SpamFilter`` bounds what is said about
one object. ``Correlator`` counts what is said again instead of writing it again, and folds many
similar events into one.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from karpenter.clock import Clock
from karpenter.kube.limiter import Bucket

V = TypeVar("V")

MOST_REMEMBERED: Final = 4096
# What kubectl and dashboards know from other controllers
FOLDED_PREFIX: Final = "(combined from similar events): "
_SIMILAR_EVENTS: Final = 10
_SIMILAR_SECONDS: Final = 600.0
_OBJECT_BURST: Final = 25
_OBJECT_REFILL: Final = 1.0 / 300.0

Key: TypeAlias = Hashable


class Recent(Generic[V]):
    """A mapping that forgets what was used the longest time ago."""

    def __init__(self, size: int = MOST_REMEMBERED) -> None:
        self._size = size
        self._values: OrderedDict[Key, V] = OrderedDict()

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
        bucket = self._buckets.get_or_put(
            target, lambda: Bucket(self._clock, _OBJECT_REFILL, _OBJECT_BURST)
        )
        return bucket.try_take()


@dataclass(slots=True)
class Series:
    """An event that is written once and counted from then on."""

    count: int = 0
    name: str = ""  # of the Event object, once there is one
    namespace: str = ""


@dataclass(slots=True)
class _Similar:
    """Events about one object that differ in their message alone."""

    seen_at: float
    messages: set[str] = field(default_factory=set)


class Correlator:
    """Finds the series an event belongs to, and what it says there."""

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
        similar = self._similar.get_or_put(kin, lambda: _Similar(now))
        if now - similar.seen_at > _SIMILAR_SECONDS:
            similar.messages.clear()
        similar.seen_at = now
        if message not in similar.messages and len(similar.messages) >= _SIMILAR_EVENTS:
            return self._series.get_or_put((kin, None), Series), f"{FOLDED_PREFIX}{message}"
        similar.messages.add(message)
        return self._series.get_or_put((kin, message), Series), message
