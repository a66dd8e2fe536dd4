"""A client that only reads: it has no verb that writes, and no write gets as far as the server."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.clock import SystemClock
from karpenter.kube.client import Client, Kube
from karpenter.kube.read_only import ReadOnlyClient, ReadOnlyError, ReadOnlyTransport
from karpenter.kube.transport import Request, Response, Stream

READS = {"get", "list", "page", "watch", "version"}
WRITES: dict[str, Callable[[Kube], Awaitable[object]]] = {
    "create": lambda kube: kube.create(Node, {"metadata": {"name": "a"}}),
    "patch": lambda kube: kube.patch(Node, "a", {"spec": {"unschedulable": True}}),
    "delete": lambda kube: kube.delete(Node, "a"),
    "evict": lambda kube: kube.evict("a", "default", uid="1"),
    "bind": lambda kube: kube.bind("a", "default", uid="1", node="b"),
}


class Server:
    """Answers every request, and remembers it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.is_closed = False

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(200, b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}')

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.requests.append(request)

        async def nothing() -> AsyncIterator[bytes]:
            return
            yield b""

        yield Stream(200, nothing())

    async def close(self) -> None:
        self.is_closed = True


def test_every_verb_of_a_client_is_known_here_as_a_read_or_as_a_write() -> None:
    verbs = {name for name, _ in inspect.getmembers(Kube, inspect.isfunction) if name[0] != "_"}

    assert READS | set(WRITES) == verbs


def test_a_read_only_client_has_the_reads_and_nothing_else() -> None:
    public = {name for name in dir(ReadOnlyClient) if not name.startswith("_")}

    assert public == READS


@pytest.mark.parametrize("verb", sorted(READS))
def test_a_read_takes_the_arguments_that_it_takes_of_any_client(verb: str) -> None:
    expected = inspect.signature(getattr(Client, verb)).parameters

    assert list(expected) == list(inspect.signature(getattr(ReadOnlyClient, verb)).parameters)


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_is_refused_before_it_is_sent(verb: str) -> None:
    server = Server()

    with pytest.raises(ReadOnlyError, match="is not sent: this client only reads"):
        await WRITES[verb](Client(ReadOnlyTransport(server), SystemClock()))

    assert server.requests == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"])
async def test_every_method_but_get_is_refused_before_it_is_sent(method: str) -> None:
    server = Server()
    transport = ReadOnlyTransport(server)

    with pytest.raises(ReadOnlyError):
        await transport.send(Request(method, "/api/v1/pods"))
    with pytest.raises(ReadOnlyError):
        async with transport.stream(Request(method, "/api/v1/pods")):
            pass

    assert server.requests == []


async def test_reads_reach_the_server() -> None:
    server = Server()
    kube = ReadOnlyClient(server, SystemClock())

    page = await kube.page(Pod, "web", label_selector="a=b", limit=5)
    listed = await kube.list(Pod)
    async with kube.watch(Pod, resource_version="7", seconds=5.0) as events:
        seen = [event async for event in events]

    assert page.metadata.resource_version == "7"
    assert (listed, seen) == ((), [])
    assert [request.path for request in server.requests] == [
        "/api/v1/namespaces/web/pods",
        "/api/v1/pods",
        "/api/v1/pods",
    ]
    assert {request.method for request in server.requests} == {"GET"}


async def test_the_transport_is_closed_with_its_own_transport() -> None:
    server = Server()

    await ReadOnlyTransport(server).close()

    assert server.is_closed
