"""A server whose answers are rewritten on the way, for what the sandbox would not say by itself."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from karpenter.kube.transport import Request, Response, Stream, Transport


class Rewriting:
    """Passes everything on, but for some texts in what the server says."""

    def __init__(self, inner: Transport, texts: Mapping[str, str]) -> None:
        self._inner = inner
        self._texts = [(old.encode(), new.encode()) for old, new in texts.items()]

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        return replace(answer, body=self._rewritten(answer.body))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            yield replace(stream, lines=self._lines(stream.lines))

    async def close(self) -> None:
        await self._inner.close()

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            yield self._rewritten(line)

    def _rewritten(self, data: bytes) -> bytes:
        for old, new in self._texts:
            data = data.replace(old, new)
        return data
