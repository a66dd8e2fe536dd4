"""Why a patch was refused, with the fields of its Status body."""

from dataclasses import dataclass
from typing import Any, Final

MAP: Final = "map[string]interface {}"
DECODING: Final = "error decoding patch: "


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason of several, and the field it is about."""

    reason: str
    message: str
    field: str


class PatchError(Exception):
    """A patch that cannot be applied.

    ``status`` and ``reason`` are those of the answer: 400 BadRequest for a patch that makes no
    sense, 422 Invalid for one that does not fit the object, 409 Conflict when another manager owns
    a field.
    """

    def __init__(
        self, message: str, *, status: int, reason: str, causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes


def undecodable(value: Any, wanted: str, *, prefix: str = "") -> PatchError:
    """The refusal of JSON that is not of the type of Go it is read into."""
    names: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "bool"}
    found = names.get(type(value), "number" if isinstance(value, int | float) else "null")
    message = f"{prefix}json: cannot unmarshal {found} into Go value of type {wanted}"
    return PatchError(message, status=400, reason="BadRequest")


def go_text(value: Any) -> str:
    """A value as Go's ``%v`` prints it, which is how API servers show patches in messages."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
