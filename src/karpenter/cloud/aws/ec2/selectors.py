"""Selector terms of a node class as filters of EC2."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from karpenter.api.node_classes.ec2 import SecurityGroupSelectorTerm, SubnetSelectorTerm

Filter: TypeAlias = dict[str, str | list[str]]
Term: TypeAlias = SubnetSelectorTerm | SecurityGroupSelectorTerm

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


def queries(id_filter: str, terms: Sequence[Term]) -> list[list[Filter]]:
    """The queries of a list of terms: one for all ids together, one for each map of tags."""
    ids = [term.id for term in terms if term.id]
    found = [tag_filters(term.tags) for term in terms if term.tags and not term.id]
    if ids:
        found.append([equals(id_filter, ids)])
    return found
