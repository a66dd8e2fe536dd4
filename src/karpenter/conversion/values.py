"""Reading and rebuilding JSON-like objects without ever changing the input.

Results share the parts that did not change with their input, so neither may be modified.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from karpenter.admission.errors import Path
from karpenter.api.meta import JsonObject


def section(value: object, *path: str) -> Mapping[str, Any]:
    """Return the mapping at ``path``, or an empty one where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(value: object, *path: str) -> list[Any]:
    """Return the list at ``path``, or an empty one where there is none."""
    *holder, last = path
    found = section(value, *holder).get(last)
    return found if isinstance(found, list) else []


def edited(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return ``value`` with the part at ``path`` changed; an absent or null part stays so."""
    if not path:
        return change(value)
    key = path[0]
    if not isinstance(value, Mapping) or value.get(key) is None:
        return value
    return {**value, key: edited(value[key], path[1:], change)}


def without(value: Mapping[str, Any], *keys: str) -> JsonObject:
    """Return ``value`` less some of its keys."""
    return {key: part for key, part in value.items() if key not in keys}


def less(value: Any, path: Path, *keys: str) -> Any:
    """Return ``value`` in which the mapping at ``path``, if there is one, lacks some keys."""
    return edited(
        value, path, lambda part: without(part, *keys) if isinstance(part, Mapping) else part
    )


def present(value: Mapping[str, Any]) -> JsonObject:
    """Return ``value`` without the keys that are null, which means absent."""
    return {key: part for key, part in value.items() if part is not None}


def kept_metadata(obj: Mapping[str, Any], *, namespaced: bool = False) -> JsonObject:
    """Return what a manifest keeps of an object's metadata; the rest is the API server's."""
    metadata = present(section(obj, "metadata"))
    names = ("name", "generateName", "namespace") if namespaced else ("name", "generateName")
    kept = (*names, "labels", "annotations", "finalizers")
    return {key: metadata[key] for key in kept if key in metadata}


def compact_json(value: object) -> str:
    """Write a value as one line of canonical JSON, equal for equal values."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def with_annotations(obj: Mapping[str, Any], changes: Mapping[str, str | None]) -> JsonObject:
    """Return ``obj`` with annotations set, or removed where the new value is None."""
    metadata = section(obj, "metadata")
    kept = without(section(metadata, "annotations"), *changes)
    annotations = {**kept, **present(changes)}
    rest = without(metadata, "annotations")
    if annotations or (metadata.get("annotations") == {} and not kept):
        rest["annotations"] = annotations
    return {**obj, "metadata": rest}
