"""Filling gaps in objects without touching the objects."""

from collections.abc import Callable
from typing import Any

from karpenter.api.meta import JsonObject

Change = Callable[[JsonObject], JsonObject]


def filled(obj: JsonObject, **defaults: Any) -> JsonObject:
    """The object with ``defaults`` for the fields it does not have."""
    missing = {name: value for name, value in defaults.items() if name not in obj}
    return {**obj, **missing} if missing else obj


def within(obj: JsonObject, name: str, change: Change) -> JsonObject:
    """The object with one part changed, if it has that part."""
    part = obj.get(name)
    return obj if part is None else {**obj, name: change(part)}


def each(obj: JsonObject, name: str, change: Change) -> JsonObject:
    """The object with every item of one list changed, if it has that list."""
    items = obj.get(name)
    return obj if not items else {**obj, name: [change(item) for item in items]}
