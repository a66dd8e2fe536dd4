"""Processes that die at one of their writes, and others that take their place."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

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
