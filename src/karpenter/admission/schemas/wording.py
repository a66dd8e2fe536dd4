"""Errors of ``jsonschema-rs`` in the wording of the API server.

Users search for these sentences, so they match the server's to the letter: which value is shown,
"in body" after the path, the count instead of the list.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from jsonschema_rs import ValidationError, ValidationErrorKind

from karpenter.admission.errors import ErrorKind, FieldError, Path, render_path

GO_PATTERN: Final = "x-go-pattern"

_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def json_type(value: object) -> str:
    """Name the JSON type of a value."""
    return _JSON_TYPES.get(type(value), "string")


def field_errors(error: ValidationError, patterns: Mapping[str, str]) -> Iterator[FieldError]:
    """Reword one error; ``patterns`` maps rewritten patterns to the original ones."""
    path: Path = tuple(error.instance_path)
    kind: Any = error.kind
    reword = _WORDINGS.get(type(kind))
    if reword is not None:
        yield reword(path, kind, error.instance)
    elif isinstance(kind, ValidationErrorKind.Pattern):
        yield _pattern(path, patterns.get(kind.pattern, kind.pattern), error.instance)
    elif isinstance(kind, (ValidationErrorKind.AnyOf, ValidationErrorKind.OneOfNotValid)):
        yield _no_branch(path, kind)
        for cause in min(kind.context, key=len, default=[]):
            yield from field_errors(cause, patterns)
    elif isinstance(kind, ValidationErrorKind.Custom) and kind.keyword == GO_PATTERN:
        yield _pattern(path, kind.message, error.instance)
    else:
        yield FieldError(ErrorKind.INVALID, path, error.message)


def _type(path: Path, kind: Any, value: object) -> FieldError:
    found = json_type(value)
    wanted = ",".join(name for name in kind.types if name != "null")
    detail = f'{_in_body(path)} must be of type {wanted}: "{found}"'
    return FieldError(ErrorKind.TYPE_INVALID, path, detail, found)


def _required(path: Path, kind: Any, _value: object) -> FieldError:
    return FieldError(ErrorKind.REQUIRED, (*path, kind.property), "")


def _enum(path: Path, kind: Any, value: object) -> FieldError:
    options = (option if isinstance(option, str) else _json(option) for option in kind.options)
    detail = "supported values: " + ", ".join(_json(option) for option in options)
    return FieldError(ErrorKind.NOT_SUPPORTED, path, detail, value)


def _too_long(path: Path, kind: Any, _value: object) -> FieldError:
    return FieldError(ErrorKind.TOO_LONG, path, f"may not be more than {kind.limit} bytes")


def _too_many(path: Path, kind: Any, value: Any) -> FieldError:
    return FieldError(ErrorKind.TOO_MANY, path, f"must have at most {kind.limit} items", len(value))


def _format(path: Path, kind: Any, value: object) -> FieldError:
    detail = f"{_in_body(path)} must be of type {kind.format}: {_json(value)}"
    return FieldError(ErrorKind.INVALID, path, detail, value)


def _pattern(path: Path, pattern: str, value: object) -> FieldError:
    return FieldError(ErrorKind.INVALID, path, f"{_in_body(path)} should match '{pattern}'", value)


def _no_branch(path: Path, kind: Any) -> FieldError:
    opening = f'"{render_path(path)}" must validate'
    if isinstance(kind, ValidationErrorKind.AnyOf):
        detail = f"{opening} at least one schema (anyOf)"
    else:
        detail = f"{opening} one and only one schema (oneOf). Found none valid"
    return FieldError(ErrorKind.INVALID, path, detail, "")


def _several_branches(path: Path, _kind: Any, _value: object) -> FieldError:
    detail = (
        f'"{render_path(path)}" must validate one and only one schema (oneOf).'
        " Found more than one valid"
    )
    return FieldError(ErrorKind.INVALID, path, detail, "")


def _excluded(path: Path, _kind: Any, _value: object) -> FieldError:
    detail = f'"{render_path(path)}" must not validate the schema (not)'
    return FieldError(ErrorKind.INVALID, path, detail, "")


def _bound(phrase: str) -> Callable[[Path, Any, object], FieldError]:
    """Word a limit on a number or on the length of a text."""

    def reword(path: Path, kind: Any, value: object) -> FieldError:
        detail = f"{_in_body(path)} {phrase.format(_limit(kind))}"
        return FieldError(ErrorKind.INVALID, path, detail, value)

    return reword


def _count(phrase: str) -> Callable[[Path, Any, Any], FieldError]:
    """Word a lower limit on how many parts a value has."""

    def reword(path: Path, kind: Any, value: Any) -> FieldError:
        detail = f"{_in_body(path)} {phrase.format(kind.limit)}"
        return FieldError(ErrorKind.INVALID, path, detail, len(value))

    return reword


def _limit(kind: Any) -> object:
    limit = kind.multiple_of if hasattr(kind, "multiple_of") else kind.limit
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _duplicates(path: Path, _kind: Any, value: object) -> FieldError:
    return FieldError(
        ErrorKind.INVALID, path, f"{_in_body(path)} shouldn't contain duplicates", value
    )


def _in_body(path: Path) -> str:
    return f"{render_path(path)} in body" if path else "body"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_WORDINGS: Final[Mapping[type, Callable[[Path, Any, Any], FieldError]]] = {
    ValidationErrorKind.Enum: _enum,
    ValidationErrorKind.ExclusiveMaximum: _bound("should be less than {}"),
    ValidationErrorKind.ExclusiveMinimum: _bound("should be greater than {}"),
    ValidationErrorKind.Format: _format,
    ValidationErrorKind.MaxItems: _too_many,
    ValidationErrorKind.MaxLength: _too_long,
    ValidationErrorKind.MaxProperties: _too_many,
    ValidationErrorKind.Maximum: _bound("should be less than or equal to {}"),
    ValidationErrorKind.MinItems: _count("should have at least {} items"),
    ValidationErrorKind.MinLength: _bound("should be at least {} chars long"),
    ValidationErrorKind.MinProperties: _count("should have at least {} properties"),
    ValidationErrorKind.Minimum: _bound("should be greater than or equal to {}"),
    ValidationErrorKind.MultipleOf: _bound("should be a multiple of {}"),
    ValidationErrorKind.Not: _excluded,
    ValidationErrorKind.OneOfMultipleValid: _several_branches,
    ValidationErrorKind.Required: _required,
    ValidationErrorKind.Type: _type,
    ValidationErrorKind.UniqueItems: _duplicates,
}
