"""Writes TOML; Python only reads it."""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def dumps(document: Mapping[str, Any]) -> str:
    """A document as text; what stands in a table comes before the tables within it."""
    return "\n".join(_table((), document)).lstrip("\n") + "\n"


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or not table):
        yield ""
        yield f"[{'.'.join(_key(part) for part in path)}]"
    for key in sorted(plain):
        yield f"{_key(key)} = {_value(plain[key])}"
    for key in sorted(table.keys() - plain.keys()):
        yield from _table((*path, key), table[key])


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(_value(each) for each in value)}]"
        case Mapping():
            pairs = (f"{_key(key)} = {_value(value[key])}" for key in sorted(value))
            return f"{{ {', '.join(pairs)} }}"
    raise TypeError(f"TOML has no word for {type(value).__name__}")


def _text(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(char) or _printable(char) for char in text) + '"'


def _printable(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else char
