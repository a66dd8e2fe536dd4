"""How deeply an object may nest.

An API server takes 10,000 levels. Here every level costs several calls on the stack of the
interpreter, which has room for a thousand; so the limit is lower, and yet five times as deep as
any manifest. What is within it can be read, checked, merged, stored and shown, by clients too:
they follow as deeply, and no further.
"""

from typing import Any, Final

from karpenter.api.depth import DEEPEST
from karpenter_sandbox.status import bad_request

# How much deeper the managedFields entry of a field nests than the field
_NOTED: Final = 4
TOO_DEEP: Final = f"json: exceeded max depth of {DEEPEST}"


def check_depth(value: Any) -> None:
    """Make sure that a value nests no deeper than the rest of the server can follow.

    Raises:
        ApiError: it does.
    """
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if isinstance(metadata, dict) and "managedFields" in metadata:
        # The server's own notes, which clients send back as they got them
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
