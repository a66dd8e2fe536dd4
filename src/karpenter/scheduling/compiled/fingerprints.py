"""Bytes that are equal for equal parts of objects, by which like things are found to be alike."""

from typing import Final

import msgspec

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def fingerprint(part: object) -> bytes:
    """Return bytes that tell ``part`` from everything it is not equal to."""
    try:
        return _encode(part)
    except OverflowError:  # files may hold integers that fit into no 64 bits
        return repr(part).encode()
