"""The files of the page, under a path that changes with them.

``index.html`` names the others as ``assets/-/...``; in place of the dash the server puts the hash of
all files, so that browsers keep them for a year and never mix two releases.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

INDEX: Final = "index.html"
_PLACEHOLDER: Final = b"assets/-/"
_DIGITS: Final = 12
_TYPES: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Asset:
    """One file."""

    content_type: str
    body: bytes

    @cached_property
    def compressed(self) -> bytes:
        """The body with gzip, made once."""
        return gzip.compress(self.body, mtime=0)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of the page."""

    hash: str
    index: Asset
    files: Mapping[str, Asset]  # by their path within the folder


def load_assets() -> Assets:
    """Read the files from the package."""
    found = dict(sorted(_walked(files("karpenter.dashboard") / "web")))
    digest = hashlib.sha256()
    for path, body in found.items():
        digest.update(f"{path}\0{len(body)}\0".encode() + body)
    named = digest.hexdigest()[:_DIGITS]
    index = found.pop(INDEX).replace(_PLACEHOLDER, f"assets/{named}/".encode())
    rest = {path: Asset(_type_of(path), body) for path, body in found.items()}
    return Assets(named, Asset(_type_of(INDEX), index), rest)


def _walked(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walked(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _TYPES or "." not in entry.name:
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _type_of(path: str) -> str:
    return _TYPES.get(path.rpartition(".")[2], _PLAIN)
