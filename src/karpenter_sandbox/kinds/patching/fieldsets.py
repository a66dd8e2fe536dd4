"""Sets of fields: the parts of an object that a manager owns, or that a write changes or removes.

A path leads through an object by elements, written here as in ``managedFields``: ``f:spec`` is a
field, ``k:{"name":"web"}`` the list item with that key, ``v:"blue"`` a member of a set. A set holds
paths, not subtrees: owning ``spec`` does not mean owning what is below it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

Elements = tuple[str, ...]

_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}
_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def field_element(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def key_element(keys: Mapping[str, Any]) -> str:
    """The element of a list item that is known by the values of its key fields."""
    return f"k:{_dump(dict(sorted(keys.items())))}"


def value_element(value: Any) -> str:
    """The element of a member of a set."""
    return f"v:{_dump(value)}"


def render(path: Elements) -> str:
    """A path as messages show it, such as ``.spec.containers[name="web"].image``."""
    return "".join(map(_render_element, path))


def _render_element(element: str) -> str:
    kind, _, content = element.partition(":")
    if kind == "f":
        return f".{content}"
    if kind == "k":
        keys = json.loads(content)
        return f"[{','.join(f'{name}={_quote(value)}' for name, value in sorted(keys.items()))}]"
    return f"[={_quote(json.loads(content))}]" if kind == "v" else f"[{content}]"


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _dump(value: Any) -> str:
    # the API server writes JSON that is safe inside HTML
    return _quote(value).translate(_HTML)


class FieldSet:
    """A set of paths; operations return new sets and leave their operands alone."""

    __slots__ = ("children", "members")

    def __init__(
        self,
        members: set[str] | None = None,
        children: "dict[str, FieldSet] | None" = None,
    ) -> None:
        self.members = members if members is not None else set()
        self.children = children if children is not None else {}

    @classmethod
    def of(cls, *paths: Elements) -> "FieldSet":
        """The set of these paths."""
        result = cls()
        for path in paths:
            result.insert(path)
        return result

    def insert(self, path: Elements) -> None:
        """Add a path, in place; the empty path is ignored."""
        if not path:
            return
        node = self
        for element in path[:-1]:
            node = node.children.setdefault(element, FieldSet())
        node.members.add(path[-1])

    def __bool__(self) -> bool:
        return bool(self.members) or any(self.children.values())

    def __contains__(self, path: Elements) -> bool:
        node: FieldSet | None = self
        for element in path[:-1]:
            node = node.children.get(element) if node else None
        return node is not None and path[-1] in node.members

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet):
            return NotImplemented
        return set(self.paths()) == set(other.paths())

    __hash__ = None  # type: ignore[assignment]  # sets are built in place

    def below(self, element: str) -> "FieldSet":
        """What lies below an element."""
        return self.children.get(element) or EMPTY

    def paths(self) -> Iterator[Elements]:
        """Every path, in the order of the wire format."""
        for element in sorted(self.members | self.children.keys(), key=_sort_key):
            if element in self.members:
                yield (element,)
            if element in self.children:
                for rest in self.children[element].paths():
                    yield (element, *rest)

    def __or__(self, other: "FieldSet") -> "FieldSet":
        children = dict(self.children)
        for element, child in other.children.items():
            mine = children.get(element)
            children[element] = child if mine is None else mine | child
        return FieldSet(self.members | other.members, children)

    def __sub__(self, other: "FieldSet") -> "FieldSet":
        """Paths of this set that are not in the other."""
        children = {
            element: child - other.children[element] if element in other.children else child
            for element, child in self.children.items()
        }
        return FieldSet(self.members - other.members, _not_empty(children))

    def __and__(self, other: "FieldSet") -> "FieldSet":
        children = {
            element: child & other.children[element]
            for element, child in self.children.items()
            if element in other.children
        }
        return FieldSet(self.members & other.members, _not_empty(children))

    def without_subtrees(self, other: "FieldSet") -> "FieldSet":
        """Paths of this set that are neither in the other nor below one of its paths."""
        children = {
            element: child.without_subtrees(other.below(element))
            for element, child in self.children.items()
            if element not in other.members
        }
        return FieldSet(self.members - other.members, _not_empty(children))

    def to_wire(self) -> dict[str, Any]:
        """The set as ``fieldsV1`` holds it."""
        wire: dict[str, Any] = {}
        for element in sorted(self.members | self.children.keys(), key=_sort_key):
            child = self.children.get(element)
            content = child.to_wire() if child else {}
            if content and element in self.members:
                content = {".": {}, **content}
            wire[element] = content
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> "FieldSet":
        """Read ``fieldsV1``; elements of kinds that are not known are dropped."""
        result = cls()
        for element, content in wire.items():
            if element[:1] not in _ORDER or element[1:2] != ":":
                continue
            below = content if isinstance(content, Mapping) else {}
            if not below or "." in below:
                result.members.add(element)
            child = cls.from_wire(below)
            if child:
                result.children[element] = child
        return result


def _not_empty(children: dict[str, FieldSet]) -> dict[str, FieldSet]:
    return {element: child for element, child in children.items() if child}


def _sort_key(element: str) -> tuple[int, str]:
    return _ORDER.get(element[:1], len(_ORDER)), element


EMPTY: Final = FieldSet()
