"""Keeping a store in a file, so that a cluster outlives its process.

The file is a log: one line for each change, with a checksum. A line is written before the change
is answered, so a crash of the process loses nothing that a client was told (a power cut may lose
what the system had not written out yet); a line cut short by a crash is the last one and is
dropped on the next start. When the log has grown to several times what it describes, it is
rewritten: the new file is complete before it takes the place of the old one.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from karpenter.sandbox.store import Event, Key, Store, Stored

_HEADER: Final = b"karpenter-sandbox-journal 1\n"
# Rewriting pays off only when most of the file is history
_GROWTH: Final = 4
_SMALLEST_REWRITE: Final = 4 * 1024 * 1024
_OWNER_ONLY: Final = 0o600
_REMOVED: Final = b"null"


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
        self._path = path
        self._store = store
        self._size = 0
        self._live = 0
        try:
            if path.exists() and path.stat().st_size:
                _make_sure_nobody_writes(path)
                restore(path, store)
            self._file = self._rewritten()
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}; choose another file") from error
        store.on_change(self._record)

    def close(self) -> None:
        """Write out what the system still holds back."""
        os.fsync(self._file)
        os.close(self._file)

    def _record(self, event: Event) -> None:
        line = _line(event.stored, is_removed=event.type == "DELETED")
        try:
            _write(self._file, line)
        except OSError as error:
            # Half a line would make everything after it unreadable
            os.ftruncate(self._file, self._size)
            raise JournalError(
                f"{self._path}: {error.strerror}; the change is in memory only, make room for it"
            ) from error
        self._size += len(line)
        if self._size > max(_SMALLEST_REWRITE, _GROWTH * self._live):
            old, self._file = self._file, self._rewritten()
            os.close(old)

    def _rewritten(self) -> int:
        partial = self._path.with_name(f".{self._path.name}.rewriting")
        partial.unlink(missing_ok=True)
        file = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_APPEND, _OWNER_ONLY)
        _lock(file)  # before it has the name that others look for
        size = 0
        for chunk in _snapshot(self._store):
            _write(file, chunk)
            size += len(chunk)
        os.fsync(file)
        partial.replace(self._path)
        _sync_folder(self._path.parent)
        self._size = self._live = size
        return file


def restore(path: Path, store: Store) -> None:
    """Fill an empty store from a journal.

    Raises:
        JournalError: the file is damaged or not a journal.
    """
    content = path.read_bytes()
    if not content.startswith(_HEADER):
        raise JournalError(f"{path} is not a journal of a sandbox cluster; choose another file")
    objects: dict[Key, Stored] = {}
    version = 0
    for record in _records(content, path):
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


def _records(data: bytes, path: Path) -> Iterator[_Record]:
    position = len(_HEADER)
    while position < len(data):
        end = data.find(b"\n", position)
        line = data[position : end if end >= 0 else len(data)]
        is_last = end < 0 or end + 1 == len(data)
        record = _read(line)
        if record is None:
            if is_last:
                return
            raise JournalError(
                f"{path} is damaged at byte {position}; restore a copy, or start without it"
            )
        if end < 0:
            return
        yield record
        position = end + 1


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
    # The counter itself, because the object that last moved it may be gone
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


def _make_sure_nobody_writes(path: Path) -> None:
    """Refuse a journal that another process writes to: two histories in one file are none."""
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
    """Lock a file for this process, where the system can; say whether nobody else has done so."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system that knows no locks
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
