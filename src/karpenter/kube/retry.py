"""Retries: how long to wait after a failure, or that a retry would not help.

A request answered with 429 was not carried out, so any request is retried; after a lost connection
or a server error it may have been, so only reads are retried. A writer must read first and decide
again.
"""

import random
from typing import Final

from karpenter.kube.errors import (
    ConnectionLostError,
    KubeError,
    ServerError,
    TooManyRequestsError,
)
from karpenter.kube.transport import Request

RETRIES: Final = 4
_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 5.0
# Beyond this Retry-After, the caller's own back-off applies
_LONGEST_OBEYED: Final = 60.0
# A disruption budget answers 429 as well; retrying is up to the drain
_EVICTION: Final = "/eviction"


def delay_before_retry(attempt: int, error: KubeError, request: Request) -> float | None:
    """Seconds to wait before sending ``request`` once more, or None to raise the error.

    ``attempt`` is how many times it has been sent again already.
    """
    if attempt >= RETRIES:
        return None
    usual = min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY)
    if isinstance(error, TooManyRequestsError):
        return _after_refusal(error, request)
    if request.is_write:
        return None
    if isinstance(error, ServerError):
        retry_after = error.retry_after
        return usual if retry_after is None else _obeyed(retry_after)
    return usual if isinstance(error, ConnectionLostError) else None


def _after_refusal(error: TooManyRequestsError, request: Request) -> float | None:
    if error.retry_after is None or request.path.endswith(_EVICTION):
        return None
    return _obeyed(error.retry_after)


def _obeyed(seconds: float) -> float | None:
    return seconds if seconds <= _LONGEST_OBEYED else None


class Backoff:
    """Exponential back-off with jitter, from ``first`` to ``longest``."""

    def __init__(self, rng: random.Random, *, first: float = 0.8, longest: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._next = first

    def next(self) -> float:
        """The delay after one more failure."""
        delay = self._next
        self._next = min(delay * 2.0, self._longest)
        return delay * self._rng.uniform(0.75, 1.25)

    def reset(self) -> None:
        """Start again from ``first``, after a success."""
        self._next = self._first
