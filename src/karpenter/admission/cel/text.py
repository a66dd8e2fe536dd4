"""Kubernetes' CEL functions on text, lists and sets, which the engine lacks.

Every function takes the values as they come out of the engine and raises ``CelError`` where
Kubernetes reports an error. A call with arguments of the wrong type may raise ``TypeError``.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar

from karpenter.admission.schemas.patterns import Pattern, PatternError, compile_go

_Comparable = TypeVar("_Comparable", int, float, str, bytes)

_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {lower + 32: lower for lower in _LOWER}
_VERB: Final = re.compile(r"%(?:\.(\d+))?(.)?", re.DOTALL)
_WHOLE_NUMBER_VERBS: Final = {"d": "d", "b": "b", "o": "o", "x": "x", "X": "X"}
_DEFAULT_PRECISION: Final = 6
# Bounds the length of a formatted number
_HIGHEST_PRECISION: Final = 1000
_MOST_DIGITS: Final = 9
# Characters; twice the size limit of an object
_LONGEST_RESULT: Final = 3 * 2**20


class CelError(ValueError):
    """An error that a function reports; the text is Kubernetes'."""


def go_matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).is_in(text)


def _find(text: str, pattern: str) -> str:
    return _pattern(pattern).first_in(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = _pattern(pattern).all_in(text)
    return list(found if limit < 0 else itertools.islice(found, limit))


def _pattern(pattern: str) -> Pattern:
    try:
        return compile_go(pattern)
    except PatternError as error:
        raise CelError(f"illegal regex: {error}") from error


def rune_count(value: Any) -> int:
    """``size`` for texts beyond ASCII, which the engine counts in bytes."""
    if not isinstance(value, (str, bytes, list, dict)):
        raise TypeError("no size")
    return len(value)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    for index in (start, stop):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _index_of(value: str | list[Any], wanted: Any, start: int = 0) -> int:
    if isinstance(value, list):
        return next((i for i, item in enumerate(value) if equal(item, wanted)), -1)
    if start and not 0 <= start < len(value):
        raise CelError(f"index out of range: {start}")
    return value.find(wanted, start)


def _last_index_of(value: str | list[Any], wanted: Any, start: int | None = None) -> int:
    if isinstance(value, list):
        return max((i for i, item in enumerate(value) if equal(item, wanted)), default=-1)
    if start is None:
        return value.rfind(wanted)
    if not 0 <= start < max(len(value), 1):
        raise CelError(f"index out of range: {start}")
    return value.rfind(wanted, 0, start + len(wanted))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _join(texts: list[str], separator: str = "") -> str:
    _bound(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    times = text.count(old)
    _bound(len(text) + (times if limit < 0 else min(times, limit)) * len(new))
    return text.replace(old, new, limit)


def _bound(length: int) -> None:
    """Refuse a result longer than any object, in place of the API server's cost limit."""
    if length > _LONGEST_RESULT:
        raise CelError("operation cancelled: actual cost limit exceeded")


def _trim(text: str) -> str:
    return text.strip()


def _lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


def _upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


def _format(template: str, values: list[Any]) -> str:
    remaining = iter(values)
    length = len(template)

    def fill(match: re.Match[str]) -> str:
        nonlocal length
        precision, verb = match[1], match[2]
        if verb == "%":
            return "%"
        try:
            value = next(remaining)
        except StopIteration:
            raise CelError("index out of range: too few values to format") from None
        filled = _format_one(verb, precision, value)
        length += len(filled)
        _bound(length)
        return filled

    return _VERB.sub(fill, template)


def _format_one(verb: str | None, precision: str | None, value: Any) -> str:
    if verb == "s":
        return text_of(value)
    if verb in _WHOLE_NUMBER_VERBS and isinstance(value, int):
        return format(value, _WHOLE_NUMBER_VERBS[verb])
    if verb in ("f", "e") and isinstance(value, (int, float)):
        return format(value, f".{_precision(precision)}{verb}")
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _precision(written: str | None) -> int:
    if not written:
        return _DEFAULT_PRECISION
    if len(written) > _MOST_DIGITS or int(written) > _HIGHEST_PRECISION:
        raise CelError(
            "could not parse formatting clause:"
            f" the precision must not be greater than {_HIGHEST_PRECISION}"
        )
    return int(written)


def text_of(value: Any) -> str:
    """``string`` for types that the engine does not convert."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict) and len(value) == 1:
        return str(next(iter(value.values())))
    if isinstance(value, (int, float)):
        return format(value, "g") if isinstance(value, float) else str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    raise TypeError("no text")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise CelError("type conversion error from 'string' to 'bool'")


def _is_sorted(values: list[_Comparable]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(values))


def _sum(values: list[Any]) -> Any:
    if values and isinstance(values[0], timedelta):
        return sum(values, timedelta())
    return sum(values)


def _min(values: list[_Comparable]) -> _Comparable:
    if not values:
        raise CelError("min called on empty list")
    return min(values)


def _max(values: list[_Comparable]) -> _Comparable:
    if not values:
        raise CelError("max called on empty list")
    return max(values)


def _includes(values: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(value, item) for value in values) for item in wanted)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _includes(left, right) and _includes(right, left)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(equal(one, other) for one in left for other in right)


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: unlike in Python, true is not 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


TEXT_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "bool": _bool,
        "charAt": _char_at,
        "find": _find,
        "findAll": _find_all,
        "format": _format,
        "indexOf": _index_of,
        "isSorted": _is_sorted,
        "join": _join,
        "lastIndexOf": _last_index_of,
        "lowerAscii": _lower_ascii,
        "max": _max,
        "min": _min,
        "replace": _replace,
        "sets.contains": _includes,
        "sets.equivalent": _equivalent,
        "sets.intersects": _intersects,
        "split": _split,
        "string": text_of,
        "substring": _substring,
        "sum": _sum,
        "trim": _trim,
        "upperAscii": _upper_ascii,
    }
)
