"""Walks over JSON, for tests that put something else in one spot of it."""

from collections.abc import Iterator
from typing import Any


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every spot at which something stands: its container, and its key or index there."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in list(inner):
        yield value, key
        if isinstance(child, (dict, list)):
            yield from places(child)
