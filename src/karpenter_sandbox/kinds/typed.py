"""Objects of Kubernetes' own kinds the way an API server's Go code reads and writes them.

Reading checks every value against its struct, omits unknown fields (and reports them), drops nulls
and empty values that would not be written back, and brings quantities and times into their
canonical form. Completing adds fields that are always written even if unset, such as ``status:
{}``. Both leave their input alone, and doing either twice changes nothing more.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model import quantity
from karpenter_sandbox.kinds.schemas.structs import (
    Form,
    GoType,
    Struct,
    StructField,
    struct,
    struct_of_kind,
)

_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:[Zz]|[+-]\d{2}:\d{2})"
)
# The parts of a time and what Go calls them
_TIME_PARTS: Final = (
    (r"\d{4}", "2006"),
    ("-", "-"),
    (r"\d{2}", "01"),
    ("-", "-"),
    (r"\d{2}", "02"),
    ("[Tt]", "T"),
    (r"\d{2}", "15"),
    (":", ":"),
    (r"\d{2}", "04"),
    (":", ":"),
    (r"\d{2}", "05"),
    (r"(?:[.,]\d+)?(?:[Zz]|[+-]\d{2}:\d{2})", "Z07:00"),
)
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_QUANTITY_PATTERN: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_SCHEMA_PROPS: Final = "apiextensions.v1.JSONSchemaProps"
_METADATA: Final = "meta.v1.ObjectMeta"
_INTEGERS: Final = {"int32": 31, "int64": 63}
_EMPTY: Final[Mapping[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "Quantity": "0",
    "IntOrString": 0,
}


class DecodeError(ValueError):
    """A value of the wrong type; the message is worded as Go's JSON decoder does."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object as it was understood, and the fields that were not."""

    object: JsonObject
    unknown: tuple[str, ...]


def decode_object(obj: Mapping[str, Any], api_version: str, kind: str) -> Decoded | None:
    """Read an object of a built-in kind; None when the kind is not one.

    Raises:
        DecodeError: a value has the wrong type.
    """
    found = struct_of_kind(api_version, kind)
    if found is None:
        return None
    reader = _Reader()
    return Decoded(reader.read_struct(obj, found, "", ()), tuple(reader.unknown))


def decode_metadata(metadata: Mapping[str, Any]) -> Decoded:
    """Read the metadata of an object of any kind.

    Raises:
        DecodeError: a value has the wrong type.
    """
    reader = _Reader()
    read = reader.read_struct(metadata, struct(_METADATA), "", ())
    return Decoded(read, tuple(f"metadata.{name}" for name in reader.unknown))


def complete_object(obj: JsonObject, api_version: str, kind: str) -> JsonObject:
    """Add what is always written; objects of other kinds are returned as they are."""
    found = struct_of_kind(api_version, kind)
    return obj if found is None else _complete(obj, found)


class _Reader:
    """One pass over one object; collects unknown fields on the way."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def read_struct(
        self, value: Mapping[str, Any], found: Struct, path: str, names: tuple[str, ...]
    ) -> JsonObject:
        """Read the known fields; ``path`` shows list indexes, ``names`` as in Go does not."""
        result = {}
        fields = found.json_fields()
        for key, part in value.items():
            field = fields.get(key)
            inner = f"{path}.{key}" if path else key
            if field is None:
                self.unknown.append(inner)
            elif part is not None:
                place = _Place(inner, (*names, key), found.go_name)
                read = self.read(part, field.type, place)
                if not _is_left_out(read, field):
                    result[key] = read
        return result

    def read(self, value: Any, go_type: GoType, place: "_Place") -> Any:
        if go_type.form is Form.SCALAR:
            return _read_scalar(value, go_type, place)
        if go_type.form is Form.OPAQUE:
            return self._read_opaque(value, go_type, place)
        if go_type.form is Form.LIST:
            return self._read_list(value, go_type, place)
        if not isinstance(value, dict):
            raise place.error(value, go_type)
        if go_type.form is Form.STRUCT:
            return self.read_struct(value, struct(go_type.name), place.path, place.names)
        return {key: self._read_part(part, go_type.parts, place) for key, part in value.items()}

    def _read_opaque(self, value: Any, go_type: GoType, place: "_Place") -> Any:
        read = _OPAQUE_READERS.get(go_type.name)
        if read is not None:
            return read(value, go_type, place)
        if not go_type.name.startswith("JSONSchemaPropsOr"):
            return value
        if isinstance(value, dict):
            return self.read_struct(value, struct(_SCHEMA_PROPS), place.path, place.names)
        if isinstance(value, list):
            return [self._read_opaque(part, go_type, place) for part in value]
        return value

    def _read_list(self, value: Any, go_type: GoType, place: "_Place") -> list[Any]:
        if not isinstance(value, list):
            raise place.error(value, go_type)
        return [
            self._read_part(part, go_type.parts, place.at(index))
            for index, part in enumerate(value)
        ]

    def _read_part(self, value: Any, go_type: GoType, place: "_Place") -> Any:
        """Read a part of a list or map, where null is the empty value of the type."""
        if value is not None:
            return self.read(value, go_type, place)
        if go_type.form is Form.STRUCT:
            return {}
        return _EMPTY.get(go_type.name)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands, for messages."""

    path: str
    names: tuple[str, ...]
    struct_name: str

    def at(self, index: int) -> "_Place":
        return _Place(f"{self.path}[{index}]", self.names, self.struct_name)

    def error(self, value: Any, go_type: GoType) -> DecodeError:
        where = f"Go struct field {self.struct_name}.{'.'.join(self.names)}"
        return DecodeError(
            f"json: cannot unmarshal {_json_kind(value, go_type)} into {where} of type {go_type}"
        )


def _json_kind(value: Any, go_type: GoType) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return f"number {value}" if go_type.name in _INTEGERS else "number"
    return "array" if isinstance(value, list) else "object"


def _read_scalar(value: Any, go_type: GoType, place: _Place) -> Any:
    name = go_type.name
    if name == "string" and isinstance(value, str):
        return value
    if name == "bool" and isinstance(value, bool):
        return value
    if name in _INTEGERS and type(value) is int and _fits(value, _INTEGERS[name]):
        return value
    if name == "float64" and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if name == "bytes" and isinstance(value, str):
        return _read_bytes(value)
    raise place.error(value, go_type)


def _fits(value: int, bits: int) -> bool:
    return -(1 << bits) <= value < 1 << bits


def _read_bytes(text: str) -> str:
    compact = text.replace("\n", "").replace("\r", "")
    try:
        data = base64.b64decode(compact, validate=True)
    except ValueError:  # non-ASCII text raises no binascii.Error
        good = re.match(r"(?:[A-Za-z0-9+/]{4})*", compact)
        at = good.end() if good else 0
        raise DecodeError(f"illegal base64 data at input byte {at}") from None
    return base64.b64encode(data).decode()


def _read_quantity(value: Any, _type: GoType, _place: _Place) -> str:
    try:
        return quantity.canonical(value)
    except quantity.QuantityError:
        problem = f"quantities must match the regular expression '{_QUANTITY_PATTERN}'"
        raise DecodeError(problem) from None


def _read_int_or_string(value: Any, _type: GoType, place: _Place) -> int | str:
    if isinstance(value, str) or (type(value) is int and _fits(value, 31)):
        return value
    wanted = GoType(Form.SCALAR, "int32")
    raise place.error(value, wanted)


def _read_time(value: Any, _type: GoType, place: _Place) -> str:
    moment = _moment(value, place, _LAYOUT)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_micro_time(value: Any, _type: GoType, place: _Place) -> str:
    moment = _moment(value, place, _MICRO_LAYOUT)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(value: Any, place: _Place, layout: str) -> datetime:
    if not isinstance(value, str):
        raise place.error(value, GoType(Form.SCALAR, "string"))
    if not _TIME.fullmatch(value):
        raise DecodeError(_time_problem(value, layout))
    try:
        return datetime.fromisoformat(value.upper().replace(",", ".")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise DecodeError(f'parsing time "{value}": {_range_problem(value)}') from None


def _time_problem(value: str, layout: str) -> str:
    """Say from where on a text is no time, in Go's words."""
    position = 0
    for pattern, name in _TIME_PARTS:
        found = re.compile(pattern).match(value, position)
        if found is None:
            rest = value[position:]
            return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{name}"'
        position = found.end()
    return f'parsing time "{value}": extra text: "{value[position:]}"'


def _range_problem(value: str) -> str:
    month, hour, minute, second = (int(value[at : at + 2]) for at in (5, 11, 14, 17))
    names = {"month": not 1 <= month <= 12, "hour": hour > 23, "minute": minute > 59}
    out_of_range = [name for name, is_out in {**names, "second": second > 59}.items() if is_out]
    return f"{out_of_range[0] if out_of_range else 'day'} out of range"


_OPAQUE_READERS: Final[Mapping[str, Callable[[Any, GoType, _Place], Any]]] = {
    "Quantity": _read_quantity,
    "IntOrString": _read_int_or_string,
    "Time": _read_time,
    "MicroTime": _read_micro_time,
}


def _is_left_out(value: Any, field: StructField) -> bool:
    """Whether Go omits the value on writing: empty, not a pointer and marked ``omitempty``."""
    if field.type.is_pointer or field.is_always_written:
        return False
    if field.type.form in (Form.LIST, Form.MAP):
        return not value
    if field.type.form is Form.SCALAR:
        return value in ("", 0, False)
    return False


def _complete(value: JsonObject, found: Struct) -> JsonObject:
    result = dict(value)
    for name, field in found.json_fields().items():
        if name in result:
            result[name] = _complete_part(result[name], field.type)
        elif not field.type.is_pointer:
            _fill(result, name, field)
        elif field.is_always_written:
            result[name] = None
    return result


def _complete_part(value: Any, go_type: GoType) -> Any:
    if value is None:
        return value
    if go_type.form is Form.STRUCT:
        return _complete(value, struct(go_type.name))
    if go_type.form is Form.LIST and go_type.parts.form is Form.STRUCT:
        return [_complete_part(part, go_type.parts) for part in value]
    if go_type.form is Form.MAP and go_type.parts.form is Form.STRUCT:
        return {key: _complete_part(part, go_type.parts) for key, part in value.items()}
    return value


def _fill(result: JsonObject, name: str, field: StructField) -> None:
    """Write the empty value of an unset field, when Go would."""
    form = field.type.form
    if form is Form.STRUCT and not field.is_omitted_when_zero:
        result[name] = _complete({}, struct(field.type.name))
    elif form is Form.OPAQUE and not field.is_omitted_when_zero:
        result[name] = _EMPTY.get(field.type.name)
    elif field.is_always_written:
        result[name] = _EMPTY.get(field.type.name) if form is Form.SCALAR else None
