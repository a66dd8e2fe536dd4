"""Whether a JSON value could be decoded into a given type, without decoding it.

Open objects (a node class's kubelet settings, a Provisioner's inline provider) carry no schema in
their CRD, so the type is described here as a ``Shape`` and compared as a strict Go decoder would:
an unknown field or a wrong type is an error, and ``null`` fits everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeGuard

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.model import durations
from karpenter.model.quantity import is_quantity
from karpenter.model.suggestions import nearest_key


class Scalar(Enum):
    """A type without parts; the value is its name in messages."""

    BOOL = "true or false"
    STRING = "a string"
    INT32 = "a 32-bit integer"
    INT64 = "a 64-bit integer"
    UINT32 = "a 32-bit integer of at least 0"
    NUMBER = "a number"
    DURATION = 'a duration such as "30s"'
    DURATION_OR_NANOSECONDS = 'a duration such as "30s", or a count of nanoseconds'
    QUANTITY = 'a quantity such as "500m" or "1Gi"'


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose items all have one shape."""

    item: "Shape"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with free keys whose values all have one shape."""

    value: "Shape"


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with exactly these fields, each of them optional."""

    fields: Mapping[str, "Shape"]


Shape: TypeAlias = Scalar | ListOf | MapOf | Fields

_INTEGER_BOUNDS = {
    Scalar.INT32: (-(2**31), 2**31 - 1),
    Scalar.INT64: (-(2**63), 2**63 - 1),
    Scalar.UINT32: (0, 2**32 - 1),
}


def shape_errors(value: object, shape: Shape, path: Path) -> Iterator[FieldError]:
    """Yield where ``value`` departs from ``shape``."""
    if value is None:
        return
    match shape:
        case Scalar():
            if not _fits(value, shape):
                yield _wrong_type(path, shape.value, value)
        case ListOf(item):
            yield from _list_errors(value, item, path)
        case MapOf(item):
            yield from _map_errors(value, item, path)
        case Fields(fields):
            yield from _field_errors(value, fields, path)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether the value is a JSON number; Python's ``True`` and ``False`` are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int | float]:
    """Whether the value is a whole JSON number; ``10.0`` is stored and sent as ``10``."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def bound_errors(
    value: object, bounds: tuple[int, int], path: Path, advice: str = ""
) -> Iterator[FieldError]:
    """Yield what is wrong with a whole number that must lie between two others."""
    low, high = bounds
    if is_integer(value) and not low <= value <= high:
        detail = f"must be between {low} and {high}"
        yield FieldError(
            ErrorKind.INVALID, path, f"{detail}; {advice}" if advice else detail, value
        )


def _list_errors(value: object, item: Shape, path: Path) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield _wrong_type(path, "a list", value)
        return
    for index, element in enumerate(value):
        yield from shape_errors(element, item, (*path, index))


def _map_errors(value: object, item: Shape, path: Path) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield _wrong_type(path, "a map", value)
        return
    for key, element in value.items():
        yield from shape_errors(element, item, (*path, str(key)))


def _field_errors(value: object, fields: Mapping[str, Shape], path: Path) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield _wrong_type(path, "an object", value)
        return
    for key, element in value.items():
        name = str(key)
        if name in fields:
            yield from shape_errors(element, fields[name], (*path, name))
        else:
            yield FieldError(ErrorKind.NOT_SUPPORTED, (*path, name), _unknown(name, fields))


def _unknown(name: str, fields: Mapping[str, Shape]) -> str:
    nearest = nearest_key(name, fields)
    return f"unknown field; did you mean {nearest}?" if nearest else "unknown field; remove it"


def _fits(value: object, scalar: Scalar) -> bool:
    match scalar:
        case Scalar.BOOL:
            return isinstance(value, bool)
        case Scalar.STRING:
            return isinstance(value, str)
        case Scalar.DURATION:
            return isinstance(value, str) and durations.is_duration(value)
        case Scalar.DURATION_OR_NANOSECONDS:
            return _fits(value, Scalar.DURATION) or _fits(value, Scalar.INT64)
        case Scalar.QUANTITY:
            return is_number(value) or (isinstance(value, str) and is_quantity(value))
        case Scalar.NUMBER:
            return is_number(value)
        case _:
            low, high = _INTEGER_BOUNDS[scalar]
            return is_integer(value) and low <= value <= high


def _wrong_type(path: Path, wanted: str, value: object) -> FieldError:
    return FieldError(ErrorKind.TYPE_INVALID, path, f"must be {wanted}", value)
