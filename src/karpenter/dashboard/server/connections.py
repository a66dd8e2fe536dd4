"""Bounds what clients can take up: connections, the time to ask, and questions per second.

Each connection takes a file descriptor and memory, whether or not its client knows the token.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from karpenter.clock import Clock

MOST_CONNECTIONS: Final = 256
_HEAD_SECONDS: Final = 15.0
_IDLE_SECONDS: Final = 60.0
_LARGEST_HEAD: Final = 16 * 1024
_REFUSED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\n"
    b"Connection: close\r\n\r\n"
)
_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """All connections to one server."""

    def __init__(self, handler: _Handler, *, most: int = MOST_CONNECTIONS) -> None:
        """Let in at most so many connections."""
        super().__init__(
            handler,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            max_line_size=_LARGEST_HEAD,
            max_field_size=_LARGEST_HEAD,
            logger=_silent_log(),
        )
        self._most = most
        self._inside: set[RequestHandler] = set()
        # Connections without a first request so far
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def admit(self) -> asyncio.Protocol:
        """The protocol of a new connection, one that refuses where there are too many."""
        if len(self._inside) >= self._most:
            return _Refusal()
        handler = self()
        self._inside.add(handler)
        return handler

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request of a client."""
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(_HEAD_SECONDS, handler.force_close)

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


class _Refusal(asyncio.Protocol):
    """Answers that there are too many connections, and closes this one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(_REFUSED)
        transport.close()


class Rate:
    """Lets a number of questions through each second, and a few more at once."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        """Begin with room for ``burst`` questions."""
        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._left = self._burst
        self._at = clock.monotonic()

    def is_exceeded(self) -> bool:
        """Count a question; return whether it is one too many."""
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return True
        self._left -= 1
        return False


def _silent_log() -> logging.Logger:
    """Malformed requests are answered; what fails in a route is logged where it is caught."""
    logger = logging.getLogger(f"{__name__}.http")
    logger.disabled = True
    return logger
