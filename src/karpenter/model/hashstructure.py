"""Drift hashes as Go's hashstructure (v2) computes them, bit for bit as Karpenter does.

Nodes carry the hash of their template as an annotation. A controller that computes another number
takes every node for drifted and replaces it. Notation, for 64-bit FNV-1:

    ord(a, b)   the hash of two numbers, 8 bytes each, lowest byte first
    fin(a)      the hash of one such number

A struct is hashed field by field in the order its Go declaration has, each with its Go name; fields
that are not set are omitted. A list is the xor of its items, so order does not matter.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import xor
from typing import Any, Final, NamedTuple, TypeAlias

_OFFSET: Final = 14695981039346656037
_PRIME: Final = 1099511628211
_MASK: Final = 2**64 - 1
_SECONDS_TO_1970: Final = 62135596800  # since the first of January of year 1, where Go begins

Hasher: TypeAlias = Callable[[Any], int]


class Field(NamedTuple):
    """One field of a struct: its name in Go, its value, and how that is hashed."""

    go_name: str
    value: Any  # None where it is not set
    hashed: Hasher
    is_pointer: bool = True  # a pointer to a zero value is hashed, a zero value itself is not


def struct_hash(go_name: str, fields: Iterable[Field]) -> int:
    """The hash of a struct of this name."""
    value = text_hash(go_name)
    for field in fields:
        if field.value is None or (not field.is_pointer and not field.value):
            continue
        value = _fin(value ^ _ord(text_hash(field.go_name), field.hashed(field.value)))
    return value


def mapping_hash(entries: Mapping[str, str]) -> int:
    """The hash of a map of texts."""
    return _fin(reduce(xor, (_ord(text_hash(k), text_hash(v)) for k, v in entries.items()), 0))


def list_of(hashed: Hasher) -> Hasher:
    """The hasher of a list whose items are hashed by ``hashed``; order does not matter."""

    def all_of(items: Sequence[Any]) -> int:
        return reduce(xor, map(hashed, items), 0)

    return all_of


def text_hash(text: str) -> int:
    """The hash of a text."""
    return fnv1_64(text.encode())


def boolean_hash(value: bool) -> int:
    """The hash of a truth value."""
    return fnv1_64(bytes([value]))


def short_hash(number: int) -> int:
    """The hash of a number of 32 bits."""
    return fnv1_64(struct.pack("<i", number))


def long_hash(number: int) -> int:
    """The hash of a number of 64 bits."""
    return fnv1_64(struct.pack("<q", number))


def time_hash(moment: datetime) -> int:
    """The hash of a time, as a controller whose time zone is UTC computes it."""
    seconds = int(moment.timestamp()) + _SECONDS_TO_1970  # Kubernetes keeps whole seconds
    return fnv1_64(struct.pack(">BqIh", 1, seconds, 0, 0))


def fnv1_64(data: bytes) -> int:
    """64-bit FNV-1: multiply, then xor (FNV-1a does them in the other order)."""
    value = _OFFSET
    for byte in data:
        value = (value * _PRIME & _MASK) ^ byte
    return value


def _ord(first: int, second: int) -> int:
    return fnv1_64(struct.pack("<QQ", first, second))


def _fin(value: int) -> int:
    return fnv1_64(struct.pack("<Q", value))
