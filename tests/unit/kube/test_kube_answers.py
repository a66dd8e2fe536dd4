"""Whatever answers in place of an API server, what it says is one sentence and no surprise."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Status
from karpenter.clock import running_clock
from karpenter.kube.client import Client
from karpenter.kube.errors import UnreadableAnswerError, from_status
from karpenter.kube.transport import Request, Response, Stream

PATH = "/apis/karpenter.sh/v1/nodepools"
PAGE = b"<html>welcome</html>"
OBJECT = b'{"metadata": {"name": "a"}, "spec": {"weight": "heavy"}}'
LIST = b'{"items": [' + OBJECT + b"]}"
EVENT = b'{"type": "ADDED", "object": ' + OBJECT + b"}"


class Answering:
    """A server that says the same to everybody."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    async def send(self, request: Request) -> Response:
        return Response(200, self._said, {})

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async def lines() -> AsyncIterator[bytes]:
            yield self._said

        yield Stream(200, lines())

    async def close(self) -> None:
        return


async def watch(client: Client) -> None:
    async with client.watch(NodePool, resource_version="1", seconds=1) as events:
        await anext(events)


@pytest.mark.parametrize(
    ("ask", "said", "expected"),
    [
        pytest.param(
            lambda client: client.get(NodePool, "a"),
            PAGE,
            f"GET {PATH}/a cannot be read: the data is not JSON: invalid character (byte 0);"
            " is it an API server?",
            id="a page in place of an object",
        ),
        pytest.param(
            lambda client: client.page(NodePool),
            PAGE,
            f"GET {PATH} cannot be read: the data is not JSON: invalid character (byte 0);"
            " is it an API server?",
            id="a page in place of a list",
        ),
        pytest.param(
            watch,
            PAGE,
            f"GET {PATH} cannot be read: the data is not JSON: invalid character (byte 0);"
            " is it an API server?",
            id="a page in place of a watch",
        ),
        pytest.param(
            lambda client: client.create(NodePool, {"metadata": {"name": "a"}}),
            OBJECT,
            f"POST {PATH} cannot be read: spec.weight: expected a whole number, got a string",
            id="an odd object after a creation",
        ),
        pytest.param(
            lambda client: client.patch(NodePool, "a", {}),
            OBJECT,
            f"PATCH {PATH}/a cannot be read: spec.weight: expected a whole number, got a string",
            id="an odd object after a change",
        ),
        pytest.param(
            lambda client: client.page(NodePool),
            LIST,
            f"GET {PATH} cannot be read: items[0].spec.weight: expected a whole number,"
            " got a string",
            id="an odd object in a list",
        ),
        pytest.param(
            watch,
            EVENT,
            f"GET {PATH} cannot be read: object.spec.weight: expected a whole number, got a string",
            id="an odd object in a watch",
        ),
    ],
)
def test_an_answer_nobody_can_read_is_one_sentence(
    ask: Callable[[Client], Awaitable[object]], said: bytes, expected: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        with pytest.raises(UnreadableAnswerError) as caught:
            await ask(Client(Answering(said), running_clock()))

        assert f"the answer to {expected}" == str(caught.value)

    run()


def test_who_is_not_known_is_told_where_to_look() -> None:
    error = from_status(401, Status(message="Unauthorized"))

    assert (
        "the API server does not know who asks (Unauthorized); check the user of the kubeconfig, or"
        " the token of the service account"
    ) == str(error)


@pytest.mark.parametrize("depth", [150, 900, 960, 980, 990, 1100, 9000])
@in_virtual_time
async def test_depths_that_nobody_looks_at_spoil_no_answer(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    # The null sends the list the slow way, on which each object is looked at for itself
    items = b'{"metadata":{"name":"a","resourceVersion":"1","labels":null,"odd":' + deep + b"}}"
    found: list[NodePool] = []
    for said in (b'{"items":[{},' + items + b"]}", b'{"items":[' + items + b"]}"):
        found += (await Client(Answering(said), running_clock()).page(NodePool)).items

    assert ["", "a", "a"] == [each.metadata.name for each in found]
