"""Nothing is asked for twice: not after a crash, and not after an answer that got lost."""

import asyncio

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.builders import instance_type
from helpers.clusters import in_virtual_time
from helpers.crashes import CrashingTransport, CrashPoint
from helpers.provisioning import provisioning, ready_pool, waiting_pod
from karpenter.kube.errors import ConnectionLostError
from karpenter.kube.transport import Request, Response, Transport
from karpenter.model import labels

pytestmark = pytest.mark.storm

NODES = 4
FOUR_CPUS = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["c-4x-amd64-linux"]}


async def crashed_and_restarted(point: CrashPoint) -> tuple[int, int]:
    """Let a process die at its n-th claim and another go on; return claims and running pods."""
    transports: list[Transport] = []

    def wrap(transport: Transport) -> Transport:
        if transports:
            return transport  # the second process lives
        transports.append(_ClaimsOnly(transport, point))
        return transports[0]

    pool, pods = kwok_pool("default", FOUR_CPUS), deployment("web", NODES, cpu="3")
    async with autoscaler(pool, pods, wrap=wrap) as run:
        await asyncio.wait_for(point.happened.wait(), 60)
        await run.kill()
        run.start()
        await run.until(lambda: len(run.running) == NODES, seconds=120)
        await run.pass_time(30)
        return len(run.claims), _instances(run)


def _instances(run: Autoscaler) -> int:
    return len([node for node in run.nodes if labels.NODEPOOL in node["metadata"]["labels"]])


class _ClaimsOnly(CrashingTransport):
    """Counts the creation of claims alone."""

    async def send(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/nodeclaims"):
            return await super().send(request)
        return await (super().send(request) if self._is_dead else self._inner.send(request))


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("number", range(NODES))
@in_virtual_time
async def test_a_crash_at_any_claim_neither_doubles_nor_loses_one(
    number: int, is_before: bool
) -> None:
    claims, instances = await crashed_and_restarted(CrashPoint(number, is_before))

    assert (NODES, NODES) == (claims, instances)


class _LosesAnswers:
    """Carries out the first creations of claims and tells nobody."""

    def __init__(self, inner: Transport, losses: int) -> None:
        self._inner = inner
        self.losses = losses

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        if request.path.endswith("/nodeclaims") and request.method == "POST" and self.losses:
            self.losses -= 1
            raise ConnectionLostError("the connection was closed")
        return answer


@in_virtual_time
async def test_a_claim_whose_creation_was_not_confirmed_is_not_made_again() -> None:
    async with provisioning(
        ready_pool(), waiting_pod(), wrap=lambda inner: _LosesAnswers(inner, 1)
    ) as run:
        (claim,) = await run.provision()

        assert [claim.metadata.name] == [each.metadata.name for each in run.claims]
        assert ["web"] == [pod.metadata.name for pod in run.planned.pods_of(claim.metadata.name)]


@in_virtual_time
async def test_when_no_answer_ever_comes_the_others_stand_and_the_pass_is_made_again() -> None:
    pods = [waiting_pod(f"web-{number}", cpu="3") for number in range(3)]
    types = (instance_type("four", cpu="4", memory="8Gi"),)
    async with provisioning(
        ready_pool(), *pods, types=types, wrap=lambda inner: _LosesAnswers(inner, 7)
    ) as run:
        with pytest.raises(ConnectionLostError):
            await run.provision()
        await run.at.settle()
        for claim in run.claims:
            await run.launch(claim)

        await run.provision()

        assert 3 == len(run.claims)
