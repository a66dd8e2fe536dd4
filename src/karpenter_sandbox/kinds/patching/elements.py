"""Which form of its schema a value takes, and which element of a path a list item is.

A value that is not there at all is ``ABSENT``; null is a value.
"""

from typing import Any, Final

from karpenter_sandbox.kinds.patching.fieldsets import key_element, value_element
from karpenter_sandbox.kinds.schema import ListKind, ListSchema, MapSchema, Scalar, Schema

Part = MapSchema | ListSchema | Scalar


class Absent:
    """The type of ``ABSENT``."""


ABSENT: Final = Absent()


class ItemError(ValueError):
    """A list item without an identity."""


def part_for(schema: Schema, value: Any) -> Part:
    """The form that applies to a value; for null the first the schema has."""
    if isinstance(value, dict):
        if schema.map is not None:
            return schema.map
    elif isinstance(value, list):
        if schema.list is not None:
            return schema.list
    elif value is not None and schema.scalar is not None:
        return schema.scalar
    return schema.map or schema.scalar or schema.list or Scalar.ANY


def is_empty(value: Any) -> bool:
    """Whether a list or map has no parts, because it is empty, null or not there."""
    return not isinstance(value, dict | list) or not value


def item_element(item: Any, schema: ListSchema) -> str:
    """The element of a path that leads to a list item.

    Raises:
        ItemError: the item has no identity.
    """
    if schema.kind is ListKind.MAP:
        return _keyed_element(item, schema)
    if isinstance(item, dict):
        raise ItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ItemError("not supported: associative list with lists as elements")
    if item is None:
        raise ItemError("associative list without keys has an element that's an explicit null")
    return value_element(item)


def _keyed_element(item: Any, schema: ListSchema) -> str:
    if item is None:
        raise ItemError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ItemError("associative list with keys may not have non-map elements")
    keys = {}
    for name in schema.keys:
        default = _default_of(name, schema.items)
        if name in item or default is not None:
            keys[name] = item.get(name, default)
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.keys)
        raise ItemError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def _default_of(name: str, items: Schema) -> Any:
    field = items.map.fields.get(name) if items.map else None
    return None if field is None else field.default
