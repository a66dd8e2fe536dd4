"""What an answer means, and when a message is tried again; pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final

GIVEN_UP_AFTER: Final = 900.0  # seconds since the message was made
TRY_SECONDS: Final = 10.0  # how long one try may take
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 300.0
_MOST_DOUBLINGS: Final = 10
_JITTER: Final = 0.5
_PASSING: Final = frozenset({408, 425, 429})  # transient ones of 4xx, which are retried


class Verdict(Enum):
    """What becomes of a message."""

    SENT = "sent"
    AGAIN = "again"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sink answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


def verdict_of(status: int) -> Verdict:
    """What a status means; a redirection is final, since none is followed."""
    if 200 <= status < 300:
        return Verdict.SENT
    if status in _PASSING or status >= 500:
        return Verdict.AGAIN
    return Verdict.FINAL


def delay_after(tries: int, rng: random.Random) -> float:
    """Seconds to wait after so many failed tries: from a second to five minutes, with jitter."""
    base = _FIRST_DELAY * 2.0 ** min(tries - 1, _MOST_DOUBLINGS)
    return min(_LONGEST_DELAY, base * rng.uniform(1.0, 1.0 + _JITTER))


def asked_delay(headers: Mapping[str, str], now: datetime) -> float:
    """The seconds that ``Retry-After`` asks for, as a number or as a date; 0 without it."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
