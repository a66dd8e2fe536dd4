"""Kubernetes quantities: read, rounded and printed exactly as the API server does.

A quantity is a whole number of billionths (``nanos``) and the family of suffixes it was written
with; no float is used. Text finer than a billionth is rounded away from zero, so that a small
request never becomes zero. ``units`` and ``millis`` return integers, rounded away from zero
too. Printing uses the canonical form: no fraction, the largest suffix that loses nothing, the
family the text came in.

Two deliberate differences from Kubernetes' own scanner: text without any digit (``.``, ``Ki``) is
refused rather than read as zero, and so are absurd sizes, whose digits would fill the memory.
"""

import re
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Final

_NANO: Final = 10**9
_LARGEST_BINARY: Final = (2**63 - 1) * _NANO
_LONGEST_TEXT: Final = 256
_LARGEST_EXPONENT: Final = 1000
_LARGEST_INTEGER: Final = 10**_LARGEST_EXPONENT

_SHAPE: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?P<suffix>[^0-9.+-]*(?:[+-]?[0-9]+)?)"
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_SUFFIXES: Final = dict(zip(range(-9, 19, 3), ("n", "u", "m", "", *"kMGTPE"), strict=True))
_DECIMAL_EXPONENTS: Final = {suffix: exponent for exponent, suffix in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_SHIFTS: Final = {suffix: 10 * i for i, suffix in enumerate(_BINARY_SUFFIXES) if suffix}
_SUFFIXES: Final = (*filter(None, _DECIMAL_EXPONENTS), *_BINARY_SHIFTS)


class QuantityError(ValueError):
    """A value that is not a Kubernetes quantity."""


class Family(Enum):
    """How a quantity is written: ``512Mi``, ``500m`` or ``1e3``."""

    BINARY = "BinarySI"
    DECIMAL = "DecimalSI"
    EXPONENT = "DecimalExponent"


def parse(value: object) -> Decimal:
    """Read the exact amount of a quantity as it comes from JSON: text, an integer or a float.

    Raises:
        QuantityError: with one sentence: what is wrong, and what to write instead.
    """
    nanos, _ = _read(value)
    # text, because Decimal's arithmetic would round to the digits of its context
    return Decimal(f"{nanos}e-9")


def units(value: object) -> int:
    """Read a quantity in whole units, rounded away from zero (Kubernetes' ``Value``)."""
    if isinstance(value, str):
        return _units_of(value)
    return _divide_away_from_zero(_read(value)[0], _NANO)


def millis(value: object) -> int:
    """Read a quantity in thousandths, rounded away from zero (Kubernetes' ``MilliValue``)."""
    if isinstance(value, str):
        return _millis_of(value)
    return _divide_away_from_zero(_read(value)[0], _NANO // 1000)


def canonical(value: object) -> str:
    """Write a quantity the way Kubernetes prints it."""
    return format_quantity(*_read(value))


def is_quantity(value: object) -> bool:
    """Whether ``value`` can be read."""
    try:
        _read(value)
    except QuantityError:
        return False
    return True


def format_quantity(nanos: int, family: Family) -> str:
    """Write an amount of billionths in canonical form."""
    if nanos == 0:
        return "0"
    if family is Family.BINARY and nanos % _NANO == 0 and abs(nanos) >= 1024 * _NANO:
        return _format_binary(nanos // _NANO)
    return _format_decimal(nanos, family)


def _read(value: object) -> tuple[int, Family]:
    if isinstance(value, str):
        return _scan(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"a quantity is a number or text such as 500m, not {_kind(value)}")
    if isinstance(value, float):
        # the shortest text that parses to the same float is what the JSON had
        return _scan(repr(value))
    if abs(value) > _LARGEST_INTEGER:
        raise QuantityError("the number is larger than any resource; write a smaller one")
    return value * _NANO, Family.DECIMAL


# Thousands of pods share a few dozen texts; caching them makes parsing 4x as fast
@lru_cache(maxsize=4096)
def _units_of(text: str) -> int:
    return _divide_away_from_zero(_scan(text)[0], _NANO)


@lru_cache(maxsize=4096)
def _millis_of(text: str) -> int:
    return _divide_away_from_zero(_scan(text)[0], _NANO // 1000)


@lru_cache(maxsize=4096)
def _scan(text: str) -> tuple[int, Family]:
    if len(text) > _LONGEST_TEXT:
        raise QuantityError(f"a quantity of {len(text)} characters is too long; write it shorter")
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise QuantityError(
            f"{text!r} is not a quantity; write a number with an optional suffix,"
            " such as 2, 500m, 1.5Gi or 1e3"
        )
    part = shape["part"] or shape["only_part"] or ""
    amount = int((shape["whole"] or "") + part)
    suffix = shape["suffix"]
    if suffix in _BINARY_SHIFTS:
        family = Family.BINARY
        amount = min(_scale(amount << _BINARY_SHIFTS[suffix], 9 - len(part)), _LARGEST_BINARY)
    else:
        exponent, family = _read_decimal_suffix(suffix, text)
        amount = _scale(amount, exponent - len(part) + 9)
    return -amount if shape["sign"] == "-" else amount, family


def _read_decimal_suffix(suffix: str, text: str) -> tuple[int, Family]:
    if suffix in _DECIMAL_EXPONENTS:
        return _DECIMAL_EXPONENTS[suffix], Family.DECIMAL
    written = _EXPONENT.fullmatch(suffix)
    if written is None:
        raise QuantityError(_unknown_suffix(suffix, text))
    exponent = int(written[1])
    if exponent > _LARGEST_EXPONENT:
        raise QuantityError(f"{text!r} is larger than any resource; write a smaller exponent")
    # with a smaller exponent every text rounds to one nano, so the clamp changes nothing
    return max(exponent, -_LARGEST_EXPONENT), Family.EXPONENT


def _unknown_suffix(suffix: str, text: str) -> str:
    meant = next((known for known in _SUFFIXES if known.lower() == suffix.lower()), None)
    advice = f"did you mean {meant}?" if meant else f"use one of {' '.join(_SUFFIXES)}"
    return f"{text!r} has the unknown suffix {suffix!r}; {advice}"


def _scale(amount: int, power_of_ten: int) -> int:
    """Multiply by a power of ten, rounding away from zero."""
    factor: int = 10 ** abs(power_of_ten)
    return amount * factor if power_of_ten >= 0 else _divide_away_from_zero(amount, factor)


def _divide_away_from_zero(amount: int, divisor: int) -> int:
    return -(-amount // divisor) if amount > 0 else amount // divisor


def _format_binary(amount: int) -> str:
    step = 0
    while step + 1 < len(_BINARY_SUFFIXES) and amount % 1024 == 0:
        amount //= 1024
        step += 1
    return f"{amount}{_BINARY_SUFFIXES[step]}"


def _format_decimal(nanos: int, family: Family) -> str:
    amount, exponent = nanos, -9
    while amount % 1000 == 0:
        amount //= 1000
        exponent += 3
    if family is not Family.EXPONENT and exponent in _DECIMAL_SUFFIXES:
        return f"{amount}{_DECIMAL_SUFFIXES[exponent]}"
    return f"{amount}e{exponent}" if exponent else str(amount)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
