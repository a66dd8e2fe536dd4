"""Short ways to say what is wrong with a field."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from karpenter.admission.errors import ErrorKind, FieldError, Path, render_path

Problems = Iterator[FieldError]


class MapKey(str):
    """A part of a path that is a key of a map, and is shown in brackets whatever it looks like."""

    __slots__ = ()


class Verbatim(str):
    """A part of a path that stands for several fields, and is shown as it is."""

    __slots__ = ()


class PathFieldError(FieldError):
    """A field error whose path may have parts that are no plain names."""

    __slots__ = ()

    @property
    def field(self) -> str:
        """The path as the API server writes it."""
        text = ""
        for part in self.path:
            if isinstance(part, MapKey):
                text += f"[{part}]"
            elif isinstance(part, Verbatim):
                text += f".{part}" if text else part
            else:
                rendered = render_path((part,))
                is_inner = bool(text) and not rendered.startswith("[")
                text += f".{rendered}" if is_inner else rendered
        return text


class NotFoundFieldError(PathFieldError):
    """A field that refers to something which is not there."""

    __slots__ = ()

    @property
    def reason(self) -> str:
        """The machine-readable reason."""
        return "FieldValueNotFound"

    @property
    def message(self) -> str:
        """The problem without its path."""
        return f'Not found: "{self.value}"'


def required(path: Path, detail: str = "") -> FieldError:
    return PathFieldError(ErrorKind.REQUIRED, path, detail)


def wrong(path: Path, value: object, detail: str) -> FieldError:
    return PathFieldError(ErrorKind.INVALID, path, detail, value)


def forbidden(path: Path, detail: str) -> FieldError:
    return PathFieldError(ErrorKind.FORBIDDEN, path, detail)


def duplicate(path: Path, value: object, detail: str = "") -> FieldError:
    return PathFieldError(ErrorKind.DUPLICATE, path, detail, value)


def missing(path: Path, value: object) -> FieldError:
    return NotFoundFieldError(ErrorKind.INVALID, path, "", value)


def unsupported(path: Path, value: object, allowed: Iterable[str]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in allowed)
    return PathFieldError(ErrorKind.NOT_SUPPORTED, path, f"supported values: {names}", value)


def immutable(path: Path, new: Mapping[str, Any], old: Mapping[str, Any], *names: str) -> Problems:
    """Report each of ``names`` that differs below ``path``."""
    for name in names:
        if new.get(name) != old.get(name):
            yield wrong((*path, name), new.get(name), "field is immutable")


def not_negative(path: Path, obj: Mapping[str, Any], *names: str) -> Problems:
    """Report each of ``names`` below ``path`` that is less than nothing."""
    for name in names:
        value = obj.get(name)
        if value is not None and value < 0:
            yield wrong((*path, name), value, "must be greater than or equal to 0")


def one_of(path: Path, obj: Mapping[str, Any], name: str, *allowed: str) -> Problems:
    """Report a field that has a value but none of ``allowed``."""
    value = obj.get(name)
    if value is not None and value not in allowed:
        yield unsupported((*path, name), value, allowed)


def present(path: Path, obj: Mapping[str, Any], *names: str) -> Problems:
    """Report each of ``names`` that is absent or empty."""
    for name in names:
        if not obj.get(name):
            yield required((*path, name))
