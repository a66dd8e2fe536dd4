"""The values of YAML scalars: text, a number, a boolean or null.

Kubernetes reads YAML with a library between YAML 1.1 and 1.2, and a manifest must have the same
values here as in ``kubectl``: ``yes`` and ``off`` are booleans, ``0755`` is octal, ``1_000`` is a
thousand, but ``12:30`` and ``2024-01-01`` stay text. Numbers then pass through JSON, so ``1.0`` and
``1e3`` are integers and what JSON cannot represent is refused.
"""

import base64
import math
import re

from karpenter.visible import visible

Scalar = str | int | float | bool | None

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES"), True),
    **dict.fromkeys(("true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO"), False),
    **dict.fromkeys(("false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_A_NUMBER = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
) | {".nan", ".NaN", ".NAN"}
_NUMBER_STARTS = frozenset("+-.0123456789")

_TYPES: dict[str, tuple[type, ...]] = {
    "binary": (str,),
    "bool": (bool,),
    "float": (int, float),
    "int": (int,),
    "null": (type(None),),
}

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_BASED = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**64 - 1
_LONGEST_INTEGER = len(str(_SMALLEST_INTEGER))


class ScalarError(ValueError):
    """A value that JSON, and so Kubernetes, cannot represent, or that contradicts its tag."""


def plain(text: str) -> Scalar:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if text in _NOT_A_NUMBER:
        raise ScalarError(f"`{text}` is not a number that JSON can carry")
    digits = text.replace("_", "")
    based = _BASED.fullmatch(digits)
    if based:
        return _in_base(based, text)
    if not _FLOAT.fullmatch(digits):
        return text
    value = _number(digits)
    return text if math.isinf(value) else value


def tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar that carries an explicit tag."""
    name = tag.removeprefix(_TAG)
    if tag == "!" or name in ("str", "timestamp"):
        return text
    if not tag.startswith(_TAG) or name not in _TYPES:
        raise ScalarError(unknown_tag(tag))
    if name == "binary":
        return _binary(text)
    value = plain(text)
    if type(value) not in _TYPES[name]:
        raise ScalarError(f"`{_shorten(text)}` is not what its tag `!!{name}` says")
    return value


def unknown_tag(tag: str) -> str:
    """The error of a tag that manifests do not support."""
    shown = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
    return f"the tag `{shown}` has no meaning in a Kubernetes manifest; write the value without it"


def json_number(text: str) -> int | float:
    """Return the value of a JSON number; ``1.0`` is the whole number 1, as in YAML."""
    value = _number(text)
    if math.isinf(value):
        raise ScalarError(f"the number {_shorten(text)} is too large")
    return value


def _number(text: str) -> int | float:
    """Return a decimal number, as a float where 64 bits do not hold it, as Kubernetes does."""
    if len(text) <= _LONGEST_INTEGER and _INTEGER.fullmatch(text):
        integer = int(text)
        if _SMALLEST_INTEGER <= integer <= _LARGEST_INTEGER:
            return integer
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _in_base(match: re.Match[str], text: str) -> int | str:
    sign, hexadecimal, binary, octal = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    else:
        value = int(octal, 8)
    value = -value if sign == "-" else value
    return value if _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER else text


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except ValueError as error:
        raise ScalarError("a !!binary value must be base64 of UTF-8 text") from error


def _shorten(text: str) -> str:
    return visible(text if len(text) <= 24 else f"{text[:20]}…")
