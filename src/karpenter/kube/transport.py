"""The transport of requests to an API server: bytes in, bytes out.

A transport handles connections and credentials only; objects, patches and errors are the client's.
There is one over HTTP, and the sandbox has one that reaches its store without a socket.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, independent of how it travels."""

    method: str
    path: str  # percent-encoded, such as /api/v1/nodes/a
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    seconds: float = 30.0  # how long the whole answer may take; a stream, its first byte
    # Called immediately before the body is sent; if false, nothing is sent
    may_go: Callable[[], bool] | None = None

    @property
    def is_write(self) -> bool:
        """Whether the request may change anything."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer; header names are in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on: its lines while the status is 200, else the whole body."""

    status: int
    lines: AsyncIterator[bytes]
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """A way to one API server.

    Both methods raise ``ConnectionLostError`` when there was no complete answer, whatever the
    cause; an error status is a complete answer.
    """

    async def send(self, request: Request) -> Response:
        """Send a request and wait for the whole answer."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Open a streaming answer, until it ends or the block is left."""

    async def close(self) -> None:
        """Close all connections."""
