"""The two servers of a controller, asked over loopback."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest

from karpenter.controllers.health import liveness
from karpenter.operator.serving import Endpoints, Ports, ServingError, serving

HERE = "127.0.0.1"


async def fine() -> str:
    return ""


async def broken() -> str:
    return "it hurts"


def pieces() -> Iterable[bytes]:
    yield b"a 1\n"
    yield b"b 2\n"


def endpoints(*, metrics_port: int = 0, with_profiling: bool = False) -> Endpoints:
    return Endpoints(
        pieces,
        liveness(),
        {"manager": fine, "crd": broken},
        metrics_port=metrics_port,
        health_port=0,
        with_profiling=with_profiling,
        host=HERE,
    )


class Asked:
    """A client of both servers."""

    def __init__(self, session: aiohttp.ClientSession, ports: Ports) -> None:
        self._session = session
        self._ports = ports

    async def health(self, path: str) -> tuple[int, str]:
        return await self._get(self._ports.health, path)

    async def metrics(self, path: str) -> tuple[int, str]:
        return await self._get(self._ports.metrics, path)

    async def _get(self, port: int, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://{HERE}:{port}{path}") as response:
            return response.status, await response.text()


@asynccontextmanager
async def asked(*, with_profiling: bool = False) -> AsyncIterator[Asked]:
    async with (
        serving(endpoints(with_profiling=with_profiling)) as ports,
        aiohttp.ClientSession() as session,
    ):
        yield Asked(session, ports)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/healthz/", 200, "ok"),
        ("/healthz/healthz", 200, "ok"),
        ("/healthz?verbose", 200, "[+]healthz ok\nhealthz check passed\n"),
        ("/readyz", 500, "[+]manager ok\n[-]crd failed: it hurts\nreadyz check failed\n"),
        ("/readyz?exclude=crd", 200, "ok"),
        ("/readyz/manager", 200, "ok"),
        ("/readyz/crd", 500, "internal server error: it hurts\n"),
        ("/readyz/nobody", 404, "there is no check called nobody\n"),
        ("/metrics", 404, "404: Not Found"),
    ],
)
async def test_health(path: str, status: int, text: str) -> None:
    async with asked() as client:
        assert (status, text) == await client.health(path)


async def test_metrics_are_plain_text() -> None:
    async with (
        serving(endpoints()) as ports,
        aiohttp.ClientSession() as session,
        session.get(f"http://{HERE}:{ports.metrics}/metrics") as response,
    ):
        assert "text/plain; version=0.0.4; charset=utf-8" == response.headers["Content-Type"]
        assert "a 1\nb 2\n" == await response.text()


@pytest.mark.parametrize("path", ["/debug/pprof", "/debug/pprof/heap", "/healthz"])
async def test_without_profiling_there_are_only_metrics(path: str) -> None:
    async with asked() as client:
        assert 404 == (await client.metrics(path))[0]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/debug/pprof", 200, "/debug/pprof/profile"),
        ("/debug/pprof/", 200, "where every task stands"),
        ("/debug/pprof/cmdline", 200, sys.argv[0]),
        ("/debug/pprof/profile?seconds=0.01", 200, "function calls"),
        ("/debug/pprof/profile?seconds=never", 400, "seconds is a number from 0 to 300"),
        ("/debug/pprof/goroutine", 200, "tasks\n"),
        ("/debug/pprof/threadcreate", 200, "MainThread"),
        ("/debug/pprof/block", 501, "Python keeps no such record"),
        ("/debug/pprof/trace", 501, "Python keeps no such record"),
    ],
)
async def test_profiling(path: str, status: int, words: str) -> None:
    async with asked(with_profiling=True) as client:
        found, text = await client.metrics(path)

    assert status == found
    assert words in text


async def test_only_one_profile_at_a_time() -> None:
    async with asked(with_profiling=True) as client:
        path = "/debug/pprof/profile?seconds=0.2"
        answers = await asyncio.gather(client.metrics(path), client.metrics(path))

    assert [200, 409] == sorted(status for status, _ in answers)


async def test_memory_is_counted_from_the_first_question_on() -> None:
    import tracemalloc

    try:
        async with asked(with_profiling=True) as client:
            _, first = await client.metrics("/debug/pprof/heap")
            status, second = await client.metrics("/debug/pprof/allocs")
    finally:
        tracemalloc.stop()

    assert "memory is counted from now on; ask again for what was taken\n" == first
    assert (200, True) == (status, " MiB in " in second)


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as other:
        other.bind((HERE, 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(ServingError) as refused:
            async with serving(endpoints(metrics_port=port)):
                pass

    assert f"port {port} is taken; choose another with METRICS_PORT" == str(refused.value)


@pytest.mark.parametrize("port", [-1, 65_536, 70_000])
@pytest.mark.parametrize("host", [HERE, None], ids=["one interface", "every interface"])
async def test_a_port_that_is_none_is_one_sentence(host: str | None, port: int) -> None:
    with pytest.raises(ServingError) as refused:
        async with serving(replace(endpoints(metrics_port=port), host=host)):
            pass

    assert f"METRICS_PORT: {port} is not a port; choose one from 0 to 65535" == str(refused.value)
