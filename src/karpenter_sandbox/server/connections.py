"""Limits the number of connections, and the time of a client to send its first request.

Each connection takes a file descriptor, of which a process has a limited number. When they are used
up, nothing else works and the event loop logs every failed accept; so there is a lower limit, and a
connection beyond it is answered with an error and closed. A client that has connected must send the
head of its first request soon, and may not be idle for ever, with the times of an API server.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from karpenter_sandbox.status import ApiError

log = logging.getLogger(__name__)

HEAD_SECONDS: Final = 32.0
_IDLE_SECONDS: Final = 90.0
# Enough for a thousand watches, and some requests
_MOST: Final = 1024
_FEWEST: Final = 16
# File descriptors for anything else, and for connections that are being refused
_RESERVED_FILES: Final = 160
# Clients that start many watches connect all at once. Few connections are accepted in one turn of
# the event loop: each refused one holds a file descriptor for some turns until it is closed
_BACKLOG: Final = 1024
_LET_IN_AT_ONCE: Final = 16

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def most_connections() -> int:
    """How many connections this process can serve."""
    if os.name != "posix":
        return _MOST
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return min(_MOST, max(_FEWEST, files - _RESERVED_FILES))


class Connections(web.Server):
    """All connections to one server."""

    def __init__(
        self, handler: _Handler, *, most: int | None = None, head_seconds: float = HEAD_SECONDS
    ) -> None:
        super().__init__(
            handler,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            logger=_http_log(),
        )
        self._most = most or most_connections()
        self._head_seconds = head_seconds
        self._is_full = False
        # Counted when accepted, not in connection_made, which is called some turns later
        self._inside: set[RequestHandler] = set()
        # Connections without a first request so far
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(self._let_in, host, port, backlog=_LET_IN_AT_ONCE)
        for each in listening.sockets:
            # asyncio accepts as many in one turn as its backlog; the kernel may queue more
            with socket.fromfd(each.fileno(), each.family, each.type) as same:
                same.listen(_BACKLOG)
        return listening

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request of a client."""
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(self._head_seconds, handler.force_close)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a client that is gone."""
        self.heard_of(handler)
        self._inside.discard(handler)
        super().connection_lost(handler, exc)

    def heard_of(self, handler: RequestHandler) -> None:
        """Note that the head of a client's first request has arrived."""
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _let_in(self) -> asyncio.Protocol:
        if len(self._inside) < self._most:
            self._is_full = False
            handler = self()
            self._inside.add(handler)
            return handler
        if not self._is_full:  # logged once until there is room again
            self._is_full = True
            log.warning("there are %d connections; further ones are refused", self._most)
        return _Refusal()


class _Refusal(asyncio.Protocol):
    """Answers that there are too many connections, and closes this one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        message = "Too many connections, please try again later."
        body = ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": 1}).encoded()
        head = (
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
        )
        transport.write(head.encode() + body)
        transport.close()


class _OfTheServer(logging.Filter):
    """Drops log records about malformed requests; errors of the server itself pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


def _http_log() -> logging.Logger:
    logger = logging.getLogger(f"{__name__}.http")
    if not logger.filters:
        logger.addFilter(_OfTheServer())
    return logger
