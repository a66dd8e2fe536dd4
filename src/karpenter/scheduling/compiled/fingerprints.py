"""Bytes that are equal for equal parts of objects, used as keys to find equal parts."""

from typing import Final

import msgspec

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def fingerprint(part: object) -> bytes:
    """Return bytes that are equal for equal parts and differ for all others."""
    try:
        return _encode(part)
    except OverflowError:  # files may hold integers beyond 64 bits
        return repr(part).encode()
