"""The reader of manifests: bytes in, objects with line numbers out.

YAML and JSON, one document or many, ``List`` objects split into their items. The reader returns
plain values (dict, list, str, int, float, bool, None) with text keys, bounded in size and depth,
with the same meaning as in ``kubectl``; and, for what it cannot read, one sentence with file and
line. Validation is left to ``admission``.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import msgspec

from karpenter.manifests import jsonitems, jsontext, limits, positions, yamltext
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.jsonitems import Item, Maker
from karpenter.manifests.positions import Path
from karpenter.manifests.text import check_printable, decode

_BRACKET_FIRST = re.compile(r"\s*([{\[])")
_MEANT_AS_JSON = re.compile(r'\s*\{\s*["}]')
_MARKS_AND_BLANKS = b"\xef\xbb\xbf\xff\xfe \t\r\n\0"  # byte order marks, UTF-16's zero bytes
_TYPE_NAMES = {str: "text", int: "a number", float: "a number", bool: "a boolean", list: "a list"}


class Lines(Protocol):
    """The lines of the fields of a value."""

    def of(self, path: Path) -> int:
        """Return the line of the field at ``path``, or of its nearest ancestor that exists."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where documents come from: the name of a file and its text, which may still be in bytes."""

    name: str
    content: str | bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The text; bytes are decoded at each access, since only messages with a line need it."""
        return self.content if isinstance(self.content, str) else decode(self.content, self.name)


@dataclass(frozen=True)
class Root:
    """A top-level value of a source: where it starts, and in which language it is written."""

    source: Source
    start: int
    first_line: int
    is_json: bool

    @cached_property
    def lines(self) -> Lines:
        """The lines of its fields, computed on first use."""
        if self.is_json:
            return jsontext.JsonLines(self.source.text, self.start)
        return positions.index(self.source.text, self.start, self.first_line)


class Document(msgspec.Struct, frozen=True, gc=False):
    """One object of a manifest, with the lines of its fields."""

    content: dict[str, Any] | Item
    root: Root
    within: Path  # the path of the object in its root; not empty for the items of a List
    index: int  # among the objects of the file

    @property
    def data(self) -> dict[str, Any]:
        """The object as plain values; those of an item are decoded at each access."""
        return self.content.value if isinstance(self.content, Item) else self.content

    @property
    def made(self) -> object:
        """The maker's result for the object, or None."""
        return self.content.made if isinstance(self.content, Item) else None

    @property
    def api_version(self) -> object:
        """Its apiVersion as written, of any type."""
        content = self.content
        return content.api_version if isinstance(content, Item) else content.get("apiVersion")

    @property
    def kind(self) -> object:
        """Its kind as written, of any type."""
        content = self.content
        return content.kind if isinstance(content, Item) else content.get("kind")

    @property
    def source(self) -> Source:
        """Where the object was read from."""
        return self.root.source

    def line(self, path: Path = ()) -> int:
        """Return the line of a field, or of the nearest field above it that exists."""
        return self.root.lines.of((*self.within, *path))


def read(data: bytes, name: str, maker: Maker | None = None) -> list[Document]:
    """Return the objects in the bytes of a file.

    Args:
        data: The file.
        name: Its name in messages.
        maker: Makes results of the objects of a large List while they are read.
    """
    if len(data) > size_limit(data):
        raise too_large(data, name)
    found = jsonitems.split(data, maker)
    if found is not None:
        root = Root(Source(name, data), found.start, 1, is_json=True)
        return [Document(item, root, ("items", i), i) for i, item in enumerate(found.items)]
    source = Source(name, decode(data, name))
    return [
        Document(value, root, within, index)
        for index, (value, root, within) in enumerate(_objects(source))
    ]


def size_limit(head: bytes) -> int:
    """Return how many bytes a file may have that begins with ``head``."""
    return limits.MAX_JSON_BYTES if _may_be_json(head) else limits.MAX_YAML_BYTES


def too_large(data: bytes, name: str) -> ManifestError:
    """Return the error for a file beyond its size limit, at the line of the limit."""
    limit = size_limit(data)
    form = "JSON" if _may_be_json(data) else "YAML"
    line = data.count(b"\n", 0, limit) + 1
    return ManifestError(name, line, None, limits.too_large(limit, form))


def _may_be_json(head: bytes) -> bool:
    return head[:4096].lstrip(_MARKS_AND_BLANKS)[:1] in (b"{", b"[")


def _objects(source: Source) -> Iterator[tuple[dict[str, Any], Root, Path]]:
    for top, root in _values(source):
        pending: list[tuple[Any, Path]] = [(top, ())]
        while pending:
            value, within = pending.pop()
            if not isinstance(value, dict):
                raise _not_an_object(value, root, within)
            items = _items(value, root, within)
            if items is None:
                yield value, root, within
            else:
                inner = [(item, (*within, "items", i)) for i, item in enumerate(items)]
                pending.extend(reversed(inner))


def _values(source: Source) -> Iterator[tuple[Any, Root]]:
    bracket = _BRACKET_FIRST.match(source.text)
    if bracket is None:
        yield from _yaml_values(source)
    elif bracket.group(1) == "[":
        root = Root(source, bracket.start(1), 1, is_json=True)
        raise _not_an_object([], root, ())
    else:
        yield from _json_values(source)


def _json_values(source: Source) -> Iterator[tuple[Any, Root]]:
    try:
        values = jsontext.parse(source.text, source.name)
    except json.JSONDecodeError as error:
        yield from _flow_values(source, error)
        return
    for value, start in values:
        yield value, Root(source, start, 1, is_json=True)


def _flow_values(source: Source, error: json.JSONDecodeError) -> list[tuple[Any, Root]]:
    """Read text that begins like JSON but is not: YAML's flow style begins with a bracket, too."""
    not_json = jsontext.syntax_error(error, source.name)
    if source.name.endswith(".json") or len(source.text) > limits.MAX_YAML_BYTES:
        raise not_json from error
    try:
        return list(_yaml_values(source))
    except ManifestError as not_yaml:
        raise (not_json if _MEANT_AS_JSON.match(source.text) else not_yaml) from error


def _yaml_values(source: Source) -> Iterator[tuple[Any, Root]]:
    check_printable(source.text, source.name)
    for document in yamltext.parse(source.text, source.name):
        yield document.value, Root(source, document.start, document.line, is_json=False)


def _items(value: dict[str, Any], root: Root, within: Path) -> list[Any] | None:
    """Return the items of a List, each with its own kind; None for any other object."""
    kind, items = value.get("kind"), value.get("items")
    if kind == "List" and value.get("apiVersion") == "v1":
        if items is None or isinstance(items, list):
            return items or []
        line = root.lines.of((*within, "items"))
        raise ManifestError(root.source.name, line, None, "the items of a List must be a list")
    common = jsonitems.common_of(value.get("apiVersion"), kind)
    if common is None or not isinstance(items, list):
        return None
    return [{**common, **item} if isinstance(item, dict) else item for item in items]


def _not_an_object(value: object, root: Root, within: Path) -> ManifestError:
    what = _TYPE_NAMES.get(type(value), "empty")
    problem = f"an object with apiVersion and kind is expected here, but this is {what}"
    return ManifestError(root.source.name, root.lines.of(within), None, problem)
