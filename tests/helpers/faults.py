"""Transports that go wrong on purpose: a crash at one write, faults by chance, a list of writes."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from karpenter.api.codec import encode
from karpenter.api.meta import Status
from karpenter.clock import Clock, running_clock
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import Request, Response, Stream, Transport


class Crash(BaseException):
    """The simulated death of a process; a BaseException, so that no handler catches it."""


@dataclass
class CrashPoint:
    """The write at which a process dies, and what has been written so far."""

    at: int  # 0-based number of the write, -1 for never
    is_before: bool = True  # else the write is carried out, and its answer is lost
    writes: list[str] = field(default_factory=list)
    happened: asyncio.Event = field(default_factory=asyncio.Event)


class CrashingTransport:
    """Ends a process at its n-th write; from then on no request of it is sent or answered."""

    def __init__(self, inner: Transport, point: CrashPoint) -> None:
        self._inner = inner
        self._point = point
        self._is_dead = False

    async def send(self, request: Request) -> Response:
        point = self._point
        if self._is_dead:
            await _for_ever()
        # Events do not count as writes: they carry no state that a restart depends on
        if not request.is_write or request.path.endswith("/events"):
            return await self._inner.send(request)
        number = len(point.writes)
        point.writes.append(f"{request.method} {request.path}")
        if number != point.at:
            return await self._inner.send(request)
        if not point.is_before:
            await self._inner.send(request)
        self._is_dead = True
        point.happened.set()
        return await _for_ever()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if self._is_dead:
            await _for_ever()
        async with self._inner.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()


class Mortal(Protocol):
    """A process that can be killed and started anew."""

    async def kill(self) -> None: ...
    def start(self) -> None: ...


def first_dies_at(point: CrashPoint) -> Callable[[Transport], Transport]:
    """What to wrap transports with, for a first process that dies and others that do not."""
    is_first = True

    def wrap(transport: Transport) -> Transport:
        nonlocal is_first
        crashes, is_first = is_first, False
        return CrashingTransport(transport, point) if crashes else transport

    return wrap


@asynccontextmanager
async def replaced_at(point: CrashPoint, process: Mortal) -> AsyncIterator[None]:
    """Start another process once the first one has died."""

    async def replace() -> None:
        await point.happened.wait()
        await process.kill()
        process.start()

    watcher = asyncio.create_task(replace())
    try:
        yield
    finally:
        watcher.cancel()


async def _for_ever() -> Response:
    await asyncio.Event().wait()
    raise AssertionError


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
        return any(getattr(self, name) for name in self.__dataclass_fields__)


class FaultyTransport:
    """Goes wrong by chance, the same way for the same seed; ``is_calm`` makes it behave."""

    def __init__(
        self,
        inner: Transport,
        faults: Faults,
        rng: random.Random,
        *,
        is_calm: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._rng = rng
        self._is_calm = is_calm
        self._clock = clock or running_clock()

    async def send(self, request: Request) -> Response:
        if self._is_calm():
            return await self._inner.send(request)
        if self._happens(self._faults.slow):
            await self._clock.sleep(self._rng.uniform(0.1, 10.0))
        if self._happens(self._faults.unreachable):
            raise ConnectionLostError("the server cannot be reached")
        if request.is_write and self._happens(self._faults.conflict):
            return _refused(409, "Conflict", "the object has been modified")
        if self._happens(self._faults.throttled):
            return _refused(429, "TooManyRequests", "too many requests")
        if self._happens(self._faults.broken):
            return _refused(500, "InternalError", "something broke")
        answer = await self._inner.send(request)
        if self._happens(self._faults.lost):
            raise ConnectionLostError("the connection was closed")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if not self._is_calm():
            if self._happens(self._faults.unreachable):
                raise ConnectionLostError("the server cannot be reached")
            if self._happens(self._faults.expired):
                refusal = _refused(410, "Expired", "too old resource version")
                yield Stream(410, _nothing(), refusal.body)
                return
        async with self._inner.stream(request) as stream:
            yield Stream(stream.status, self._cut(stream.lines), stream.body, stream.headers)

    async def close(self) -> None:
        await self._inner.close()

    async def _cut(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            if not self._is_calm() and self._happens(self._faults.dropped):
                raise ConnectionLostError("the connection was closed")
            yield line

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability


def _refused(code: int, reason: str, message: str) -> Response:
    status = Status(status="Failure", code=code, reason=reason, message=message)
    return Response(code, encode(status))


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
