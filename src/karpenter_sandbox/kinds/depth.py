"""The limit on the nesting depth of objects.

An API server accepts 10,000 levels. Here every level costs several stack frames of the
interpreter, whose recursion limit is a thousand. So the limit is lower, and yet five times as deep
as any manifest. Objects within it can be decoded, validated, merged, stored and printed, by clients
as well, which have the same limit.
"""

from typing import Any, Final

from karpenter.api.depth import DEEPEST
from karpenter_sandbox.status import bad_request

# How much deeper the managedFields entry of a field nests than the field
_NOTED: Final = 4
TOO_DEEP: Final = f"json: exceeded max depth of {DEEPEST}"


def check_depth(value: Any) -> None:
    """Make sure that a value is within the depth that the rest of the server can recurse into.

    Raises:
        ApiError: it does.
    """
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if isinstance(metadata, dict) and "managedFields" in metadata:
        # Written by the server and sent back unchanged by clients, so their own limit is higher
        _check([metadata["managedFields"]], DEEPEST + _NOTED)
        rest = {key: part for key, part in metadata.items() if key != "managedFields"}
        value = {**value, "metadata": rest}
    _check([value], DEEPEST)


def _check(level: list[Any], deepest: int) -> None:
    for _ in range(deepest + 1):
        level = [part for part in level if isinstance(part, dict | list)]
        if not level:
            return
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
        ]
    raise bad_request(TOO_DEEP)
