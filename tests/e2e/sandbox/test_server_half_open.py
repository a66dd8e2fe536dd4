"""Watches with a half-open or stalled connection cost the server no lasting memory or tasks."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable

import pytest

from helpers.server import Cluster, cluster, config_map
from karpenter_sandbox.server.http import Server, serving

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def world() -> Cluster:
    return cluster()


@pytest.fixture
async def server(world: Cluster) -> AsyncIterator[Server]:
    async with serving(Server(world.api)) as running:
        yield running


async def watching(server: Server) -> socket.socket:
    """A connection that has asked for a watch, and will not read what comes."""
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await loop.sock_connect(connection, ("127.0.0.1", server.port))
    head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: sandbox\r\n\r\n"
    await loop.sock_sendall(connection, head.encode())
    return connection


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 nobody tells when a connection is noticed as lost
            await asyncio.sleep(0.005)


async def test_a_client_that_will_send_no_more_is_let_go(server: Server) -> None:
    connection = await watching(server)
    await until(lambda: len(server._streams) == 1)

    connection.shutdown(socket.SHUT_WR)

    await until(lambda: not server._streams)
    connection.close()


async def test_a_client_that_does_not_read_holds_up_nobody_and_fills_no_memory(
    server: Server, world: Cluster
) -> None:
    connection = await watching(server)
    await until(lambda: len(server._streams) == 1)
    big = "x" * 100_000
    world.create(config_map("a"))
    for number in range(200):
        world.call("PUT", f"{MAPS}/a", config_map("a", big=big, step=str(number)))
        if number % 20 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0)

    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 200")
    (stream,) = server._streams
    assert not stream.done()
    # Twenty megabytes have changed; the send buffer holds one batch of them at most
    assert _unsent(server) < 8_000_000
    connection.close()


async def test_a_connection_that_breaks_without_a_word_leaves_nothing_behind(
    server: Server, world: Cluster
) -> None:
    connection = await watching(server)
    await until(lambda: len(server._streams) == 1)

    # With SO_LINGER at zero, close sends RST instead of FIN
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()

    await until(lambda: not server._streams)
    assert not world.store.collection("", "configmaps")._waiting


def _unsent(server: Server) -> int:
    runner = server._runner
    assert runner is not None
    assert runner.server is not None
    transports = [connection.transport for connection in runner.server.connections]
    return sum(
        transport.get_write_buffer_size() for transport in transports if transport is not None
    )
