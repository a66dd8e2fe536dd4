"""Converting values of an object for CEL, with the types and names of its schema.

A ``number`` is a double even when it is written without a fraction, a ``date-time`` is a
timestamp, and property names that CEL could not parse are escaped. Most schemas need none of
this; their values are passed as they are, and only the fields that are read.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, Final

from karpenter.admission.cel.expression import Fields
from karpenter.admission.schemas.formats import date_time
from karpenter.admission.schemas.schema import Node
from karpenter.model import durations

_RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void"),
        "while",
    }
)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"))


def escape(name: str) -> str:
    """Write a property name the way rules refer to it."""
    if name in _RESERVED:
        return f"__{name}__"
    for text, escaped in _ESCAPES:
        name = name.replace(text, escaped)
    return name.replace("/", "__slash__")


@dataclass(frozen=True, slots=True)
class Shape:
    """How values of one schema node are converted."""

    is_plain: bool
    convert: Callable[[Any], Any] | None = None
    properties: Mapping[str, tuple[str, "Shape"]] = field(default_factory=dict)
    values: "Shape | None" = None
    items: "Shape | None" = None
    real_names: Mapping[str, str] = field(default_factory=dict)

    def hand_over(self, value: Any, fields: Fields | None) -> Any:
        """Convert ``value`` for CEL, reduced to ``fields`` unless that is None."""
        if fields is not None and isinstance(value, dict):
            return self._hand_over_fields(value, fields)
        return value if self.is_plain else self._hand_over_all(value)

    def _hand_over_fields(self, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
        handed = {}
        for name, below in fields.items():
            real_name = self.real_names.get(name, name)
            if real_name in value:
                shape = self._shape_of(real_name)
                handed[name] = shape.hand_over(value[real_name], below)
        return handed

    def _hand_over_all(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                self.properties.get(name, (name,))[0]: self._shape_of(name).hand_over(part, None)
                for name, part in value.items()
            }
        if isinstance(value, list) and self.items is not None:
            return [self.items.hand_over(item, None) for item in value]
        return self.convert(value) if self.convert is not None else value

    def _shape_of(self, name: str) -> "Shape":
        if name in self.properties:
            return self.properties[name][1]
        return self.values or PLAIN


PLAIN: Final = Shape(is_plain=True)


def shape_of(node: Node) -> Shape:
    """Determine how values of ``node`` are converted."""
    properties = {name: (escape(name), shape_of(child)) for name, child in node.properties.items()}
    values = shape_of(node.values) if node.values is not None else None
    items = shape_of(node.items) if node.items is not None else None
    convert = _converter(node)
    parts = [shape for shape in (values, items) if shape is not None]
    is_plain = (
        convert is None
        and all(shape.is_plain for shape in parts)
        and all(name == escaped and s.is_plain for name, (escaped, s) in properties.items())
    )
    if is_plain and not properties and not parts:
        return PLAIN
    return Shape(
        is_plain=is_plain,
        convert=convert,
        properties=properties,
        values=values,
        items=items,
        real_names={escaped: name for name, (escaped, _) in properties.items() if escaped != name},
    )


def _converter(node: Node) -> Callable[[Any], Any] | None:
    if node.is_int_or_string:
        return None
    return _FORMATS.get(node.format) if node.type == "string" else _TYPES.get(node.type)


def _double(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _moment(value: Any) -> Any:
    moment = date_time(value) if isinstance(value, str) else None
    return value if moment is None else moment


def _midnight(value: Any) -> Any:
    try:
        return datetime.combine(date.fromisoformat(value), datetime.min.time(), UTC)
    except (TypeError, ValueError):
        return value


def _duration(value: Any) -> Any:
    length = durations.parse(value) if isinstance(value, str) else None
    return value if length is None else length


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error, ValueError):
        return value


_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType({"number": _double})
_FORMATS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"byte": _bytes, "date": _midnight, "date-time": _moment, "duration": _duration}
)
