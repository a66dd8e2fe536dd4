"""A transport that goes wrong on purpose: refusals, lost answers, slow answers and broken watches.

Whether a fault happens is decided by dice: by chance in the order of requests, or by a keyed hash of the
fault, the request and how many like it came before, so that one fault can be taken out and the others
stay.
"""

import hashlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Final, Protocol

from karpenter.api.codec import encode
from karpenter.api.meta import Status
from karpenter.clock import Clock, running_clock
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import Request, Response, Stream, Transport

_SLOWEST: Final = 10.0
_QUICKEST: Final = 0.1
_BITS: Final = 64


@dataclass(frozen=True)
class Faults:
    """How often things go wrong, each as a probability for one request."""

    conflict: float = 0.0  # 409 for a write that was not carried out
    throttled: float = 0.0  # 429
    broken: float = 0.0  # 500 for a request that was not carried out
    lost: float = 0.0  # the request is carried out, the answer never arrives
    unreachable: float = 0.0  # the request is not carried out, and there is no answer
    slow: float = 0.0  # the answer takes up to ten seconds
    dropped: float = 0.0  # a watch ends after each line
    expired: float = 0.0  # a watch is answered with 410

    def any(self) -> bool:
        """Whether anything may go wrong."""
        return any(getattr(self, each.name) for each in fields(self))


class Dice(Protocol):
    """Decides what goes wrong."""

    def happens(self, fault: str, request: Request, probability: float) -> bool:
        """Whether a fault happens to a request."""

    def seconds(self, request: Request) -> float:
        """How long the answer to a request takes that is slow."""


class SequentialDice:
    """Decides by the next number of a sequence."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def happens(self, fault: str, request: Request, probability: float) -> bool:
        """Whether a fault happens to a request."""
        return probability > 0 and self._rng.random() < probability

    def seconds(self, request: Request) -> float:
        """How long a slow answer takes."""
        return self._rng.uniform(_QUICKEST, _SLOWEST)


@dataclass(frozen=True, slots=True, order=True)
class Mishap:
    """One fault of one request: the number-th of its method and path."""

    fault: str
    method: str
    path: str
    number: int


class KeyedDice:
    """Decides by a hash of what is asked, so that nothing else moves when one fault is taken out."""

    def __init__(self, seed: int, only: frozenset[Mishap] | None = None) -> None:
        """Draw for a seed; with ``only``, exactly these faults happen, whatever their probability."""
        self._seed = seed
        self._only = only
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self.happened: list[Mishap] = []

    def happens(self, fault: str, request: Request, probability: float) -> bool:
        """Whether a fault happens to a request."""
        if probability <= 0 and self._only is None:
            return False
        asked = (fault, request.method, request.path)
        mishap = Mishap(*asked, self._asked[asked])
        self._asked[asked] += 1
        only = self._only
        does = self._drawn(mishap) < probability if only is None else mishap in only
        if does:
            self.happened.append(mishap)
        return does

    def seconds(self, request: Request) -> float:
        """How long a slow answer takes."""
        number = self._asked["slow", request.method, request.path]
        drawn = self._drawn(Mishap("seconds", request.method, request.path, number))
        return _QUICKEST + drawn * (_SLOWEST - _QUICKEST)

    def _drawn(self, mishap: Mishap) -> float:
        named = "\n".join(
            (str(self._seed), mishap.fault, mishap.method, mishap.path, str(mishap.number))
        )
        digest = hashlib.sha256(named.encode()).digest()
        return float(int.from_bytes(digest[: _BITS // 8], "big")) / float(1 << _BITS)


class FaultyTransport:
    """Goes wrong as the dice decide; ``is_calm`` makes it behave."""

    def __init__(
        self,
        inner: Transport,
        faults: Faults,
        dice: Dice,
        *,
        is_calm: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self._inner = inner
        self.faults = faults
        self._dice = dice
        self._is_calm = is_calm
        self._clock = clock or running_clock()

    async def send(self, request: Request) -> Response:
        """Send a request, or do not; pass the answer on, or do not."""
        if self._is_calm():
            return await self._inner.send(request)
        if self._happens("slow", request):
            await self._clock.sleep(self._dice.seconds(request))
        if self._happens("unreachable", request):
            raise ConnectionLostError("the server cannot be reached")
        if request.is_write and self._happens("conflict", request):
            return _refused(409, "Conflict", "the object has been modified")
        if self._happens("throttled", request):
            return _refused(429, "TooManyRequests", "too many requests")
        if self._happens("broken", request):
            return _refused(500, "InternalError", "something broke")
        answer = await self._inner.send(request)
        if self._happens("lost", request):
            raise ConnectionLostError("the connection was closed")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a watch that may end at any line."""
        if not self._is_calm():
            if self._happens("unreachable", request):
                raise ConnectionLostError("the server cannot be reached")
            if self._happens("expired", request):
                refusal = _refused(410, "Expired", "too old resource version")
                yield Stream(410, _nothing(), refusal.body)
                return
        async with self._inner.stream(request) as stream:
            lines = self._cut(stream.lines, request)
            yield Stream(stream.status, lines, stream.body, stream.headers)

    async def close(self) -> None:
        """Close what is behind."""
        await self._inner.close()

    async def _cut(self, lines: AsyncIterator[bytes], request: Request) -> AsyncIterator[bytes]:
        async for line in lines:
            if not self._is_calm() and self._happens("dropped", request):
                raise ConnectionLostError("the connection was closed")
            yield line

    def _happens(self, fault: str, request: Request) -> bool:
        return self._dice.happens(fault, request, getattr(self.faults, fault))


def _refused(code: int, reason: str, message: str) -> Response:
    status = Status(status="Failure", code=code, reason=reason, message=message)
    return Response(code, encode(status))


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
