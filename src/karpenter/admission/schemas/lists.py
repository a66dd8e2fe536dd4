"""Lists whose items must differ: ``x-kubernetes-list-type`` set and map.

Items of a list of type map are identified by their keys; the same keys correlate an item of the new
object with one of the old.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.admission.schemas.schema import NO_DEFAULT, Node

ItemKey: TypeAlias = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class UniqueLists:
    """The branches of a schema that lead to lists with distinct items."""

    node: Node
    properties: Mapping[str, "UniqueLists"] = field(default_factory=dict)
    values: "UniqueLists | None" = None
    items: "UniqueLists | None" = None

    def errors(self, value: Any, path: Path = ()) -> Iterator[FieldError]:
        """Find the items of ``value``, which is at ``path``, that repeat an earlier one."""
        if isinstance(value, dict):
            for name, part in value.items():
                below = self.properties.get(name, self.values)
                if below is not None:
                    yield from below.errors(part, (*path, name))
        elif isinstance(value, list):
            yield from _duplicates(value, self.node, path)
            if self.items is not None:
                for index, item in enumerate(value):
                    yield from self.items.errors(item, (*path, index))


def unique_lists(node: Node) -> UniqueLists | None:
    """Find the lists below ``node`` whose items must differ, or None when there are none."""
    properties = {
        name: found
        for name, child in node.properties.items()
        if (found := unique_lists(child)) is not None
    }
    values = unique_lists(node.values) if node.values is not None else None
    items = unique_lists(node.items) if node.items is not None else None
    if properties or values or items or node.list_type != "atomic":
        return UniqueLists(node, properties, values, items)
    return None


def item_key(node: Node, item: object) -> ItemKey | None:
    """The key of an item of a list of type map; None for an item that is not an object."""
    if not isinstance(item, dict):
        return None
    return tuple(_encode(_key_part(node, item, key)) for key in node.list_keys)


def _key_part(node: Node, item: dict[str, Any], key: str) -> object:
    if key in item:
        return item[key]
    child = node.items.child(key) if node.items is not None else None
    return None if child is None or child.default is NO_DEFAULT else child.default


def _duplicates(value: list[Any], node: Node, path: Path) -> Iterator[FieldError]:
    if node.list_type == "atomic":
        return
    seen: set[ItemKey] = set()
    for index, item in enumerate(value):
        key = item_key(node, item) if node.list_type == "map" else (_encode(item),)
        if key is None:
            continue
        if key in seen:
            shown = item
            if node.list_type == "map":
                shown = {name: _key_part(node, item, name) for name in node.list_keys}
            yield FieldError(ErrorKind.DUPLICATE, (*path, index), "", shown)
        seen.add(key)


def _encode(value: object) -> bytes:
    # JSON text is comparable for any value and, unlike Python values, distinguishes 1 from true
    return msgspec.json.encode(value, order="deterministic")
