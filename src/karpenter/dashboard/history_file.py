"""Keeps the history in a file, to which entries are only appended.

An entry has a head and a body: what it is, its time, the length of the body and a checksum. A program
that was killed while it wrote leaves a torn end, which is cut off at the next start. The file is
written anew when most of it is too old to be kept. A disk that is full ends the writing, with one
warning, and nothing else.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from karpenter.dashboard.history import Segment
from karpenter.os_errors import os_reason

_MAGIC: Final = b"karpenter history 1\n"
_HEAD: Final = struct.Struct(">cdII")  # kind, time, length, checksum
_VIEW: Final = b"V"
_DELTA: Final = b"D"
_LONGEST: Final = 256 * 2**20  # of a body; what claims to be longer is no entry
_OWNER_ONLY: Final = 0o600
_WASTE: Final = 2  # the file may be so many times as large as what is kept
_FEW_BYTES: Final = 8 * 2**20
_log: Final = structlog.get_logger(__name__)


class HistoryFileError(Exception):
    """The file cannot be used; the text is one sentence."""


class HistoryFile:
    """The journal of a history."""

    def __init__(self, path: Path, *, warn: Callable[[str], object] = _log.warning) -> None:
        """Open a file, or begin one.

        Args:
            path: the file.
            warn: called with a sentence when nothing is written any more.

        Raises:
            HistoryFileError: it cannot be opened, or is something else.
        """
        self._path = path
        self._warn = warn
        self._file: BinaryIO | None = None
        try:
            self._file = self._opened()
        except OSError as error:
            raise HistoryFileError(f"{path}: {os_reason(error)}") from error

    def read(self) -> Iterator[Segment]:
        """What was kept, the oldest first; a torn end is cut off."""
        assert self._file is not None
        segment: Segment | None = None
        file, end = self._file, len(_MAGIC)
        file.seek(end)
        while (entry := _entry(file)) is not None:
            end = file.tell()
            kind, at, body = entry
            if kind == _VIEW:
                if segment is not None:
                    yield segment
                segment = Segment(at, body, size=len(body))
            elif segment is not None:
                segment.add(at, body)
        if segment is not None:
            yield segment
        file.truncate(end)
        file.seek(end)

    def begin(self, segment: Segment) -> None:
        """Keep the view that a segment begins with, and make sure that it is on the disk."""
        self._write(_VIEW, segment.began, segment.checkpoint)
        self._guarded(self._sync)

    def add(self, at: float, difference: bytes) -> None:
        """Keep a delta."""
        self._write(_DELTA, at, difference)

    def rewrite(self, segments: Sequence[Segment]) -> None:
        """Write the file anew where most of it is kept no more."""
        if self._file is None:
            return
        kept = sum(len(each.checkpoint) + each.written for each in segments)
        if self._file.tell() > max(_WASTE * kept, _FEW_BYTES):
            self._guarded(lambda: self._replace(segments))

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def _opened(self) -> BinaryIO:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        file = os.fdopen(descriptor, "r+b")
        found = file.read(len(_MAGIC))
        if _MAGIC.startswith(found):  # it is new, or torn before anything was kept
            file.seek(0)
            file.write(_MAGIC)
            file.flush()
        elif found != _MAGIC:
            file.close()
            raise HistoryFileError(f"{self._path} is no history of a dashboard; name another file")
        return file

    def _write(self, kind: bytes, at: float, body: bytes) -> None:
        file = self._file
        if file is not None:
            self._guarded(lambda: _put(file, kind, at, body))

    def _sync(self) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())

    def _replace(self, segments: Sequence[Segment]) -> None:
        partial = self._path.with_name(f".{self._path.name}.partial")
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        file = os.fdopen(descriptor, "r+b")
        try:
            file.write(_MAGIC)
            for segment in segments:
                _put(file, _VIEW, segment.began, segment.checkpoint)
                for at, line in zip(segment.times, segment.lines(), strict=True):
                    _put(file, _DELTA, at, line)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(self._path)
        except OSError:
            file.close()
            partial.unlink(missing_ok=True)
            raise
        self.close()
        self._file = file

    def _guarded(self, work: Callable[[], None]) -> None:
        """Write, or say once that nothing is written any more."""
        if self._file is None:
            return
        try:
            work()
        except OSError as error:
            self._warn(f"{self._path}: {os_reason(error)}; the history is not written any more")
            self.close()


def _put(file: BinaryIO, kind: bytes, at: float, body: bytes) -> None:
    file.write(_HEAD.pack(kind, at, len(body), zlib.crc32(body)) + body)
    file.flush()


def _entry(file: BinaryIO) -> tuple[bytes, float, bytes] | None:
    """The next entry; None at the end, and where it is torn."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, at, length, checksum = _HEAD.unpack(head)
    if kind not in (_VIEW, _DELTA) or length > _LONGEST:
        return None
    body = file.read(length)
    if len(body) < length or zlib.crc32(body) != checksum:
        return None
    return kind, at, body
