"""Requests that go wrong: which do follows from the seed and the request alone."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from helpers.clusters import in_virtual_time
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import Request, Response, Stream
from karpenter.simulate.faults import Faults, FaultyTransport, KeyedDice, Mishap

HALF = Faults(conflict=0.3, throttled=0.3, lost=0.3)


class Server:
    def __init__(self) -> None:
        self.carried_out: list[str] = []

    async def send(self, request: Request) -> Response:
        self.carried_out.append(request.path)
        return Response(200)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        return


async def outcomes(dice: KeyedDice, paths: Sequence[str]) -> dict[str, list[int]]:
    transport = FaultyTransport(Server(), HALF, dice)
    found: dict[str, list[int]] = {}
    for path in paths:
        try:
            status = (await transport.send(Request("PATCH", path))).status
        except ConnectionLostError:
            status = 0
        found.setdefault(path, []).append(status)
    return found


@in_virtual_time
async def test_other_requests_move_no_fault() -> None:
    alone = await outcomes(KeyedDice(7), ["/a"] * 20)
    among = await outcomes(KeyedDice(7), ["/b", "/a", "/c"] * 20)

    assert alone["/a"] == among["/a"]
    assert len(set(alone["/a"])) > 1


@in_virtual_time
async def test_seeds_differ() -> None:
    first = await outcomes(KeyedDice(1), ["/a"] * 20)
    second = await outcomes(KeyedDice(2), ["/a"] * 20)

    assert first != second


@in_virtual_time
async def test_a_list_of_faults_happens_and_nothing_else() -> None:
    drawn = KeyedDice(7)
    before = await outcomes(drawn, ["/a"] * 20)
    assert len(drawn.happened) > 3

    again = KeyedDice(7, frozenset(drawn.happened))
    assert before == await outcomes(again, ["/a"] * 20)

    one = KeyedDice(7, frozenset([Mishap("throttled", "PATCH", "/a", 2)]))
    assert [200, 200, 429, 200] == (await outcomes(one, ["/a"] * 4))["/a"]


@in_virtual_time
async def test_a_lost_answer_is_one_of_a_request_that_was_carried_out() -> None:
    server = Server()
    dice = KeyedDice(7, frozenset([Mishap("lost", "PATCH", "/a", 0)]))
    transport = FaultyTransport(server, Faults(), dice)

    try:
        await transport.send(Request("PATCH", "/a"))
    except ConnectionLostError:
        pass
    else:
        raise AssertionError

    assert ["/a"] == server.carried_out
