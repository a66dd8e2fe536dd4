"""A write-ahead log of the store, so that a cluster outlives its process.

The file is a log: one line for each change, with a checksum. A line is written before the change
happens, so a crash of the process loses nothing that was acknowledged (a power cut may lose what
the system had not written out yet), and a change fails when the disk is full. A line cut short by a
crash is the last one, of an unacknowledged change, and is dropped on the next start; a last line
that is complete but damaged is dropped as well, with a warning. When the log has grown to several
times what it describes, it is rewritten: the new file is complete before it takes the place of the
old one.
"""

import contextlib
import errno
import logging
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from karpenter_sandbox.store.errors import NotKeptError
from karpenter_sandbox.store.store import Event, Key, Store, Stored

log = logging.getLogger(__name__)

_HEADER: Final = b"karpenter-sandbox-journal 1\n"
# Compaction starts when the file is so many times as large as its live content
_GROWTH: Final = 4
_SMALLEST_REWRITE: Final = 4 * 1024 * 1024
_OWNER_ONLY: Final = 0o600
_REMOVED: Final = b"null"
# Names the object of a damaged line, if that part of the line is intact
_NAMED: Final = re.compile(rb'\[\d+,"[^"]*","([^"]+)","([^"]*)","([^"]+)",')


class JournalError(Exception):
    """A file that cannot be continued; the message says why and what to do."""


class _Record(msgspec.Struct, array_like=True):
    """One change: where, at which version, and the object, or null when it was removed."""

    rv: int
    group: str
    resource: str
    namespace: str
    name: str
    obj: msgspec.Raw


_decoder: Final = msgspec.json.Decoder(_Record)


class Journal:
    """Writes every change of a store to a file."""

    def __init__(self, path: Path, store: Store) -> None:
        """Fill ``store`` from the file, if there is one, and record its changes from now on.

        Raises:
            JournalError: the file is damaged, not a journal, in use, or cannot be written.
        """
        self._name = path
        # A link stays one: what it leads to is rewritten
        self._path = Path(os.path.realpath(path))
        self._store = store
        self._size = 0
        self._live = 0
        self._next_rewrite = 0
        self._has_half_a_line = False  # left by a failed write; truncated before the next
        self._too_long = 0  # length of the longest line the full disk refused; 0: none
        self.lost: str | None = None  # what of the file could not be read, as a sentence
        try:
            if has_history(path):
                _refuse_if_locked(path)
                self.lost = restore(path, store)
            self._file = self._rewritten()
        except OSError as error:
            advice = (
                "make room, or choose another file" if _is_full(error) else "choose another file"
            )
            raise JournalError(f"{path}: {error.strerror}; {advice}") from error
        store.record_with(self._record)

    def close(self) -> None:
        """Write out what the system still holds back.

        Raises:
            JournalError: it cannot be written.
        """
        try:
            os.fsync(self._file)
        except OSError as error:
            problem = f"{self._name}: {error.strerror}; the last changes may be lost"
            raise JournalError(problem) from error
        finally:
            os.close(self._file)

    def _record(self, event: Event) -> None:
        line = _line(event.stored, is_removed=event.type == "DELETED")
        try:
            if self._has_half_a_line:
                # Lines after an incomplete one could not be read
                os.ftruncate(self._file, self._size)
            self._has_half_a_line = True
            _write(self._file, line)
        except OSError as error:
            raise self._refusal(error, len(line)) from error
        self._has_half_a_line = False
        if len(line) >= self._too_long:
            self._too_long = 0
        self._size += len(line)
        if self._size > max(self._next_rewrite, _SMALLEST_REWRITE, _GROWTH * self._live):
            self._rewrite(event)

    def _refusal(self, error: OSError, length: int) -> NotKeptError:
        problem = f"{self._name}: {error.strerror}; changes are refused until this is fixed"
        if not self._too_long:
            # Logged once, until a line as long as the longest refused one is written
            log.error("%s", problem)
        self._too_long = max(self._too_long, length)
        return NotKeptError(problem)

    def _rewrite(self, event: Event) -> None:
        """Compact the file, or postpone that when there is no room for a second one."""
        try:
            old, self._file = self._file, self._rewritten(event)
        except OSError as error:
            self._next_rewrite = 2 * self._size
            log.warning("%s: %s; it is shortened later", self._name, error.strerror)
        else:
            os.close(old)

    def _rewritten(self, event: Event | None = None) -> int:
        """Write a new file with what is in the store, and with the change about to happen."""
        partial = self._path.with_name(f".{self._path.name}.rewriting")
        partial.unlink(missing_ok=True)
        file = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_APPEND, _OWNER_ONLY)
        try:
            _lock(file)  # before the rename, so that no other process gets the lock first
            size = 0
            for chunk in _snapshot(self._store):
                _write(file, chunk)
                size += len(chunk)
            if event is not None:
                line = _line(event.stored, is_removed=event.type == "DELETED")
                _write(file, line)
                size += len(line)
            os.fsync(file)
            partial.replace(self._path)
        except BaseException:
            os.close(file)
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(self._path.parent)
        self._size = self._live = size
        self._next_rewrite = 0
        return file


def has_history(path: Path) -> bool:
    """Whether there is something to read in a file.

    Raises:
        JournalError: it is a device, a pipe or a folder, whose place a journal must not take.
    """
    if not path.exists():
        return False
    if not path.is_file():
        raise JournalError(f"{path} is not a regular file; choose another one")
    return path.stat().st_size > 0


def restore(path: Path, store: Store) -> str | None:
    """Fill an empty store from a journal.

    Returns:
        What could not be read, as a sentence; nothing when all could.

    Raises:
        JournalError: the file is damaged or not a journal.
    """
    content = path.read_bytes()
    if not content.startswith(_HEADER):
        raise JournalError(f"{path} is not a journal of a sandbox cluster; choose another file")
    objects: dict[Key, Stored] = {}
    version = 0
    reading = _Reading(content, path)
    for record in reading.records():
        version = max(version, record.rv)
        if not record.resource:
            continue
        key = Key(record.group, record.resource, record.namespace, record.name)
        data = bytes(record.obj)
        if data == _REMOVED:
            objects.pop(key, None)
        else:
            objects[key] = Stored(key, data, record.rv)
    store.restore(iter(objects.values()), version)
    return reading.lost


class _Reading:
    """One pass over the lines of a journal."""

    def __init__(self, data: bytes, path: Path) -> None:
        self.lost: str | None = None
        self._data = data
        self._path = path

    def records(self) -> Iterator[_Record]:
        """The changes, up to the first that cannot be read."""
        data, position = self._data, len(_HEADER)
        while position < len(data):
            end = data.find(b"\n", position)
            if end < 0:
                # An incomplete line, unless only its newline is damaged
                whole = _read(data[position:-1])
                if whole is not None:
                    yield whole
                return
            record = _read(data[position:end])
            if record is None:
                self._damaged(position, end)
                return
            yield record
            position = end + 1

    def _damaged(self, position: int, end: int) -> None:
        """Note a damaged last line, or refuse a file that is damaged before it."""
        if end + 1 < len(self._data):
            raise JournalError(
                f"{self._path} is damaged at byte {position}; restore a copy, or start without it"
            )
        shown = _NAMED.search(self._data, position, end)
        about = f", of {_readable(shown)}," if shown else ""
        self.lost = (
            f"{self._path} is damaged at byte {position}: the last change{about} is lost;"
            " restore a copy if it matters"
        )


def _readable(found: re.Match[bytes]) -> str:
    resource, namespace, name = (part.decode(errors="replace") for part in found.groups())
    return "/".join(part for part in (resource, namespace, name) if part)


def _read(line: bytes) -> _Record | None:
    checksum, _, content = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(content):
            return None
        return _decoder.decode(content)
    except ValueError:
        return None


def _snapshot(store: Store) -> Iterator[bytes]:
    yield _HEADER
    # The counter itself: the object with the highest version may be deleted
    counter = _Record(store.resource_version, "", "", "", "", msgspec.Raw(_REMOVED))
    yield _checked(msgspec.json.encode(counter))
    for stored in store.everything():
        yield _line(stored)


def _line(stored: Stored, *, is_removed: bool = False) -> bytes:
    key = stored.key
    obj = msgspec.Raw(_REMOVED if is_removed else stored.data)
    record = _Record(stored.rv, key.group, key.resource, key.namespace, key.name, obj)
    return _checked(msgspec.json.encode(record))


def _checked(content: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(content), content)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _is_full(error: OSError) -> bool:
    """Whether there is no room left, on the disk or for its owner."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _refuse_if_locked(path: Path) -> None:
    """Refuse a journal that another process writes to, which would corrupt it."""
    file = os.open(path, os.O_WRONLY)
    try:
        is_free = _lock(file)
    finally:
        os.close(file)
    if not is_free:
        raise JournalError(
            f"{path} is kept by another sandbox that runs; stop that one, or choose another file"
        )


def _lock(file: int) -> bool:
    """Lock a file for this process, where supported; return False if another process holds it."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file survive a power cut, where the system can.

    Where it cannot, the file has its name all the same, and must be written on.
    """
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
