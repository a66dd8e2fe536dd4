"""Reproducible archives: files in order, fixed times, no user or group names."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from releasing.wheels import EPOCH

_PLAIN: Final = 0o644
_PROGRAM: Final = 0o755


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of an archive."""

    content: bytes
    is_program: bool = False


def write(file: Path, entries: Mapping[str, Entry]) -> None:
    """Write a ``.tar.gz`` of files, each under its name."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, entry in sorted(entries.items()):
            described = tarfile.TarInfo(name)
            described.size = len(entry.content)
            described.mtime = EPOCH
            described.mode = _PROGRAM if entry.is_program else _PLAIN
            archive.addfile(described, io.BytesIO(entry.content))
    file.write_bytes(gzip.compress(written.getvalue(), mtime=0))


def folder_entries(folder: Path, name: str) -> dict[str, Entry]:
    """Every file of a folder, below a name."""
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": Entry(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
