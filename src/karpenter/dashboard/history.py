"""The views of the past: now and then a whole view, and between them the deltas that lead on.

The past is kept in segments. Each begins with a view and is bounded in time and size, so that any
moment within it is found soon; when it ends, its deltas are compressed. The oldest segments are
dropped first. Views are kept by the time of the cluster, which in a sandbox may run fast.
"""

import threading
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from karpenter.dashboard.contract import Delta, HistoryKept, View
from karpenter.dashboard.delta import Replay
from karpenter.dashboard.feed import Published
from karpenter.decision_log.record import moment_text

MOST_SECONDS: Final = 24 * 3600.0
MOST_BYTES: Final = 64 * 2**20
SEGMENT_SECONDS: Final = 900.0
SEGMENT_BYTES: Final = 4 * 2**20  # of deltas
_LEVEL: Final = 6
_ROW: Final = 64  # bytes that a delta takes beside its text
_DELTAS: Final = msgspec.json.Decoder(Delta)
_VIEWS: Final = msgspec.json.Decoder(View)


@dataclass(slots=True)
class Segment:
    """A view, and the deltas that follow it."""

    began: float  # seconds since 1970
    checkpoint: bytes  # the view, with gzip
    times: list[float] = field(default_factory=list)  # of the deltas
    deltas: list[bytes] = field(default_factory=list)  # empty once they are compressed
    compressed: bytes = b""  # a line for each
    size: int = 0  # in memory
    written: int = 0  # bytes of the deltas before they were compressed

    @property
    def ended(self) -> float:
        """The moment of the last view."""
        return self.times[-1] if self.times else self.began

    def add(self, at: float, difference: bytes) -> None:
        """Add a delta."""
        self.times.append(at)
        self.deltas.append(difference)
        self.size += len(difference) + _ROW
        self.written += len(difference)

    def close(self) -> None:
        """Compress the deltas: no further ones come."""
        self.compressed = zlib.compress(b"\n".join(self.deltas), _LEVEL)
        self.deltas = []
        self.size = len(self.checkpoint) + len(self.compressed) + _ROW * len(self.times)

    def lines(self) -> Sequence[bytes]:
        """The deltas."""
        if not self.compressed:
            return tuple(self.deltas)
        return zlib.decompress(self.compressed).split(b"\n") if self.times else ()


class Journal(Protocol):
    """Keeps what is recorded over restarts."""

    def read(self) -> Iterable[Segment]:
        """What was kept, the oldest first."""

    def begin(self, segment: Segment) -> None:
        """Keep the view that a segment begins with."""

    def add(self, at: float, difference: bytes) -> None:
        """Keep a delta."""

    def rewrite(self, segments: Sequence[Segment]) -> None:
        """Keep these and no others, where what is kept has become too large."""

    def close(self) -> None:
        """Keep nothing more."""


class History:
    """The views of the past; it is used by several threads."""

    def __init__(
        self,
        *,
        seconds: float = MOST_SECONDS,
        most_bytes: int = MOST_BYTES,
        journal: Journal | None = None,
    ) -> None:
        """Begin with what a journal has kept.

        Args:
            seconds: how far back it goes.
            most_bytes: how large it may become.
            journal: keeps it over restarts.
        """
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._journal = journal
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._last: tuple[str, int] = ("", 0)  # epoch and number of the last view
        for segment in journal.read() if journal is not None else ():
            segment.close()
            self._append(segment)

    def keep(self, published: Published, difference: bytes) -> None:
        """Keep a view, by the delta that leads to it where the one before it was kept."""
        view = published.view
        at = _seconds(view.at)
        follows = self._last == (view.epoch, view.seq - 1)
        with self._lock:
            last = self._segments[-1] if self._segments else None
            self._last = (view.epoch, view.seq)
            if last is not None and difference and follows and _has_room(last, at):
                last.add(at, difference)
                if self._journal is not None:
                    self._journal.add(at, difference)
                return
            if last is not None and not last.compressed:
                last.close()
            checkpoint = published.compressed
            segment = Segment(at, checkpoint, size=len(checkpoint))
            self._segments.append(segment)
            self._drop(at)
            if self._journal is not None:
                self._journal.begin(segment)
                self._journal.rewrite(self._segments)

    def at(self, moment: float) -> View | None:
        """The view of a moment, in seconds since 1970; None if none is kept of it."""
        with self._lock:
            place = bisect_right(self._segments, moment, key=lambda segment: segment.began)
            if not place:
                return None
            segment = self._segments[place - 1]
            count = bisect_right(segment.times, moment)
            lines = segment.lines()[:count]
            checkpoint = segment.checkpoint
        replay = Replay(_VIEWS.decode(zlib.decompress(checkpoint, wbits=31)))
        for line in lines:
            replay.apply(_DELTAS.decode(line))
        return msgspec.structs.replace(replay.view(), is_live=False)

    def close(self) -> None:
        """Close the journal."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return sum(segment.size for segment in self._segments)

    @property
    def kept(self) -> HistoryKept:
        """How far back it goes."""
        with self._lock:
            first, last = self._segments[:1], self._segments[-1:]
            return HistoryKept(
                since=_text(first[0].began) if first else None,
                until=_text(last[0].ended) if last else "",
                bytes=self.size,
                is_on_disk=self._journal is not None,
            )

    def _append(self, segment: Segment) -> None:
        """Take over a segment that has ended."""
        self._segments.append(segment)
        self._drop(segment.ended)

    def _drop(self, now: float) -> None:
        """Drop what is too old or too much, but never the last segment."""
        while len(self._segments) > 1 and (
            now - self._segments[0].ended > self._seconds or self.size > self._most_bytes
        ):
            del self._segments[0]


def _has_room(segment: Segment, at: float) -> bool:
    """Whether a delta may be added; time that goes back begins a segment of its own."""
    return (
        not segment.compressed
        and segment.ended <= at < segment.began + SEGMENT_SECONDS
        and segment.size < SEGMENT_BYTES
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _text(moment: float) -> str:
    return moment_text(datetime.fromtimestamp(moment, UTC))
