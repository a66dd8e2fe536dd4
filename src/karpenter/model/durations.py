"""Durations as text: parsed, rounded and written by one rule everywhere.

The text is Go's, as the kubelet reads it: ``1m30s``, ``1.5h``, ``300ms``, ``0``. It is wider than
the durations of a NodePool, of which the CRDs allow whole hours, minutes and seconds only, and
besides them ``Never``, which is no length at all.

Go counts nanoseconds and Python microseconds: a duration is truncated to whole microseconds. Its
sign is taken before that, from the text.
"""

import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

from karpenter.api.times import in_nanoseconds
from karpenter.model.memo import remembered

NEVER: Final = "Never"  # in place of a wait or a lifetime: no end

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)")
_LONGEST: Final = 100  # beyond any sensible text, and far below what makes integers slow to read
_MOST_TEXTS: Final = 1024  # that are remembered: every pod and claim repeats those of few specs
_LARGEST: Final = 2**63 - 1  # Go keeps a duration in a signed 64-bit count of nanoseconds
_LARGE_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))


def parse(text: str | None) -> timedelta | None:
    """The length a text stands for, which may be negative; None when it is no duration."""
    count = nanoseconds(text) if text is not None else None
    return in_nanoseconds(count) if count is not None else None


def period(text: str | None) -> timedelta | None:
    """The length a text stands for; None when it is negative, ``Never``, or no duration."""
    count = nanoseconds(text) if text is not None else None
    return in_nanoseconds(count) if count is not None and count >= 0 else None


def is_positive(text: str | None) -> bool:
    """Whether a text is a duration above zero, be it by a nanosecond."""
    count = nanoseconds(text) if text is not None else None
    return count is not None and count > 0


def is_duration(text: str) -> bool:
    """Whether a text is a duration."""
    return nanoseconds(text) is not None


@remembered(_MOST_TEXTS)
def nanoseconds(text: str) -> int | None:
    """The nanoseconds a text stands for, exactly; None when it is no duration."""
    if len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        return None
    total = sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(text))
    count = int(total)
    if count > _LARGEST:
        return None
    return -count if text.startswith("-") else count


def text(length: timedelta) -> str:
    """A length as Go prints it, such as ``1m30s`` or ``1.2s``."""
    seconds = Decimal(length // timedelta(microseconds=1)) / 1_000_000
    if seconds == 0:
        return "0s"
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 1:
        milliseconds = seconds * 1000
        if milliseconds < 1:
            return f"{sign}{_number(milliseconds * 1000)}µs"
        return f"{sign}{_number(milliseconds)}ms"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = f"{hours}h" if hours else ""
    parts += f"{minutes}m" if hours or minutes else ""
    return f"{sign}{parts}{_number(seconds)}s"


def in_largest_unit(length: timedelta) -> tuple[int, str]:
    """A duration in its largest unit (d, h, m or s), rounded down, for display.

    A unit is used from two of it on: 90s, not 1m.
    """
    seconds = max(0, length // timedelta(seconds=1))
    for unit, size in _LARGE_UNITS:
        if seconds >= 2 * size:
            return seconds // size, unit
    return seconds, "s"


def _number(value: Decimal) -> str:
    digits = f"{value:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
