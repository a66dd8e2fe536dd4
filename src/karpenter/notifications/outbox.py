"""What waits to be sent to one sink: repeats dropped, floods folded into digests, retries in time.

Pure: every method takes the time as an argument, in seconds of a monotonic clock. Each record is
counted once: sent by itself, as a part of a digest, dropped or suppressed.
"""

import heapq
import itertools
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Final

from karpenter.decision_log.record import DecisionRecord
from karpenter.notifications.matching import rank

RATE: Final = 1.0  # messages a second
BURST: Final = 20
OVERFLOW_SECONDS: Final = 60.0
REPEAT_SECONDS: Final = 600.0
MOST_WAITING: Final = 1000
MOST_REMEMBERED: Final = 4096  # objects and reasons
RECORDS_IN_DIGEST: Final = 10
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent at once: one record, or a digest of several."""

    id: str  # the same on every try
    records: tuple[DecisionRecord, ...]  # of a digest, the first ones
    kinds: tuple[tuple[str, int], ...]  # how many of each, most first
    is_overflow: bool = False  # a digest of what came too fast

    @property
    def count(self) -> int:
        """How many records it stands for."""
        return sum(number for _, number in self.kinds)

    @property
    def is_digest(self) -> bool:
        """Whether it stands for several."""
        return self.count > 1


@dataclass(slots=True)
class Delivery:
    """A message on its way."""

    message: Message
    created: float
    tries: int = 0


class Tokens:
    """Tokens that come back at a steady rate."""

    def __init__(self, rate: float, size: float) -> None:
        self._rate = rate
        self._size = self._left = size
        self._filled_at = 0.0

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        if self.wait(now) > 0.0:
            return False
        self._left -= 1.0
        return True

    def wait(self, now: float) -> float:
        """Seconds until there is a token."""
        passed = max(0.0, now - self._filled_at)
        self._left = min(self._size, self._left + passed * self._rate)
        self._filled_at = now
        missing = 1.0 - self._left
        return missing / self._rate if missing > _ROUNDING else 0.0


@dataclass(slots=True)
class _Fold:
    """Records that will be sent together."""

    due: float
    is_overflow: bool
    records: list[DecisionRecord] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, record: DecisionRecord) -> None:
        self.kinds[record.kind.value] += 1
        if len(self.records) < RECORDS_IN_DIGEST:
            self.records.append(record)

    def message(self) -> Message:
        count = self.kinds.total()
        first = self.records[0].id
        number = first if count == 1 else f"digest-{first}-{count}"
        kinds = tuple(sorted(self.kinds.items(), key=lambda each: (-each[1], each[0])))
        return Message(number, tuple(self.records), kinds, self.is_overflow and count > 1)


class Repeats:
    """Finds repeats: records with the subject and reason of another one shortly before."""

    def __init__(self) -> None:
        self._until: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def is_repeat(self, record: DecisionRecord, now: float) -> bool:
        """Whether a record repeats another one; one that is more severe is no repeat."""
        key = (record.subject, record.reason)
        until, reported = self._until.get(key, (now, 0))
        if now < until and rank(record) <= reported:
            return True
        self._until[key] = now + REPEAT_SECONDS, rank(record)
        self._until.move_to_end(key)
        if len(self._until) > MOST_REMEMBERED:
            self._until.popitem(last=False)
        return False


class Outbox:
    """The messages of one sink."""

    def __init__(self, digest_seconds: float = 0.0, most: int = MOST_WAITING) -> None:
        self.dropped = 0  # records of messages that were dropped because too many waited
        self.suppressed = 0  # records that repeated others
        self._digest_seconds = digest_seconds
        self._most = most
        self._repeats = Repeats()
        self._arrivals = Tokens(RATE, BURST)  # records beyond it are folded into a digest
        self._departures = Tokens(RATE, BURST)  # limits the burst after an outage of the sink
        self._fold: _Fold | None = None
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, Delivery]] = []  # a heap by due time
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._waiting) + (self._fold is not None)

    def offer(self, record: DecisionRecord, now: float) -> None:
        """Enqueue a record, unless it is a repeat."""
        if self._repeats.is_repeat(record, now):
            self.suppressed += 1
            return
        self._close_fold(now)
        if self._fold is None and self._digest_seconds:
            self._fold = _Fold(now + self._digest_seconds, is_overflow=False)
        if self._fold is None and not self._arrivals.take(now):
            self._fold = _Fold(now + OVERFLOW_SECONDS, is_overflow=True)
        if self._fold is not None:
            self._fold.add(record)
            return
        self._put(Message(record.id, (record,), ((record.kind.value, 1),)), now)

    def take(self, now: float) -> Delivery | None:
        """The next message that may be sent now, if there is one."""
        self._close_fold(now)
        if not self._waiting or self._ready_at() > now or not self._departures.take(now):
            return None
        return heapq.heappop(self._waiting)[2]

    def wake_at(self, now: float) -> float | None:
        """When ``take`` may give something; None if nothing waits."""
        times = [self._fold.due] if self._fold is not None else []
        if self._waiting:
            times.append(max(self._ready_at(), now + self._departures.wait(now)))
        return min(times, default=None)

    def try_again(self, delivery: Delivery, due: float) -> None:
        """Keep a message that could not be sent until ``due``."""
        self._push(delivery, due)

    def pause(self, until: float) -> None:
        """Send nothing until then, as the sink's ``Retry-After`` requests."""
        self._not_before = max(self._not_before, until)

    def hurry(self, now: float) -> None:
        """Make the digest that is being collected due now, because the process ends."""
        if self._fold is not None:
            self._fold.due = now

    def _ready_at(self) -> float:
        return max(self._waiting[0][0], self._not_before)

    def _close_fold(self, now: float) -> None:
        fold = self._fold
        if fold is not None and fold.due <= now:
            self._fold = None
            self._put(fold.message(), now)

    def _put(self, message: Message, now: float) -> None:
        self._push(Delivery(message, now), now)

    def _push(self, delivery: Delivery, due: float) -> None:
        heapq.heappush(self._waiting, (due, next(self._order), delivery))
        if len(self._waiting) > self._most:
            oldest = min(self._waiting, key=lambda entry: (entry[2].created, entry[1]))
            self._waiting.remove(oldest)
            heapq.heapify(self._waiting)
            self.dropped += oldest[2].message.count
