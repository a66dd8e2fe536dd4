"""Parsers of cost values, shared by settings and annotations."""

import math
import re
from typing import Final

_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")


def dollars(text: str) -> float:
    """Read an amount of money.

    Raises:
        ValueError: the text is not an amount; the message states it.
    """
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{text!r} is not an amount of dollars, 0 or more, such as 0.02")
    return amount


def min_types(text: str) -> tuple[int, int]:
    """Read how many types a claim keeps: launched on-demand and on spot, or one number for both.

    Raises:
        ValueError: the text is neither; the message states it.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(map(_COUNT.fullmatch, parts)):
        raise ValueError(f"{text!r} is not one or two whole numbers from 1 on, such as 5,15")
    return int(parts[0]), int(parts[-1])
