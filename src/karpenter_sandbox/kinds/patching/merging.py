"""Lay one value on another, and take fields out of a value, by the rules of their schema.

A scalar, an atomic list or an atomic map is replaced as a whole. Maps are merged key by key, lists
with keys item by item, sets member by member. Merged lists keep their order unless what is laid on
them changes it. Nothing is changed in place; results share parts with their operands.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from karpenter_sandbox.kinds.patching.elements import ABSENT, is_empty, item_element, part_for
from karpenter_sandbox.kinds.patching.fieldsets import FieldSet, field_element
from karpenter_sandbox.kinds.schema import ListKind, ListSchema, MapSchema, Scalar, Schema


def merge(base: Any, laid: Any, schema: Schema) -> Any:
    """Lay a value on another; either may be ``ABSENT``, and so is a result without parts."""
    part = part_for(schema, base if laid is ABSENT else laid)
    if isinstance(part, Scalar) or (is_empty(base) and is_empty(laid)) or _is_atomic(part):
        return base if laid is ABSENT else laid
    if isinstance(part, MapSchema):
        return _merge_maps(base, laid, part)
    return _merge_lists(base, laid, part)


def _is_atomic(part: MapSchema | ListSchema) -> bool:
    return part.is_atomic if isinstance(part, MapSchema) else part.kind is ListKind.ATOMIC


def _merge_maps(base: Any, laid: Any, schema: MapSchema) -> Any:
    below = base if isinstance(base, dict) else {}
    above = laid if isinstance(laid, dict) else {}
    result = {}
    for key in [*below, *(key for key in above if key not in below)]:
        merged = merge(below.get(key, ABSENT), above.get(key, ABSENT), schema.part(key))
        if merged is not ABSENT:
            result[key] = merged
    return result or ABSENT


def _merge_lists(base: Any, laid: Any, schema: ListSchema) -> Any:
    below = _Items(base, schema)
    above = _Items(laid, schema)
    result = []
    for element, position in _merged_order(below, above):
        mine = below.items[position] if position is not None else below.find(element)
        merged = merge(mine, above.find(element), schema.items)
        if merged is not ABSENT:
            result.append(merged)
    return result or ABSENT


class _Items:
    """A list whose items can be found by their element."""

    def __init__(self, value: Any, schema: ListSchema) -> None:
        self.items = value if isinstance(value, list) else []
        self.elements = [item_element(item, schema) for item in self.items]
        self._found: dict[str, Any] = {}
        for element, item in zip(self.elements, self.items, strict=True):
            # of items that share an element none can be merged
            self._found[element] = ABSENT if element in self._found else item

    def find(self, element: str) -> Any:
        return self._found.get(element, ABSENT)

    def __contains__(self, element: str) -> bool:
        return element in self._found


def _merged_order(below: _Items, above: _Items) -> Iterator[tuple[str, int | None]]:
    """Elements of the merged list; with a position, the item below is taken from there.

    Items that both lists have come in the order of the list above. Items that only one of them has
    stay where they stood, those below before those above.
    """
    shared = iter([element for element in above.elements if element in below])
    next_shared = next(shared, None)
    taken: set[str] = set()
    left = right = 0
    lefts, rights = below.elements, above.elements
    while left < len(lefts) or right < len(rights):
        if left < len(lefts):
            element = lefts[left]
            if element not in above:
                yield element, left
                left += 1
                continue
            if element in taken or (
                right < len(rights) and element not in (rights[right], next_shared)
            ):
                left += 1
                continue
        element = rights[right]
        yield element, None
        taken.add(element)
        if left < len(lefts) and lefts[left] == element:
            left += 1
        right += 1
        if element == next_shared:
            next_shared = next(shared, None)


def remove(value: Any, fields: FieldSet, schema: Schema) -> Any:
    """Take fields and items out of a value; null stays where nothing is left."""
    part = part_for(schema, value)
    if isinstance(part, Scalar):
        return value
    if is_empty(value) or _is_atomic(part):
        return None
    if isinstance(part, MapSchema):
        return _remove_from_map(value, fields, part)
    return _remove_from_list(value, fields, part)


def _remove_from_map(
    value: Mapping[str, Any], fields: FieldSet, schema: MapSchema
) -> dict[str, Any] | None:
    result = {}
    for key, part in value.items():
        element = field_element(key)
        if element in fields.members:
            continue
        below = fields.below(element)
        result[key] = remove(part, below, schema.part(key)) if below else part
    return result or None


def _remove_from_list(value: list[Any], fields: FieldSet, schema: ListSchema) -> list[Any] | None:
    result = []
    for item in value:
        element = item_element(item, schema)
        if element in fields.members:
            continue
        below = fields.below(element)
        result.append(remove(item, below, schema.items) if below else item)
    return result or None
