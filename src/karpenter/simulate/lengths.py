"""Lengths of time as scenarios write them: as in manifests, and ``d`` for days."""

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(d|h|m(?!s)|s|ms)")
_ROUNDING: Final = 1e-6  # sums of virtual seconds may fall short of the whole one that is meant
_SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def is_length(text: str) -> bool:
    """Whether a text is a length of time."""
    return text == "0" or re.fullmatch(rf"(?:{_PART.pattern})+", text) is not None


def seconds(text: str) -> float:
    """The seconds of a length that matches its pattern; a sign in front counts."""
    length = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return -length if text.startswith("-") else length


def share(percent: str) -> float:
    """The part of a whole that a percentage stands for."""
    return float(percent.removesuffix("%")) / 100


def per_second(rate: str) -> float:
    """How often a second something happens at a rate such as ``40/h``."""
    number, _, unit = rate.partition("/")
    return float(number) / _SECONDS[unit]


def shown(length: float) -> str:
    """A length of virtual time as a clock that counts hours on: ``25:00:00``."""
    minutes, rest = divmod(int(length + _ROUNDING), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest:02}"
