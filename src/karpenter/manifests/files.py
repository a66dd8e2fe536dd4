"""The manifests named on a command line: files, folders and standard input.

Every problem is a ``ManifestError`` of its own; one unreadable file does not hide the errors of the
next. Files are read in the order in which they were named, those of a folder by name.
"""

import errno
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from karpenter.manifests.errors import ManifestError
from karpenter.manifests.jsonitems import Maker
from karpenter.manifests.reader import Document, read, size_limit, too_large
from karpenter.os_errors import os_reason

STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "<stdin>"
SUFFIXES = (".yaml", ".yml", ".json")

_HEAD = 4096
_EXPLAINED = {
    errno.ENOENT: "no such file or folder",
    errno.EACCES: "permission to read it is denied",
    errno.EPERM: "permission to read it is denied",
    errno.ELOOP: "its symbolic links lead in a circle",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "this is a folder, not a file",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The objects that could be read, and a sentence for each file that could not."""

    documents: list[Document] = field(default_factory=list)
    errors: list[ManifestError] = field(default_factory=list)


def load(
    names: Sequence[str],
    *,
    recursive: bool,
    standard_input: BinaryIO | None,
    maker: Maker | None = None,
) -> Loaded:
    """Read every named file, the manifests in every named folder, and standard input for ``-``."""
    loaded = Loaded()
    for name in names:
        try:
            files = _files(name, recursive=recursive)
        except ManifestError as error:
            loaded.errors.append(error)
            continue
        for file in files:
            try:
                loaded.documents.extend(_read_one(file, standard_input, maker))
            except ManifestError as error:
                loaded.errors.append(error)
    return loaded


def _read_one(
    file: Path | None, standard_input: BinaryIO | None, maker: Maker | None
) -> list[Document]:
    name = STANDARD_INPUT_NAME if file is None else str(file)
    try:
        if file is not None:
            with file.open("rb") as stream:
                data = _bounded(stream, name)
        elif standard_input is not None:
            data = _bounded(standard_input, name)
        else:
            raise ManifestError(name, None, None, "standard input is closed")
    except OSError as error:
        raise _explained(name, error) from error
    return read(data, name, maker)


def _bounded(stream: BinaryIO, name: str) -> bytes:
    """Read a stream, but no more of it than one byte beyond the limit."""
    head = stream.read(_HEAD)
    limit = size_limit(head)
    if stream.seekable():  # read the head again: prepending it would copy the whole content
        stream.seek(-len(head), io.SEEK_CUR)
        head = b""
    data = head + stream.read(limit + 1 - len(head))
    if len(data) > limit:
        raise too_large(data, name)
    return data


def _files(name: str, *, recursive: bool) -> Sequence[Path | None]:
    """Return the file itself, or the manifests in a folder; None stands for standard input."""
    if name == STANDARD_INPUT:
        return [None]
    if not name:
        raise ManifestError('""', None, None, "the name of the file is empty")
    path = Path(name)
    try:
        if not path.is_dir():
            return [path]
        found = list(_walk(path, recursive=recursive, seen=set()))
    except OSError as error:
        raise _explained(str(error.filename or path), error) from error
    if not found:
        advice = "" if recursive else "; -R looks into its subfolders, too"
        problem = f"the folder holds no {', '.join(SUFFIXES)} file{advice}"
        raise ManifestError(str(path), None, None, problem)
    return found


def _walk(folder: Path, *, recursive: bool, seen: set[Path]) -> Iterator[Path]:
    """Yield the manifests of a folder by name, without hidden ones; each real folder once."""
    real = folder.resolve()
    if real in seen:
        return
    seen.add(real)
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if recursive:
                yield from _walk(entry, recursive=recursive, seen=seen)
        elif entry.suffix in SUFFIXES:
            yield entry


def _explained(name: str, error: OSError) -> ManifestError:
    problem = _EXPLAINED.get(error.errno or 0, os_reason(error))
    if error.errno == errno.ENOENT and Path(name).is_symlink():
        problem = "the symbolic link points to nothing"
    return ManifestError(name, None, None, problem)
