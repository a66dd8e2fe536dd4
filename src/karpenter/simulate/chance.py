"""Chance without order: each draw is a keyed hash, so one draw never moves another.

A draw is named by a stream, a key and a number, such as ``("duration", "mail", 17)``. Changing a
policy, or leaving out a workload, changes which draws are made but not what any of them gives.
"""

import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

_BITS: Final = 53  # what a float can hold
_STANDARD: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Chance:
    """The draws of one seed."""

    seed: int

    def uniform(self, stream: str, key: str, number: int = 0) -> float:
        """A number above 0 and below 1."""
        # Lengths first, so that no two names of draws have the same text
        named = f"{self.seed}:{len(stream)}:{stream}:{len(key)}:{key}:{number}"
        digest = hashlib.sha256(named.encode()).digest()
        drawn = int.from_bytes(digest[:8], "big") >> (64 - _BITS)
        return (drawn + 0.5) / float(1 << _BITS)

    def normal(self, stream: str, key: str, number: int = 0) -> float:
        """A draw of the standard normal distribution."""
        return _STANDARD.inv_cdf(self.uniform(stream, key, number))

    def exponential(self, stream: str, key: str, number: int = 0) -> float:
        """A draw of the exponential distribution with the mean 1."""
        return -math.log(self.uniform(stream, key, number))
