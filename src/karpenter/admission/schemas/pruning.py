"""Dropping fields that a schema does not know, as the API server does before it stores an object.

Nothing is changed in place: what has nothing to drop is returned as it is, so the common case
copies nothing. Dropped fields are reported by path; what to say about them is left to the caller.
"""

from typing import Any

from karpenter.admission.errors import Path
from karpenter.admission.schemas.schema import ROOT_FIELDS, Node


def prune(obj: dict[str, Any], node: Node) -> tuple[dict[str, Any], list[Path]]:
    """Return ``obj`` without the fields unknown to ``node``, and the paths that were dropped."""
    dropped: list[Path] = []
    return _prune_object(obj, node, (), dropped), dropped


def _prune(value: Any, node: Node, path: Path, dropped: list[Path]) -> Any:
    if isinstance(value, dict):
        return _prune_object(value, node, path, dropped)
    if isinstance(value, list) and node.items is not None:
        return _prune_list(value, node.items, path, dropped)
    return value


def _prune_object(
    value: dict[str, Any], node: Node, path: Path, dropped: list[Path]
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    unknown: list[str] = []
    properties, values = node.properties, node.values
    for name, part in value.items():
        if node.is_resource and name in ROOT_FIELDS:
            continue
        child = properties.get(name, values)
        if child is None:
            if not node.keeps_unknown:
                unknown.append(name)
        elif isinstance(part, (dict, list)):
            pruned = _prune(part, child, (*path, name), dropped)
            if pruned is not part:
                changes[name] = pruned
    if not changes and not unknown:
        return value
    dropped.extend((*path, name) for name in unknown)
    result = {**value, **changes}
    for name in unknown:
        del result[name]
    return result


def _prune_list(value: list[Any], node: Node, path: Path, dropped: list[Path]) -> list[Any]:
    pruned = [_prune(item, node, (*path, index), dropped) for index, item in enumerate(value)]
    return pruned if any(new is not old for new, old in zip(pruned, value, strict=True)) else value
