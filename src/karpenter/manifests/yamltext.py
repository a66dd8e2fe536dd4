"""YAML text to plain values, one event at a time.

The values are built here rather than by PyYAML's constructor for three reasons: scalars must have
the values that Kubernetes gives them (see ``scalars``), every limit must hold while reading and not
after it, and no nesting may exhaust the stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from karpenter.manifests import limits
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.positions import index
from karpenter.manifests.scalars import ScalarError, unknown_tag
from karpenter.manifests.yamlerrors import TEMPLATE, explain
from karpenter.manifests.yamlevents import (
    MERGE_KEY,
    Mark,
    events,
    is_merge_key,
    key_of,
    start_of,
    value_of,
)

_COLLECTION_TAGS = {"!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a stream, and the index and line of the text where it starts."""

    value: Any
    start: int
    line: int


@dataclass(frozen=True, slots=True)
class _Anchored:
    """The value of an anchor, how many values it holds, and how deep they nest."""

    value: Any
    count: int
    depth: int


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read yet."""

    value: list[Any] | dict[str, Any]
    mark: Mark
    anchor: str | None
    count_before: int
    deepest: int = 0  # levels of the deepest value inside
    key: str | None = None  # mappings: the key whose value comes next
    is_merge: bool = False  # mappings: that key is the merge key
    merged: dict[str, Any] | None = None  # mappings: the entries of the merge key

    @property
    def wants_key(self) -> bool:
        return self.key is None and isinstance(self.value, dict)


def parse(text: str, name: str) -> Iterator[YamlDocument]:
    """Yield the documents of a YAML stream, without empty ones."""
    builder = _Builder(text, name)
    try:
        for event in events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                builder.begin_document(start_of(event))
            elif isinstance(event, yaml.DocumentEndEvent):
                if builder.root is not None:
                    yield YamlDocument(builder.root, builder.start, builder.line)
            else:
                builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise ManifestError(name, *explain(error, text)) from error
    except yaml.YAMLError as error:
        raise ManifestError(name, None, None, f"the file is not valid YAML: {error}") from error


class _Builder:
    """Builds a value from the events of a document, with a stack of open collections."""

    def __init__(self, text: str, name: str) -> None:
        self.root: Any = None
        self.start = 0
        self.line = 1
        self._text = text
        self._name = name
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None while the anchored value is open
        self._count = 0
        self._aliased = 0

    def begin_document(self, mark: Mark) -> None:
        """Reset the state and start a document at ``mark``."""
        self.root, self.start, self.line, self._anchors = None, mark.index, mark.line + 1, {}

    def take(self, event: yaml.Event) -> None:
        """Take the next event of the document."""
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin(event, {})
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin(event, [])
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        mark = start_of(event)
        try:
            value = value_of(event)
        except ScalarError as error:
            raise self._error(mark, str(error)) from error
        self._count_in(1, mark)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, count=1, depth=0)
        if self._open and self._open[-1].wants_key:
            self._key(value, mark, is_merge=is_merge_key(event))
        else:
            self._add(value, mark, depth=0)

    def _begin(self, event: yaml.CollectionStartEvent, value: list[Any] | dict[str, Any]) -> None:
        mark = start_of(event)
        if event.tag is not None and event.tag not in _COLLECTION_TAGS:
            raise self._error(mark, unknown_tag(event.tag))
        if self._open and self._open[-1].wants_key:
            raise self._odd_key(mark)
        if len(self._open) >= limits.MAX_DEPTH:
            raise self._error(mark, limits.too_deep())
        self._open.append(_Open(value, mark, event.anchor, self._count))
        self._count_in(1, mark)
        if event.anchor:
            self._anchors[event.anchor] = None

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, dict) and done.merged:
            done.value.update({k: v for k, v in done.merged.items() if k not in done.value})
        depth = done.deepest + 1
        if done.anchor:
            count = self._count - done.count_before
            self._anchors[done.anchor] = _Anchored(done.value, count, depth)
        self._add(done.value, done.mark, depth=depth)

    def _alias(self, event: yaml.AliasEvent) -> None:
        mark, name = start_of(event), event.anchor
        if name not in self._anchors:
            raise self._error(mark, f"no anchor `&{name}` stands before the alias `*{name}`")
        anchored = self._anchors[name]
        if anchored is None:
            raise self._error(mark, f"the alias `*{name}` stands inside its own anchor")
        self._aliased += anchored.count
        if self._aliased > limits.MAX_ALIASED_VALUES:
            raise self._error(mark, limits.too_many_aliased(name))
        if len(self._open) + anchored.depth > limits.MAX_DEPTH:
            raise self._error(mark, limits.too_deep())
        self._count_in(anchored.count, mark)
        if self._open and self._open[-1].wants_key:
            self._key(anchored.value, mark, is_merge=False)
        else:
            self._add(_copy(anchored.value), mark, depth=anchored.depth)

    def _key(self, value: Any, mark: Mark, *, is_merge: bool) -> None:
        mapping = self._open[-1]
        key = key_of(value)
        if key is None:
            raise self._odd_key(mark)
        if key in mapping.value or (is_merge and mapping.merged is not None):
            raise self._error(mark, self._already_set(key, mark))
        mapping.key, mapping.is_merge = key, is_merge

    def _add(self, value: Any, mark: Mark, *, depth: int) -> None:
        if not self._open:
            self.root = value
            return
        parent = self._open[-1]
        parent.deepest = max(parent.deepest, depth)
        if isinstance(parent.value, list):
            parent.value.append(value)
            return
        if parent.is_merge:
            parent.merged = self._merged(value, mark)
        else:
            assert parent.key is not None
            parent.value[parent.key] = value
        parent.key, parent.is_merge = None, False

    def _merged(self, value: Any, mark: Mark) -> dict[str, Any]:
        """Return the entries of a merge key: of several mappings, the first with a key wins."""
        merged: dict[str, Any] = {}
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                problem = f"the merge key `{MERGE_KEY}` takes a mapping or a list of mappings"
                raise self._error(mark, problem)
            merged = {**source, **merged}
        return merged

    def _already_set(self, key: str, mark: Mark) -> str:
        path = tuple(len(c.value) if c.key is None else c.key for c in self._open[:-1])
        lines = index(self._text, self.start, self.line, end=mark.index)
        return f"the key `{key}` is already set on line {lines.of((*path, key))}; keep one of them"

    def _odd_key(self, mark: Mark) -> ManifestError:
        if self._text[mark.index - 1 : mark.index + 1] == "{{":
            return ManifestError(self._name, mark.line + 1, mark.column, TEMPLATE)
        return self._error(mark, "a key must be a word, a number or quoted text")

    def _count_in(self, count: int, mark: Mark) -> None:
        self._count += count
        if self._count > limits.MAX_YAML_VALUES:
            raise self._error(mark, limits.too_many_values(limits.MAX_YAML_VALUES))

    def _error(self, mark: Mark, problem: str) -> ManifestError:
        return ManifestError(self._name, mark.line + 1, mark.column + 1, problem)


def _copy(value: Any) -> Any:
    """Copy the value of an alias, so that no two places share an object."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value
