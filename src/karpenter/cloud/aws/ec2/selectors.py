"""Selector terms of a node class as filters of EC2."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Filter: TypeAlias = dict[str, str | list[str]]

_ANY_VALUE = "*"


def equals(name: str, values: Iterable[str]) -> Filter:
    """A filter that lets through what has one of ``values``."""
    return {"Name": name, "Values": list(values)}


def tag_filters(tags: Mapping[str, str]) -> list[Filter]:
    """Filters for tags; ``*`` asks only for the key, EC2 evaluates other wildcards."""
    return [
        equals("tag-key", [key]) if value == _ANY_VALUE else equals(f"tag:{key}", [value])
        for key, value in tags.items()
    ]


def queries(
    id_filter: str, ids: Sequence[str], tag_maps: Iterable[Mapping[str, str]]
) -> list[list[Filter]]:
    """The queries of a list of terms: one for all ids together, one for each map of tags."""
    found = [tag_filters(tags) for tags in tag_maps if tags]
    if ids:
        found.append([equals(id_filter, ids)])
    return found
