"""The two HTTP servers of a controller: metrics for Prometheus, health for the kubelet."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from karpenter.controllers.health import Checks, answer
from karpenter.operator import profiling
from karpenter.os_errors import os_reason

_PORTS: Final = range(65536)
_TEXT: Final = "text/plain"
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
EVERYWHERE: Final = None  # every interface, over IPv4 and IPv6


class ServingError(Exception):
    """A port cannot be listened on; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What is served, and where."""

    pieces: Callable[[], Iterable[bytes]]  # of the exposition
    liveness: Checks
    readiness: Checks
    metrics_port: int = 8080
    health_port: int = 8081
    with_profiling: bool = False
    host: str | None = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the servers really listen."""

    metrics: int
    health: int


@asynccontextmanager
async def serving(endpoints: Endpoints) -> AsyncIterator[Ports]:
    """Serve for as long as the block runs.

    Raises:
        ServingError: a port cannot be bound.
    """
    async with AsyncExitStack() as stack:
        metrics = await listen(
            stack, metrics_app(endpoints), endpoints.host, endpoints.metrics_port, "METRICS_PORT"
        )
        health = await listen(
            stack, health_app(endpoints), endpoints.host, endpoints.health_port, "HEALTH_PROBE_PORT"
        )
        yield Ports(metrics, health)


def metrics_app(endpoints: Endpoints) -> web.Application:
    """What the metrics port answers."""

    async def metrics(_: web.Request) -> web.Response:
        body = bytearray()
        for piece in endpoints.pieces():
            body += piece
            await asyncio.sleep(0)  # yields: a large cluster's scrape takes long
        return web.Response(body=bytes(body), headers={"Content-Type": _METRICS_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    if endpoints.with_profiling:
        app.router.add_routes(profiling.routes())
    return app


def health_app(endpoints: Endpoints) -> web.Application:
    """What the health port answers."""
    app = web.Application()
    for name, checks in (("healthz", endpoints.liveness), ("readyz", endpoints.readiness)):
        handler = _prober(name, checks)
        app.router.add_get(f"/{name}", handler)
        app.router.add_get(f"/{name}/{{check:.*}}", handler)
    return app


def _prober(name: str, checks: Checks) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def probe(request: web.Request) -> web.StreamResponse:
        given = await answer(
            name,
            checks,
            only=request.match_info.get("check", ""),
            excluded=[each for each in request.query.getall("exclude", []) if each],
            is_verbose="verbose" in request.query,
        )
        return web.Response(
            status=given.status,
            text=given.text,
            content_type=_TEXT,
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return probe


async def listen(
    stack: AsyncExitStack,
    app: web.Application,
    host: str | None,
    port: int,
    variable: str,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Serve an application until the stack is unwound, and return the port it listens on.

    Raises:
        ServingError: the port cannot be bound; ``variable`` is the setting that chooses it.
    """
    if port not in _PORTS:  # a larger value would be truncated silently
        raise ServingError(f"{variable}: {port} is not a port; choose one from 0 to {_PORTS[-1]}")
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        raise ServingError(_why_not(port, variable, error)) from error
    return int(runner.addresses[0][1])


def _why_not(port: int, variable: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken; choose another with {variable}"
    reason = os_reason(error)
    return f"cannot listen on port {port}: {reason}; choose another with {variable}"
