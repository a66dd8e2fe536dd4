"""What goes wrong while the first status of a claim is on its way is told, and not that the write ended with it."""

import asyncio
from typing import Any, cast

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import ObjectMeta
from karpenter.clock import Clock, running_clock
from karpenter.controllers.context import Context
from karpenter.controllers.lifecycle.claim_changes import summed_up
from karpenter.controllers.lifecycle.first_status import A_MOMENT, FirstStatus
from karpenter.kube.errors import ConflictError


class SlowServer:
    """The part of a context that is needed, with an API server that takes its time."""

    def __init__(self, error: Exception | None = None) -> None:
        self.clock: Clock = running_clock()
        self.begun = self.ended = 0
        self._error = error

    async def patch(self, claim: NodeClaim, body: Any, **_: Any) -> NodeClaim:
        self.begun += 1
        await self.clock.sleep(10)
        if self._error is not None:
            raise self._error
        self.ended += 1
        return claim


def first_status(server: SlowServer) -> FirstStatus:
    claim = NodeClaim(metadata=ObjectMeta(name="a"))
    begun = summed_up(claim, now=server.clock.now())
    return FirstStatus(cast(Context, server), claim, begun)


@in_virtual_time
async def test_an_error_meanwhile_is_the_one_that_is_raised() -> None:
    server = SlowServer()

    async def reconcile() -> None:
        async with first_status(server):
            await server.clock.sleep(2 * A_MOMENT)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await reconcile()

    assert (1, 0) == (server.begun, server.ended)


@in_virtual_time
async def test_a_cancelled_reconcile_ends_as_cancelled() -> None:
    server = SlowServer()

    async def reconcile() -> None:
        async with first_status(server):
            await server.clock.sleep(60)

    task = asyncio.ensure_future(reconcile())
    await server.clock.sleep(2 * A_MOMENT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (1, 0) == (server.begun, server.ended)


@in_virtual_time
async def test_a_write_that_is_refused_is_left_to_the_last_one() -> None:
    server = SlowServer(ConflictError(409, "another writer was faster"))

    async with first_status(server) as first:
        await server.clock.sleep(2 * A_MOMENT)

    assert "a" == first.stored.metadata.name


@in_virtual_time
async def test_a_short_launch_costs_no_write() -> None:
    server = SlowServer()

    async with first_status(server):
        await server.clock.sleep(A_MOMENT / 2)

    assert 0 == server.begun
