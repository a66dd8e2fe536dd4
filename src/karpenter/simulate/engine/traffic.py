"""The controllers' way to the API: requests may take time, and their writes are seen."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from karpenter.clock import Clock
from karpenter.kube.transport import Request, Response, Stream, Transport

_FIRST_REFUSAL = 300


class PassingTransport:
    """Passes everything on as it is; what others change of that they override."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        """Pass a request on."""
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Pass a watch on."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close what is behind."""
        await self._inner.close()


class SeenTransport(PassingTransport):
    """Tells of writes that were carried out."""

    def __init__(self, inner: Transport, wrote: Callable[[Request], None]) -> None:
        super().__init__(inner)
        self._wrote = wrote

    async def send(self, request: Request) -> Response:
        """Pass a request on."""
        answer = await super().send(request)
        if request.is_write and answer.status < _FIRST_REFUSAL:
            self._wrote(request)
        return answer


class SlowTransport(PassingTransport):
    """Answers late."""

    def __init__(self, inner: Transport, clock: Clock, seconds: float) -> None:
        super().__init__(inner)
        self._clock = clock
        self._seconds = seconds

    async def send(self, request: Request) -> Response:
        """Pass a request on, half of the time before it arrives and half after."""
        await self._clock.sleep(self._seconds / 2)
        answer = await super().send(request)
        await self._clock.sleep(self._seconds / 2)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Pass a watch on."""
        await self._clock.sleep(self._seconds)
        async with super().stream(request) as stream:
            yield stream
