"""Names of claims: the name of their pool, and a suffix in the form of ``generateName``.

A claim that is created gets a random suffix; a planned claim gets one from a hash of its pods, so
that the same plan has the same names.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
SUFFIX_LENGTH: Final = 5
_LONGEST_PREFIX: Final = 63 - SUFFIX_LENGTH


def claim_name(pool: str, suffix: str) -> str:
    """The name of a claim; the name of its pool is truncated to fit."""
    return f"{pool}-"[:_LONGEST_PREFIX] + suffix


def planned_name(pool: str, pods: Iterable[str]) -> str:
    """A name that depends on the pool and the pods alone, so that plans can be compared."""
    digest = int.from_bytes(hashlib.sha256("\n".join((pool, *pods)).encode()).digest()[:8])
    suffix = ""
    for _ in range(SUFFIX_LENGTH):
        digest, letter = divmod(digest, len(SUFFIX_LETTERS))
        suffix += SUFFIX_LETTERS[letter]
    return claim_name(pool, suffix)
