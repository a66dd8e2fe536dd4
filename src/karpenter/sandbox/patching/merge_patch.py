"""JSON merge patches (RFC 7386): fields replace fields, null removes them, lists are one value."""

from typing import Any

from karpenter.sandbox.patching.errors import PatchError


def apply_merge_patch(obj: dict[str, Any], patch: object) -> dict[str, Any]:
    """Return ``obj`` changed by a parsed patch.

    Raises:
        PatchError: the patch is not an object.
    """
    if not isinstance(patch, dict):
        found = {list: "array", str: "string", bool: "bool", type(None): "null"}
        kind = found.get(type(patch), "number")
        raise PatchError(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type"
            " map[string]interface {}",
            status=400,
            reason="BadRequest",
        )
    return _merge(obj, patch)


def _merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = value
    return result
