"""The FNV-1 hash of 64 bits, which names and drift hashes are made with."""

from typing import Final

_OFFSET: Final = 14695981039346656037
_PRIME: Final = 1099511628211
_MASK: Final = 2**64 - 1


def fnv1_64(data: bytes) -> int:
    """Multiply, then xor; FNV-1a would be the other way round."""
    value = _OFFSET
    for byte in data:
        value = (value * _PRIME & _MASK) ^ byte
    return value
