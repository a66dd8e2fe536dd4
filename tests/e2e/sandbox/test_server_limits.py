"""Limits against misbehaving clients: slow ones, many at once, and malformed requests."""

import asyncio
import gzip
import json
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from helpers.server import Cluster, cluster
from karpenter_sandbox.server import http as server_module
from karpenter_sandbox.server.connections import most_connections
from karpenter_sandbox.server.http import Server, serving

MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE = 20  # for what happens at once; a test that needs it has failed
READY = b"GET /readyz HTTP/1.1\r\nHost: sandbox\r\n\r\n"
WATCH = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: sandbox\r\n\r\n".encode()
TOKEN = "open/sesame"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def world() -> Cluster:
    return cluster()


@asynccontextmanager
async def connected(server: Server, *said: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A connection over which something has been sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        for each in said:
            writer.write(each)
        await writer.drain()
        yield reader
    finally:
        writer.close()


async def answered(server: Server, *said: bytes) -> bytes:
    """What comes back until the server ends the connection."""
    async with connected(server, *said) as reader, asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionResetError:  # the server closed with unread input
            return b""


async def first_line(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await reader.readline()


class TestPatience:
    @pytest.mark.parametrize(
        "said", [b"", b"GET /readyz HT", READY[:-2]], ids=["nothing", "half a line", "half a head"]
    )
    async def test_a_head_that_does_not_come_ends_the_connection(
        self, world: Cluster, said: bytes
    ) -> None:
        async with serving(Server(world.api, head_seconds=0.05)) as server:
            assert b"" == await answered(server, said)

    async def test_who_has_said_something_is_not_hurried(self, world: Cluster) -> None:
        async with (
            serving(Server(world.api)) as server,
            connected(server, WATCH) as watching,
            connected(server, READY) as idle,
        ):
            heads = [await first_line(watching), await first_line(idle)]

            assert [b"HTTP/1.1 200 OK\r\n"] * 2 == heads
            assert server._connections is not None
            assert {} == server._connections._silent

    async def test_a_body_that_does_not_come_is_a_timeout(
        self, world: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_module, "_BODY_SECONDS", 0.05)
        head = f"POST {MAPS} HTTP/1.1\r\nHost: sandbox\r\nContent-Length: 100\r\n\r\n"

        async with (
            serving(Server(world.api)) as server,
            connected(server, head.encode(), b"{") as reader,
        ):
            assert b"HTTP/1.1 504 Gateway Timeout\r\n" == await first_line(reader)


class TestManyConnections:
    async def test_more_than_allowed_are_told_so(
        self, world: Cluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with (
            serving(Server(world.api, most_connections=2)) as server,
            connected(server, WATCH) as one,
        ):
            async with connected(server, WATCH) as two:
                assert [b"HTTP/1.1 200 OK\r\n"] * 2 == [
                    await first_line(one),
                    await first_line(two),
                ]

                refused = [await answered(server) for _ in range(50)]

            head, _, body = refused[0].partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
            assert b"\r\nRetry-After: 1\r\n" in head
            assert "TooManyRequests" == json.loads(body)["reason"]
            assert {refused[0]} == set(refused)
            assert ["there are 2 connections; further ones are refused"] == [
                record.getMessage() for record in caplog.records
            ]
            assert await is_let_in(server)

    async def test_a_crowd_at_the_door_does_no_harm(
        self, world: Cluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with serving(Server(world.api, most_connections=20)) as server:
            async with asyncio.timeout(3 * PATIENCE):
                connections = await asyncio.gather(
                    *(asyncio.open_connection("127.0.0.1", server.port) for _ in range(300))
                )
            lines = await asyncio.gather(*(asked(each) for each in connections))
            for _, writer in connections:
                writer.close()

            assert 20 == lines.count(b"HTTP/1.1 200 OK\r\n")
            assert 1 == len(caplog.records)
            assert await is_let_in(server)

    @pytest.mark.parametrize(
        ("files", "most"), [(20, 16), (256, 96), (1024, 864), (20_000, 1024), (-1, 1024)]
    )
    def test_there_are_files_left_for_other_things(
        self, monkeypatch: pytest.MonkeyPatch, files: int, most: int
    ) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (files, -1))

        assert most == most_connections()


class TestNonsense:
    """What is no request is answered with a 4xx, and leaves no trace in the log."""

    @pytest.mark.parametrize(
        "said",
        [
            pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="a greeting of TLS"),
            pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", id="a zero in a header"),
            pytest.param(b"GET / HTTP/9\r\n\r\n", id="an unknown version"),
            pytest.param(b"GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n", id="half an address"),
            pytest.param(
                b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", id="a long head"
            ),
            pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", id="a long path"),
            pytest.param(
                f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n".encode(),
                id="a chunk of no length",
            ),
            pytest.param(
                f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n".encode(),
                id="a negative length",
            ),
            pytest.param(
                f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
                "Content-Length: 4\r\n\r\nabcd".encode(),
                id="what is not gzip",
            ),
            pytest.param(
                f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
                f"Content-Length: {len(gzip.compress(b' ' * 50_000_000))}\r\n\r\n".encode()
                + gzip.compress(b" " * 50_000_000),
                id="much more than it looks",
            ),
        ],
    )
    async def test_is_refused(
        self, world: Cluster, caplog: pytest.LogCaptureFixture, said: bytes
    ) -> None:
        caplog.set_level(logging.WARNING)
        async with serving(Server(world.api)) as server, connected(server, said) as reader:
            line = await first_line(reader)
            assert await is_let_in(server)

        assert (b"HTTP/1.", b" 4") == (line[:7], line[8:10]), line
        assert [] == caplog.records

    @pytest.mark.parametrize("name", ["Authorization", "Proxy-Authorization"])
    @pytest.mark.parametrize(
        "value", ["Basic ä", "Bearer ä", "Basic \udcff", "Basic ====", "ä", ""]
    )
    async def test_in_place_of_a_token_opens_nothing(
        self, world: Cluster, caplog: pytest.LogCaptureFixture, name: str, value: str
    ) -> None:
        said = f"GET {MAPS} HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n\r\n"
        async with (
            serving(Server(world.api, token=TOKEN)) as server,
            connected(server, said.encode(errors="surrogateescape")) as reader,
        ):
            line = await first_line(reader)

        assert line.startswith((b"HTTP/1.1 401", b"HTTP/1.1 400")), line
        assert [] == caplog.records


async def asked(connection: Connection) -> bytes:
    reader, writer = connection
    try:
        writer.write(READY)
        await writer.drain()
        return await first_line(reader)
    except ConnectionError:
        return b""


async def is_let_in(server: Server) -> bool:
    """Whether a new client gets an answer, once the server has seen the others disconnect."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with connected(server, READY) as reader:
                if (await first_line(reader)).startswith(b"HTTP/1.1 200"):
                    return True
            await asyncio.sleep(0.005)
