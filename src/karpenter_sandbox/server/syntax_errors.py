"""What is wrong with a body that cannot be read, in the words of an API server.

Those words are Go's, whose JSON reader names the character it stumbles over and what it expected
there. They are worked out only when a body has already been found unreadable.
"""

import json
from typing import Any, Final

from karpenter_sandbox.status import ApiError, bad_request

_SHOWN: Final = 30
_PLACES: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}
_NAMES: Final = ((bool, "bool"), (str, "string"), (list, "array"), (int | float, "number"))
_WANTED: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\"";'
    ' Kind string "json:\\"kind,omitempty\\"" }'
)


def unrecognized(kind: str, problem: str, data: bytes) -> ApiError:
    """The refusal of a body that does not even say what it is."""
    message = f"the object provided is unrecognized (must be of type {kind}): {problem}"
    return bad_request(f"{message} ({_summary(data)})")


def json_problem(data: bytes) -> str:
    """What keeps ``data`` from being JSON."""
    text = data.decode("latin-1")
    try:
        json.loads(text, parse_int=len)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            return "unexpected end of JSON input"
        return f"invalid character {_quoted(text[error.pos])} {_place(error, text)}"
    return "invalid UTF-8 in string literal"


def number_problem(text: str) -> str:
    """What keeps a number that no computer can hold from being read."""
    return f"json: cannot unmarshal number {text} into Go value of type float64"


def kind_problem(content: Any) -> str:
    """What keeps JSON that is no object from being one."""
    return f"json: cannot unmarshal {json_name(content)} into Go value of type {_WANTED}"


def json_name(value: Any) -> str:
    """What a value that is no object is called in JSON."""
    return next(name for kind, name in _NAMES if isinstance(value, kind))


def _place(error: json.JSONDecodeError, text: str) -> str:
    if error.msg == "Expecting ',' delimiter":
        is_list = _innermost(text[: error.pos]) == "["
        return "after array element" if is_list else "after object key:value pair"
    return _PLACES.get(error.msg, "in string escape code")


def _innermost(text: str) -> str:
    """The bracket that is open at the end of a beginning of JSON."""
    opened: list[str] = []
    is_inside = is_escaped = False
    for sign in text:
        if is_inside:
            is_inside = is_escaped or sign != '"'
            is_escaped = sign == "\\" and not is_escaped
        elif sign == '"':
            is_inside = True
        elif sign in "[{":
            opened.append(sign)
        elif sign in "]}":
            opened.pop()
    return opened[-1] if opened else ""


def _quoted(sign: str) -> str:
    if sign == "'":
        return r"'\''"
    if sign == '"':
        return "'\"'"
    return f"'{json.dumps(sign)[1:-1]}'"


def _summary(data: bytes) -> str:
    """The beginning of a body: as text when it looks like an object, else byte by byte."""
    if not data:
        return "<empty>"
    rest = " ..." if len(data) > _SHOWN else ""
    if data.startswith(b"{"):
        return data[:_SHOWN].decode(errors="replace") + rest
    return data[:_SHOWN].hex() + rest
