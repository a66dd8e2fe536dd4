"""The folder of a recording: segments that are on the disk a few seconds later, and its scenario."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from karpenter.os_errors import os_reason
from karpenter.simulate.record.facts import Facts
from karpenter.simulate.record.mishaps import Mishaps
from karpenter.simulate.record.prices import PriceBook, PricesError
from karpenter.simulate.record.scenario_file import NAME, ScenarioText, Supply
from karpenter.simulate.record.segments import (
    PATTERN,
    Change,
    Compressor,
    Reading,
    RecordingError,
    beginning,
    key_of,
    name_of,
    read,
)

_NEW: Final = ".new"  # ending of a file that is not whole yet


class FolderError(Exception):
    """The folder cannot be recorded to; one sentence."""


class WriteError(Exception):
    """Something could not be written; one sentence."""


class Folder:
    """A folder that one recorder writes to."""

    def __init__(self, path: Path) -> None:
        """Open the folder, and make it if it is missing.

        Raises:
            FolderError: it is none, or another recorder writes to it.
            WriteError: it cannot be written to.
        """
        self.path: Final = path
        if not path.absolute().parent.is_dir():
            raise FolderError(f"{path}: there is no folder {path.absolute().parent}")
        try:
            path.mkdir(exist_ok=True)
        except FileExistsError:
            raise FolderError(f"{path}: is not a folder") from None
        except OSError as error:
            raise WriteError(f"{path}: {os_reason(error)}") from None
        try:
            self._lock = os.open(path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"{path}: another recorder writes to it") from None
        except OSError as error:
            raise FolderError(f"{path}: {os_reason(error)}") from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise WriteError(f"{path}: you may not write to it")
        if not self.segments() and (path / NAME).exists():
            raise FolderError(
                f"{path}: has a {NAME} but no recording; choose another folder, or remove the file"
            )

    def segments(self) -> list[Path]:
        """The files of its segments, oldest first."""
        return sorted(self.path.glob(PATTERN))

    def close(self) -> None:
        """Let another recorder have it."""
        os.close(self._lock)


class Archive:
    """Segments and scenario of one recording."""

    def __init__(
        self,
        folder: Folder,
        *,
        now: Callable[[], float],
        rotate_seconds: float | None,
        rotate_bytes: int | None,
        keep_seconds: float | None,
    ) -> None:
        """Prepare to write.

        Args:
            folder: where to.
            now: the time of day, in seconds.
            rotate_seconds: how long a segment gets.
            rotate_bytes: how large a segment gets, instead.
            keep_seconds: how long segments are kept after their end; for ever by default.

        Raises:
            FolderError: the prices that it has cannot be continued.
        """
        self._folder = folder
        self._now = now
        self._rotate_seconds = rotate_seconds
        self._rotate_bytes = rotate_bytes
        self._keep_seconds = keep_seconds
        self._facts = Facts()
        self._supply = Supply()
        self._mishaps = Mishaps()
        try:
            self.prices: Final = PriceBook(folder.path)
        except PricesError as error:
            raise FolderError(f"{folder.path}: {error}") from None
        self._scenario = ScenarioText(self._facts, self._mishaps, self._supply, self.prices)
        self._segment: tuple[BinaryIO, Compressor] | None = None
        self._began = 0.0  # the present segment
        self._since: float | None = None  # the recording
        self._heads: list[tuple[int, float]] = []  # numbers and beginnings of segments
        self._head_size = 0  # bytes of the present segment that tell what there was
        self._number = 0
        self._previous: int | None = None

    def continue_(self, fingerprint: str) -> float | None:
        """Go on with what the folder has; return when its recorder was last heard of.

        Raises:
            FolderError: what it has is no recording that can be continued.
        """
        files = self._folder.segments()
        if not files:
            return None
        reading = Reading()
        try:
            for change in read([(each.name, each.read_bytes()) for each in files], reading):
                if isinstance(change, Change):
                    self.changed(change)
        except RecordingError as error:
            raise FolderError(f"{self._folder.path}: cannot be continued: {error}") from None
        except OSError as error:
            raise FolderError(f"{self._folder.path}: {os_reason(error)}") from None
        if reading.heads[-1].names != fingerprint:
            raise FolderError(
                f"{self._folder.path}: its recording has names of another kind; hash them with the"
                " --key of that time, or choose another folder"
            )
        for path in files[len(reading.heads) :]:
            path.unlink()  # a recorder died before it had written anything to it
        self._heads = [(head.segment, head.at) for head in reading.heads]
        self._number = reading.heads[-1].segment
        self._previous = files[len(reading.heads) - 1].stat().st_size
        self._find_beginning()
        return reading.last

    def changed(self, change: Change) -> None:
        """Take note of what happened."""
        self._facts.take(change)
        self._mishaps.take(change)
        if change.after is not None:
            self._supply.take(change.key, change.after)

    # --- Writing

    def open(self) -> tuple[int, int | None]:
        """Open the next segment; return its number, and the bytes of the one before."""
        self._number += 1
        path = self._folder.path / name_of(self._number)
        try:
            file = path.open("xb")
        except OSError as error:
            raise WriteError(f"{path}: {os_reason(error)}") from None
        self._segment = file, Compressor(file.write)
        self._began = self._now()
        self._heads.append((self._number, self._began))
        return self._number, self._previous

    def write(self, line: bytes) -> None:
        """Add a line to the present segment."""
        _, compressor = self._open_segment()
        try:
            compressor.add(line)
        except OSError as error:
            raise self._failed(error) from None

    def flush(self) -> None:
        """Bring what was written to the disk, with the scenario of it."""
        file, compressor = self._open_segment()
        try:
            compressor.flush()
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from None
        self._write_scenario()

    def is_full(self) -> bool:
        """Whether it is time for another segment."""
        _, compressor = self._open_segment()
        # Where the objects alone are as large, there is a segment each time they double
        if self._rotate_bytes is not None:
            return compressor.size >= max(self._rotate_bytes, 2 * self._head_size)
        age = self._now() - self._began
        return self._rotate_seconds is not None and age >= self._rotate_seconds

    def finish(self) -> None:
        """End the present segment, and forget those that are too old."""
        file, compressor = self._open_segment()
        try:
            compressor.finish()
            file.flush()
            os.fsync(file.fileno())
            file.close()
        except OSError as error:
            raise self._failed(error) from None
        self._previous = compressor.size
        self._segment = None
        self._forget()
        self._write_scenario()

    @property
    def path(self) -> Path:
        """The folder."""
        return self._folder.path

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(each.stat().st_size for each in self._folder.segments())

    def began(self) -> None:
        """The head of a segment is written: the scenario begins with that of the oldest."""
        self.flush()
        self._head_size = self._open_segment()[1].size
        if len(self._heads) == 1:
            self._find_beginning()
            self._write_scenario()

    def _find_beginning(self) -> None:
        """Take when the oldest segment begins, and with what."""
        path = self._folder.path / name_of(self._heads[0][0])
        head, objects = beginning(path.name, path.read_bytes())
        self._supply.begin([(key_of(obj), obj) for obj in objects])
        self._since = head.at

    def _forget(self) -> None:
        """Remove segments that ended before what is kept."""
        if self._keep_seconds is None:
            return
        oldest_kept = self._now() - self._keep_seconds
        count = len(self._heads)
        while len(self._heads) > 1 and self._heads[1][1] <= oldest_kept:
            (self._folder.path / name_of(self._heads[0][0])).unlink(missing_ok=True)
            del self._heads[0]
        if len(self._heads) < count:
            self._find_beginning()

    def _write_scenario(self) -> None:
        if self._since is None:
            return
        path = self._folder.path / NAME
        new = path.with_name(NAME + _NEW)
        text = self._scenario.text(self._since, self._now())
        try:
            new.write_text(text, encoding="utf-8")
            new.replace(path)
        except OSError as error:
            raise WriteError(f"{path}: {os_reason(error)}") from None

    def _open_segment(self) -> tuple[BinaryIO, Compressor]:
        assert self._segment is not None, "a segment is open"
        return self._segment

    def _failed(self, error: OSError) -> WriteError:
        return WriteError(f"{self._folder.path / name_of(self._number)}: {os_reason(error)}")
