"""Serves a dashboard: the port, the token, the address that is printed, and the end."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from karpenter.clock import Clock
from karpenter.dashboard.assets import Assets
from karpenter.dashboard.attendance import Attendance
from karpenter.dashboard.feed import Feed
from karpenter.dashboard.gate import Gate, new_token
from karpenter.dashboard.questions import Questions
from karpenter.dashboard.server.connections import Connections
from karpenter.dashboard.server.routes import Moments, Routes
from karpenter.os_errors import os_reason

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8765
_LAST_PORT: Final = 65535
_NEXT_PORTS: Final = 50  # that are tried where the first is taken
_BACKLOG: Final = 128
_STOP_SECONDS: Final = 1.0


class ServingError(Exception):
    """The dashboard cannot be served; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dashboard is served, and to whom."""

    host: str = LOOPBACK
    port: int = 0  # 0: any free one
    takes_next: bool = False  # the next free port where this one is taken
    option: str = "--port"  # which chooses the port
    token: str = ""  # empty: a new one
    hosts: Collection[str] = ()  # names under which it is reached, besides those of loopback
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a dashboard is reached."""

    host: str
    port: int
    token: str
    has_tls: bool = False

    @property
    def page(self) -> str:
        """The page, without the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}/"

    @property
    def url(self) -> str:
        """What is opened in a browser. The token is in the fragment, which browsers do not send."""
        return f"{self.page}#token={self.token}"


@asynccontextmanager
async def serving(
    feed: Feed,
    questions: Questions,
    assets: Assets,
    place: Place,
    clock: Clock,
    *,
    history: Moments | None = None,
    attendance: Attendance | None = None,
) -> AsyncIterator[Address]:
    """Serve for as long as the block runs.

    Raises:
        ServingError: the port cannot be listened on.
    """
    token = place.token or new_token()
    gate = Gate(
        token,
        clock,
        hosts=place.hosts,
        has_tls=place.tls is not None,
        is_guessable=bool(place.token),
    )
    routes = Routes(feed, questions, gate, assets, clock, history=history, attendance=attendance)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connections.heard_of(request.protocol)
        return await routes.handle(request)

    connections = Connections(handle)
    runner = web.ServerRunner(connections, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    views = asyncio.create_task(feed.run(), name="dashboard")
    try:
        listening = await _listen(connections, place)
        try:
            port = listening.sockets[0].getsockname()[1]
            yield Address(place.host, port, token, place.tls is not None)
        finally:
            listening.close()
    finally:
        views.cancel()
        await asyncio.gather(views, return_exceptions=True)
        await runner.cleanup()


async def _listen(connections: Connections, place: Place) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    last = place.port
    if place.takes_next and place.port:
        last = min(place.port + _NEXT_PORTS, _LAST_PORT)
    for port in range(place.port, last + 1):
        try:
            return await loop.create_server(
                connections.admit, place.host, port, backlog=_BACKLOG, ssl=place.tls
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port < last:
                continue
            raise ServingError(_why_not(place, error)) from error
    raise AssertionError("one port is tried at least")


def _why_not(place: Place, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {place.port} is taken; choose another with {place.option}"
    reason = os_reason(error)
    if error.errno != errno.EACCES:  # the port is not to blame
        return f"the dashboard cannot listen on {place.host}: {reason}; choose another address"
    return (
        f"the dashboard cannot listen on port {place.port} of {place.host}: {reason};"
        f" choose another with {place.option}"
    )
