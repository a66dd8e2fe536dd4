"""JSON merge patches (RFC 7386): fields replace fields, null removes them, lists are one value."""

from typing import Any

from karpenter_sandbox.kinds.patching.errors import DECODING, MAP, PatchError, undecodable


def apply_merge_patch(obj: dict[str, Any], patch: object) -> dict[str, Any]:
    """Return ``obj`` changed by a parsed patch.

    Raises:
        PatchError: the patch is not an object.
    """
    if not isinstance(patch, dict):
        if patch is None:
            raise PatchError("Invalid JSON Patch", status=400, reason="BadRequest")
        raise undecodable(patch, MAP, prefix=DECODING)
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
