"""Defaulting and pruning: what the API server fills in and drops before it checks an object.

* A missing field with a default gets it, wherever its parent exists; a default that is itself an
  object is filled in further.
* ``null`` in a field that may not be null counts as missing: it becomes the default, or is dropped
  when there is none. Inside lists it stays, and is refused later as a value of the wrong type.
* Fields that the schema does not have are dropped, and reported by path.

Nothing is changed in place; what needs no change is returned as it is, so the common case copies
nothing.
"""

import copy
from typing import Any

from karpenter.admission.errors import Path
from karpenter.admission.schemas.schema import NO_DEFAULT, ROOT_FIELDS, Node


def default(obj: dict[str, Any], node: Node) -> dict[str, Any]:
    """Return ``obj`` with the defaults of ``node`` filled in."""
    return _default_object(obj, node)


def _default(value: Any, node: Node) -> Any:
    if isinstance(value, dict):
        return _default_object(value, node)
    if isinstance(value, list) and node.items is not None:
        return _default_list(value, node.items)
    return value


def _default_object(value: dict[str, Any], node: Node) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    absent: list[str] = []
    for name, part in value.items():
        child = node.properties.get(name, node.values)
        if child is None:
            continue
        if isinstance(part, (dict, list)):
            filled = _default(part, child)
            if filled is not part:
                changes[name] = filled
        elif part is None and not child.is_nullable:
            absent.append(name)
    if absent:
        value = {name: part for name, part in value.items() if name not in absent}
        changes.update(_missing(absent, node.values))
    changes.update(
        (name, _fresh_default(child)) for name, child in node.defaulted if name not in value
    )
    return {**value, **changes} if changes else value


def _missing(names: list[str], node: Node | None) -> dict[str, Any]:
    """The defaults of map entries that were null."""
    if node is None or node.default is NO_DEFAULT:
        return {}
    return {name: _fresh_default(node) for name in names}


def _default_list(value: list[Any], node: Node) -> list[Any]:
    filled = [
        _fresh_default(node)
        if item is None and not node.is_nullable and node.default is not NO_DEFAULT
        else _default(item, node)
        for item in value
    ]
    return filled if any(new is not old for new, old in zip(filled, value, strict=True)) else value


def _fresh_default(node: Node) -> Any:
    # A copy, because the caller owns the object it gets back
    return _default(copy.deepcopy(node.default), node)


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
