"""The decision log as a file: one line of JSON for each record, rotated by size.

Lines are appended in order from a background task, at most a second late. While writes fail,
because the disk is full or gone, one warning is logged and lines wait in a bounded buffer;
decisions are not delayed. The file always ends with a whole line: one that was torn by a crash or a
full disk is truncated.
"""

import asyncio
import os
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from karpenter.clock import Clock
from karpenter.decision_log.record import DecisionRecord
from karpenter.os_errors import os_reason

MOST_BYTES: Final = 64 * 1024 * 1024
FILES: Final = 3
MOST_WAITING: Final = 20_000  # lines, while they cannot be written
_PERIOD: Final = 0.5
_MODE: Final = 0o640
_AT_A_TIME: Final = 1000  # lines in one write
_TAIL: Final = 64 * 1024
_BREAK: Final = b"\n"


class DecisionFile:
    """Appends records to a file."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        log: FilteringBoundLogger,
        *,
        most_bytes: int = MOST_BYTES,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.dropped = 0  # lines that never got written
        self._target = RotatedFile(Path(path), most_bytes)
        self._clock = clock
        self._log = log
        self._most_waiting = most_waiting
        self._waiting: deque[bytes] = deque()
        self._has_work = asyncio.Event()
        self._is_in_trouble = False

    def take(self, _record: DecisionRecord, line: bytes) -> None:
        """Enqueue a line; never waits."""
        self._waiting.append(line)
        self._drop_oldest()
        self._has_work.set()

    async def run(self) -> None:
        """Write what comes, until cancelled; what waits then is still written."""
        try:
            while True:
                await self._has_work.wait()
                await self._write()
                await self._clock.sleep(_PERIOD)
        finally:
            await self._write()
            self._target.close()

    async def _write(self) -> None:
        """Write what waits now; what cannot be written waits on."""
        self._has_work.clear()
        batch, self._waiting = self._waiting, deque()
        if not batch:
            return
        job = asyncio.ensure_future(asyncio.to_thread(self._target.append, batch))
        try:
            await asyncio.shield(job)
        finally:
            # Awaited even when cancelled: the thread's result tells which lines are written
            written = await job
            left = len(batch) - written
            self._waiting.extendleft(batch.pop() for _ in range(left))
            self._drop_oldest()
            if left:
                self._has_work.set()
            self._warn()

    def _drop_oldest(self) -> None:
        while len(self._waiting) > self._most_waiting:
            self._waiting.popleft()
            self.dropped += 1

    def _warn(self) -> None:
        """Warn when writing begins to fail, and not again before it has worked."""
        trouble = self._target.trouble
        if trouble and not self._is_in_trouble:
            self._log.warning(
                "decision log not written",
                error=f"DECISION_LOG: {self._target.path} cannot be written: {trouble};"
                " make room or correct the path; decisions go on without it",
            )
        self._is_in_trouble = bool(trouble)


class RotatedFile:
    """A file that is renamed when it is full: ``log``, ``log.1``, ``log.2``."""

    def __init__(self, path: Path, most_bytes: int, files: int = FILES) -> None:
        self.path: Final = path
        self.trouble = ""  # why the last write failed; empty if it did not
        self._most_bytes = most_bytes
        self._files = files
        self._descriptor: int | None = None
        self._size = 0
        self._is_regular = True

    def append(self, lines: Sequence[bytes]) -> int:
        """Append lines, and return how many were written."""
        self.trouble, written = "", 0
        try:
            for chunk in _chunks(list(lines)):
                written += self._append(chunk)
        except OSError as error:
            self.trouble = os_reason(error)
            self.close()
        return written

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _append(self, lines: Sequence[bytes]) -> int:
        text = b"".join(line + _BREAK for line in lines)
        descriptor = self._opened()
        if self._is_regular and self._size and self._size + len(text) > self._most_bytes:
            self.close()
            self._rotate()
            descriptor = self._opened()
        view = memoryview(text)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except OSError:
                if self._is_regular:
                    os.ftruncate(descriptor, self._size)  # removes a partly written line
                raise
        self._size += len(text)
        return len(lines)

    def _opened(self) -> int:
        if self._descriptor is None:
            flags = os.O_RDWR if self._exists_as_file() else os.O_WRONLY
            self._descriptor = os.open(self.path, flags | os.O_CREAT | os.O_APPEND, _MODE)
            found = os.fstat(self._descriptor)
            self._is_regular = stat.S_ISREG(found.st_mode)
            self._size = found.st_size
            if self._is_regular and self._size and flags == os.O_RDWR:
                self._size = _whole_lines(self._descriptor, self._size)
                os.ftruncate(self._descriptor, self._size)
        return self._descriptor

    def _exists_as_file(self) -> bool:
        return self.path.is_file()

    def _rotate(self) -> None:
        for number in reversed(range(1, self._files)):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = (
                self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            )
            if newer.exists():
                newer.replace(older)


def _chunks(lines: list[bytes]) -> list[list[bytes]]:
    return [lines[start : start + _AT_A_TIME] for start in range(0, len(lines), _AT_A_TIME)]


def _whole_lines(descriptor: int, size: int) -> int:
    """How many bytes of a file are whole lines."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL)
        found = os.pread(descriptor, end - start, start).rfind(_BREAK)
        if found >= 0:
            return start + found + 1
        end = start
    return 0
