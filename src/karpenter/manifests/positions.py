"""On which line of a YAML document a field is.

Nothing is recorded while a document is read: most documents are valid and need no line numbers.
When a message needs a line, the document is read once more into a tree of line numbers.
"""

from dataclasses import dataclass
from typing import TypeAlias

import yaml

from karpenter.manifests.scalars import ScalarError
from karpenter.manifests.yamlevents import events, key_of, start_of, value_of

Path: TypeAlias = tuple[str | int, ...]


@dataclass(slots=True)
class Lines:
    """The line of a field and, below it, of the fields it holds."""

    line: int
    below: dict[str | int, "Lines"] | None = None  # None: holds nothing

    def of(self, path: Path) -> int:
        """Return the line of the field at ``path``, or of its nearest ancestor that exists."""
        node = self
        for part in path:
            if node.below is None or part not in node.below:
                break
            node = node.below[part]
        return node.line


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been read yet."""

    lines: Lines
    is_mapping: bool
    key: Lines | None = None  # the lines of the pair whose value comes next


def index(text: str, start: int, first_line: int, *, end: int | None = None) -> Lines:
    """Return the lines of the document that starts at index ``start`` of ``text``.

    Args:
        text: A YAML stream.
        start: Where the document starts, as an index into ``text``.
        first_line: The line on which it starts.
        end: Where to stop reading; the text after it is ignored.
    """
    root: Lines | None = None
    stack: list[_Open] = []
    try:
        for event in events(text[start:]):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            mark = start_of(event)
            if end is not None and start + mark.index >= end:
                break
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                stack.pop()
            elif isinstance(event, yaml.NodeEvent):
                node = _place(stack, event, first_line + mark.line)
                root = root or node
    except yaml.YAMLError:
        # Only the part before ``end`` is known to be well-formed; an error after it is ignored.
        pass
    return root or Lines(first_line)


def _place(stack: list[_Open], event: yaml.NodeEvent, line: int) -> Lines:
    """Put a node under the collection that is open, and open it if it is one itself."""
    node = _attach(stack[-1], event, line) if stack else Lines(line)
    if isinstance(event, yaml.CollectionStartEvent):
        stack.append(_Open(node, isinstance(event, yaml.MappingStartEvent)))
    return node


def _attach(parent: _Open, event: yaml.NodeEvent, line: int) -> Lines:
    if parent.lines.below is None:
        parent.lines.below = {}
    below = parent.lines.below
    if not parent.is_mapping:
        return below.setdefault(len(below), Lines(line))
    if parent.key is not None:
        pair, parent.key = parent.key, None
        return pair
    parent.key = below.setdefault(_key(event), Lines(line))
    return parent.key


def _key(event: yaml.NodeEvent) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        return ""
    try:
        return key_of(value_of(event)) or ""
    except ScalarError:
        return ""
