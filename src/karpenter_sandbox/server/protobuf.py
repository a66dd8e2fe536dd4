"""Request bodies in protobuf, as typed ``kubectl`` commands send them, turned into objects.

A body is an envelope of four bytes and a message that names the kind and carries the object's own
message. Messages are read by the field numbers and types of the kind's struct. Objects come out as
their JSON would have: fields of inlined structs in their place, bytes in base64, quantities and
times as text, without the empty values that protobuf carries along.
"""

import base64
import json
import struct as packing
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds import typed
from karpenter_sandbox.kinds.schemas.structs import Form, GoType, Struct, struct, struct_of_kind

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10
_DEEPEST: Final = 100
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Kinds every group accepts, whatever version the envelope names
_COMMON_KINDS: Final = frozenset({"DeleteOptions", "Status"})

Value = int | bytes


class ProtobufError(ValueError):
    """A request body that is not protobuf of a known kind."""


def decode(body: bytes, *, default_kind: tuple[str, str] | None = None) -> JsonObject:
    """Read the object in a request body.

    Args:
        body: the envelope and what it holds.
        default_kind: API version and kind to assume when the envelope names none.

    Raises:
        ProtobufError: the body is damaged or its kind is not known.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    envelope = _Envelope(body[len(MAGIC) :])
    api_version, kind = envelope.api_version, envelope.kind
    if default_kind is not None:
        api_version, kind = api_version or default_kind[0], kind or default_kind[1]
    found = struct_of_kind("v1" if kind in _COMMON_KINDS else api_version, kind)
    if found is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    try:
        content = _read_struct(envelope.raw, found, 0)
        decoded = typed.decode_object(content, *_kind_in_table(api_version, kind))
    except (typed.DecodeError, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise ProtobufError(f"the {kind} in the body cannot be read: {error}") from error
    assert decoded is not None
    return {"kind": kind, "apiVersion": api_version, **decoded.object}


def _kind_in_table(api_version: str, kind: str) -> tuple[str, str]:
    return ("v1" if kind in _COMMON_KINDS else api_version, kind)


class _Envelope:
    """The outer message: ``runtime.Unknown``."""

    def __init__(self, data: bytes) -> None:
        self.api_version = ""
        self.kind = ""
        self.raw = b""
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                self._read_kind(value)
            elif number == 2 and isinstance(value, bytes):
                self.raw = value

    def _read_kind(self, data: bytes) -> None:
        for number, value in _fields(data):
            if number == 1:
                self.api_version = _text(value)
            elif number == 2:
                self.kind = _text(value)


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Cut a message into numbers and values, without knowing their types."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise ProtobufError("the body is damaged: a field has the number 0")
        value: Value
        if wire_type == _VARINT:
            value, position = _varint(data, position)
        elif wire_type in (_BYTES, _FIXED32, _FIXED64):
            size = {_FIXED32: 4, _FIXED64: 8}.get(wire_type)
            if size is None:
                size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        else:
            raise ProtobufError(f"the body is damaged: field {number} has wire type {wire_type}")
        if position > len(data):
            raise ProtobufError("the body is damaged: it ends in the middle of a field")
        yield number, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = 0
    for offset in range(_LONGEST_VARINT):
        if position + offset >= len(data):
            raise ProtobufError("the body is damaged: it ends in the middle of a number")
        byte = data[position + offset]
        result |= (byte & 0x7F) << (7 * offset)
        if byte < 0x80:
            return result, position + offset + 1
    raise ProtobufError("the body is damaged: a number is longer than 10 bytes")


def _read_struct(data: bytes, found: Struct, depth: int) -> JsonObject:
    if depth > _DEEPEST:
        raise ProtobufError(f"the object is nested more than {_DEEPEST} levels deep")
    by_number = {field.number: field for field in found.fields if field.number}
    result: JsonObject = {}
    for number, value in _fields(data):
        field = by_number.get(number)
        if field is None:
            continue
        if not field.json:
            result.update(_read_struct(_bytes(value), struct(field.type.name), depth + 1))
        elif field.type.form is Form.LIST:
            items = result.setdefault(field.json, [])
            items.extend(_list_items(value, field.type.parts, depth))
        elif field.type.form is Form.MAP:
            key, part = _map_entry(value, field.type.parts, depth)
            result.setdefault(field.json, {})[key] = part
        else:
            result[field.json] = _read(value, field.type, depth)
    return result


def _list_items(value: Value, item: GoType, depth: int) -> Iterator[Any]:
    """One item, or several when numbers are packed into one field."""
    if isinstance(value, bytes) and item.name in ("int32", "int64", "bool"):
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield _read(number, item, depth)
    else:
        yield _read(value, item, depth)


def _map_entry(value: Value, item: GoType, depth: int) -> tuple[str, Any]:
    key = ""
    part: Any = None
    for number, content in _fields(_bytes(value)):
        if number == 1:
            key = _text(content)
        elif number == 2 and item.form is Form.LIST:
            # protobuf has no map of lists, so a message with the list as its first field stands in
            inner = (entry for at, entry in _fields(_bytes(content)) if at == 1)
            part = [read for entry in inner for read in _list_items(entry, item.parts, depth)]
        elif number == 2:
            part = _read(content, item, depth)
    return key, part


def _read(value: Value, go_type: GoType, depth: int) -> Any:
    if go_type.form is Form.STRUCT:
        return _read_struct(_bytes(value), struct(go_type.name), depth + 1)
    if go_type.name.startswith("JSONSchemaPropsOr"):
        return _read_schema_or_else(value, go_type.name, depth)
    return _READERS[go_type.name](value)


def _read_schema_or_else(value: Value, name: str, depth: int) -> Any:
    """A place of a CRD's schema that holds either one schema or something simpler."""
    schemas = struct("apiextensions.v1.JSONSchemaProps")
    schema_number = 2 if name == "JSONSchemaPropsOrBool" else 1
    fields = list(_fields(_bytes(value)))
    for number, content in fields:
        if number == schema_number:
            return _read_struct(_bytes(content), schemas, depth + 1)
    if name == "JSONSchemaPropsOrBool":
        return any(_number(content) != 0 for _, content in fields)
    if name == "JSONSchemaPropsOrStringArray":
        return [_text(content) for _, content in fields]
    return [_read_struct(_bytes(content), schemas, depth + 1) for _, content in fields]


def _text(value: Value) -> str:
    return _bytes(value).decode("utf-8")


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("the body is damaged: a number stands where text or a message belongs")
    return value


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise ProtobufError("the body is damaged: text stands where a number belongs")
    return value


def _integer(value: Value) -> int:
    """Read a number whose negative values are written as 64-bit two's complement."""
    number = _number(value) & (1 << 64) - 1
    return number - (1 << 64) if number >= 1 << 63 else number


def _double(value: Value) -> float:
    data = _bytes(value)
    if len(data) != packing.calcsize("<d"):
        raise ProtobufError("the body is damaged: a fraction is not 8 bytes long")
    number: float = packing.unpack("<d", data)[0]
    return number


def _parts(value: Value) -> dict[int, Value]:
    return dict(_fields(_bytes(value)))


def _quantity(value: Value) -> str:
    return _text(_parts(value).get(1, b"")) or "0"


def _int_or_string(value: Value) -> int | str:
    parts = _parts(value)
    return _text(parts.get(3, b"")) if parts.get(1) == 1 else _integer(parts.get(2, 0))


def _moment(value: Value) -> datetime | None:
    """A point in time; an empty message is the time that was never set."""
    parts = _parts(value)
    seconds, nanos = _integer(parts.get(1, 0)), _integer(parts.get(2, 0))
    if not parts:
        return None
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _time(value: Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _json(value: Value) -> Any:
    raw = _bytes(_parts(value).get(1, b""))
    return json.loads(raw) if raw else None


_READERS: Final[Mapping[str, Callable[[Value], Any]]] = {
    "string": _text,
    "bool": lambda value: _number(value) != 0,
    "int32": _integer,
    "int64": _integer,
    "float64": _double,
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "FieldsV1": _json,
    "RawExtension": _json,
    "JSON": _json,
}
