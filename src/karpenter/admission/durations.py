"""Go's duration text, as the kubelet reads it: ``1m30s``, ``1.5h``, ``300ms``, ``0``.

It is wider than the durations of a NodePool, which allow whole hours, minutes and seconds only.
"""

import re
from fractions import Fraction

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)")
_LONGEST = 100  # beyond any sensible text, and far below what makes integers slow to read
_LARGEST = 2**63 - 1  # Go keeps a duration in a signed 64-bit count of nanoseconds


def go_duration(text: str) -> int | None:
    """Return the nanoseconds a Go duration stands for, or None when it is not one."""
    if len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        return None
    total = sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(text))
    nanoseconds = int(total)
    if nanoseconds > _LARGEST:
        return None
    return -nanoseconds if text.startswith("-") else nanoseconds
