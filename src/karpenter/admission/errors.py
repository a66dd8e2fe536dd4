"""Field errors: what is wrong with an object, at which path, in Kubernetes' wording.

Every check in the project, whether it comes from a schema, a CEL rule or Python, returns a list of
``FieldError``. Rendering it for a terminal (with file and line) or for an API ``Status`` body is
left to the caller.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_SHOWN_VALUE = 200
# Fields that may hold secrets: messages go to logs and terminals, so they omit the value
_MAY_HOLD_SECRETS = frozenset({"args", "command", "env", "httpHeaders"})


class ErrorKind(Enum):
    """The API server's kinds of field errors: (cause reason, opening words)."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")

    @property
    def reason(self) -> str:
        """The machine-readable ``reason`` of a Status cause."""
        return self.value[0]

    @property
    def opening(self) -> str:
        """The words a message of this kind begins with."""
        return self.value[1]

    @property
    def concerns_shape(self) -> bool:
        """Whether a value with such an error may lack the shape that further rules rely on."""
        return self in _SHAPE_KINDS


_SHAPE_KINDS = frozenset(
    {
        ErrorKind.REQUIRED,
        ErrorKind.TYPE_INVALID,
        ErrorKind.NOT_SUPPORTED,
        ErrorKind.TOO_LONG,
        ErrorKind.TOO_MANY,
    }
)


class _NoValue(Enum):
    NO_VALUE = "no value"


NO_VALUE = _NoValue.NO_VALUE


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field; ``detail`` is a phrase without a final period."""

    kind: ErrorKind
    path: Path
    detail: str
    value: object = NO_VALUE

    @property
    def field(self) -> str:
        """The path as the API server writes it, e.g. ``spec.taints[0].key``."""
        return render_path(self.path)

    @property
    def reason(self) -> str:
        """The machine-readable reason, as in a Status cause."""
        return self.kind.reason

    @property
    def message(self) -> str:
        """The error without its path, as in a Status cause."""
        shown = ""
        if self.value is not NO_VALUE and self.kind is not ErrorKind.REQUIRED and self._is_open:
            shown = f": {_render_value(self.value)}"
        return f"{self.kind.opening}{shown}" + (f": {self.detail}" if self.detail else "")

    @property
    def _is_open(self) -> bool:
        """Whether the value may be shown."""
        if "annotations" in self.path:  # only a key, or an unquoted number or boolean, is shown
            return not isinstance(self.value, list | dict)
        return _MAY_HOLD_SECRETS.isdisjoint(self.path)

    def __str__(self) -> str:
        """The whole error in one line."""
        return f"{self.field}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """A remark about one field of an object that is accepted."""

    path: Path
    message: str

    def __str__(self) -> str:
        """The whole warning in one line."""
        return f"{render_path(self.path)}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Findings:
    """The errors and warnings of a set of rules about one object."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)


def render_path(path: Path) -> str:
    """Write a path the way the API server does: dots, ``[index]``, and ``[key]`` for odd keys."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{_on_one_line(part)}]"
    return text


def is_below(path: Path, ancestor: Path) -> bool:
    """Whether ``path`` is ``ancestor`` or lies under it."""
    return path[: len(ancestor)] == ancestor


def distinct(errors: Iterable[FieldError]) -> list[FieldError]:
    """Drop repeated errors with the same path and message, keeping the first of each."""
    seen: dict[tuple[Path, str], FieldError] = {}
    for error in errors:
        seen.setdefault((error.path, error.detail), error)
    return list(seen.values())


def _on_one_line(key: str) -> str:
    """Escape line breaks and other control characters, so that a message stays on one line."""
    return key if key.isprintable() else key.encode("unicode_escape").decode()


def _render_value(value: object) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=str).decode()
    except (RecursionError, UnicodeEncodeError):
        # The value cannot be encoded; the error is reported without it
        return "…"
    return text if len(text) <= _LONGEST_SHOWN_VALUE else text[: _LONGEST_SHOWN_VALUE - 1] + "…"
