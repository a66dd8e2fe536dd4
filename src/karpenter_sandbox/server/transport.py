"""An in-memory transport to the sandbox's API, for controllers in the same process.

Requests take the same path as those over HTTP, bytes and all: a client cannot tell the difference,
except that it works in virtual time.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from karpenter.kube.transport import Request, Response, Stream
from karpenter_sandbox.server.api import Api, WatchResponse
from karpenter_sandbox.server.messages import Request as ApiRequest


class MemoryTransport:
    """Carries requests to an ``Api`` of the same process."""

    def __init__(self, api: Api, *, user: str = "karpenter") -> None:
        self._api = api
        self._user = user

    async def send(self, request: Request) -> Response:
        """Ask, and have the answer at once."""
        answer = self._api.handle(self._translated(request))
        if isinstance(answer, WatchResponse):
            raise TypeError(f"{request.path} is a watch; follow it as a stream")
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Response(answer.status, answer.body, headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Follow an answer that goes on."""
        answer = self._api.handle(self._translated(request))
        headers = {name.lower(): value for name, value in answer.headers.items()}
        if not isinstance(answer, WatchResponse):
            yield Stream(answer.status, _nothing(), answer.body, headers)
            return
        async with aclosing(answer.stream.frames()) as frames:
            yield Stream(answer.status, _lines(frames), headers=headers)

    async def close(self) -> None:
        """There is nothing to give up."""

    def _translated(self, request: Request) -> ApiRequest:
        query: dict[str, list[str]] = {}
        for name, value in request.query:
            query.setdefault(name, []).append(value)
        headers = {"accept": "application/json", "user-agent": self._user}
        if request.body:
            headers["content-type"] = request.content_type
        return ApiRequest(request.method, request.path, query, headers, request.body, self._user)


async def _lines(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for frame in frames:
        for line in frame.splitlines():
            yield line


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
