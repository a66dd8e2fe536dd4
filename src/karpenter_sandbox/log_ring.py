"""A ring buffer of a program's log lines, served by the API as the log of a pod.

Containers here run no programs, but a pod may represent the process that runs the cluster. Its
latest lines are kept in a ring buffer, and a ``LogSource`` selects the pods that show them.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject

_MOST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line with its end, and when it was written."""

    moment: datetime
    data: bytes


class LogRing:
    """The latest lines of a program, which may write them in any thread."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._written = 0  # lines ever written: a follower's position
        self._lock = threading.Lock()
        self._followers: set[Follower] = set()

    def write(self, moment: datetime, text: str) -> None:
        """Append a line, and drop the oldest ones beyond the limit; the latest always stays."""
        line = LogLine(moment, text.rstrip("\n").encode(errors="replace") + b"\n")
        with self._lock:
            self._lines.append(line)
            self._written += 1
            self._size += len(line.data)
            while self._size > self._most_bytes and len(self._lines) > 1:
                self._size -= len(self._lines.popleft().data)
        self.wake()

    def since(self, number: int) -> tuple[list[LogLine], int]:
        """The lines after the first so many ever written, as far as kept, and how many there are."""
        with self._lock:
            new = min(self._written - number, len(self._lines))
            return list(self._lines)[len(self._lines) - new :], self._written

    def wake(self) -> None:
        """Wake all followers, so that they check for changes."""
        for follower in tuple(self._followers):
            follower.wake()

    @contextmanager
    def followed(self) -> "Iterator[Follower]":
        """Follow the lines, the kept ones first, for as long as a block runs."""
        follower = Follower(self)
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)


class Follower:
    """A reader that follows a ring as it grows."""

    def __init__(self, ring: LogRing) -> None:
        self._ring = ring
        self._seen = 0
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Make ``wait`` return; called from any thread."""
        self._loop.call_soon_threadsafe(self._changed.set)

    def taken(self) -> list[LogLine]:
        """The lines since this was asked last."""
        self._changed.clear()
        lines, self._seen = self._ring.since(self._seen)
        return lines

    async def wait(self) -> None:
        """Wait until there may be something new."""
        await self._changed.wait()


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log of all pods of a namespace that name a scheduler, which runs them itself."""

    namespace: str
    scheduler: str
    ring: LogRing

    def is_of(self, pod: JsonObject) -> bool:
        """Whether a pod shows this log."""
        is_there: bool = pod["metadata"].get("namespace") == self.namespace
        return is_there and pod["spec"].get("schedulerName") == self.scheduler
