"""Prices that a companion asks for again: as often as a controller would, and those of before stay."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from helpers.autoscaler import FAKE_FACTS, FakeCloud
from helpers.builders import instance_type, node_pool
from helpers.clusters import in_virtual_time
from helpers.server import Cluster
from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.clock import SystemClock, running_clock
from karpenter.cloud.provider import CloudError
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.homes.offered import AFTER_FAILURE, EVERY, Offered, Renewal
from karpenter.inquiry import live
from karpenter.inquiry.live import LiveCluster
from karpenter.inquiry.question import CloudOffer
from karpenter.kube.errors import ConnectionLostError
from karpenter.settings import Settings
from karpenter_sandbox.server.transport import MemoryTransport

HALF_A_DAY = EVERY.total_seconds()
AN_HOUR = AFTER_FAILURE.total_seconds()


def pool(name: str) -> NodePool:
    return node_pool(name, node_class=NodeClassReference(*FAKE_FACTS.node_classes[0], "default"))


def offer(price: float, *known: str) -> CloudOffer:
    """One type at a price, for the pools that are known."""
    types = (instance_type("a", price=price),)
    return CloudOffer(lambda each: types if each.metadata.name in known else (), FAKE_FACTS)


@dataclass
class Asked:
    """A provider that answers as a test says, and what came of it."""

    answers: list[CloudOffer | Exception | None]
    said: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    times: int = 0

    async def again(self) -> CloudOffer | None:
        self.times += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def renewed(
    offered: Offered, answers: Iterable[CloudOffer | Exception | None], not_asked: str = ""
) -> AsyncIterator[tuple[Asked, Callable[[float], Awaitable[None]]]]:
    """A provider that is asked again for as long as a block runs, and a way to let time pass."""
    asked, clock = Asked(list(answers)), running_clock()
    renewal = Renewal(
        offered,
        asked.again,
        clock,
        "aws",
        not_asked=not_asked,
        told=asked.said.append,
        warn=asked.warned.append,
    )
    asked.said.append(renewal.prices)
    running = asyncio.ensure_future(renewal.run())
    try:
        yield asked, clock.sleep
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def price_of(supply: Supply, name: str) -> float:
    (kind,) = supply.pools[name]
    return min(way.price for way in kind.offerings)


@in_virtual_time
async def test_a_provider_is_asked_every_twelve_hours_and_the_time_is_told() -> None:
    pools = [pool("x")]
    offered = Offered(offer(1.0, "x"), lambda: pools)
    before = await offered.supply()

    async with renewed(offered, [offer(2.0, "x"), offer(3.0, "x")]) as (asked, sleep):
        await sleep(HALF_A_DAY - 1)
        assert (0, before) == (asked.times, await offered.supply())
        await sleep(2)
        assert (1, 2.0) == (asked.times, price_of(await offered.supply(), "x"))
        await sleep(HALF_A_DAY)
        assert (2, 3.0) == (asked.times, price_of(await offered.supply(), "x"))

    assert asked.said == [
        "Those of aws, asked for at 2030-01-01 00:00 UTC.",
        "Those of aws, asked for at 2030-01-01 12:00 UTC.",
        "Those of aws, asked for at 2030-01-02 00:00 UTC.",
    ]
    assert not asked.warned


@pytest.mark.parametrize(
    "error", [CloudError("role/secret may not"), ConnectionLostError("it is away"), TimeoutError()]
)
@in_virtual_time
async def test_prices_stay_where_nobody_answers_and_are_asked_for_an_hour_later(
    error: Exception,
) -> None:
    pools = [pool("x")]
    offered = Offered(offer(1.0, "x"), lambda: pools)
    before = await offered.supply()

    async with renewed(offered, [error, error, offer(2.0, "x")]) as (asked, sleep):
        await sleep(HALF_A_DAY + AN_HOUR + 1)
        assert (2, before) == (asked.times, await offered.supply())
        await sleep(AN_HOUR)
        assert (3, 2.0) == (asked.times, price_of(await offered.supply(), "x"))

    kept = "Those of aws, asked for at 2030-01-01 00:00 UTC. They could not be asked for again at"
    why = "why is in the output of the dashboard."
    assert asked.said[1:] == [
        f"{kept} 2030-01-01 12:00 UTC; {why}",
        f"{kept} 2030-01-01 13:00 UTC; {why}",
        "Those of aws, asked for at 2030-01-01 14:00 UTC.",
    ]
    warning = "aws could not be asked for prices, those of before stay"
    assert [f"{warning}: {str(error) or 'it took too long'}"] * 2 == asked.warned


@in_virtual_time
async def test_estimates_stay_until_the_provider_can_be_asked_and_why_is_told_once() -> None:
    pools = [pool("x")]
    offered = Offered(offer(1.0, "x"), lambda: pools)
    missing = CloudError("no credentials")
    answers: list[CloudOffer | Exception | None] = [missing, missing]
    answers += [CloudError("expired"), offer(2.0, "x")]

    async with renewed(offered, answers, not_asked=str(missing)) as (asked, sleep):
        await sleep(3 * AN_HOUR + 1)
        assert (3, 1.0) == (asked.times, price_of(await offered.supply(), "x"))
        await sleep(AN_HOUR)
        assert (4, 2.0) == (asked.times, price_of(await offered.supply(), "x"))

    assert ["aws could not be asked for prices, the estimates stay: expired"] == asked.warned
    assert asked.said == [
        "The built-in estimates of aws, which could not be asked; why is in the output of the dashboard.",
        "Those of aws, asked for at 2030-01-01 04:00 UTC.",
    ]


@in_virtual_time
async def test_a_provider_whose_prices_never_change_is_asked_no_more() -> None:
    offered = Offered(offer(1.0, "x"), lambda: [pool("x")])

    async with renewed(offered, [None]) as (asked, sleep):
        await sleep(5 * HALF_A_DAY)

    assert 1 == asked.times
    assert ["Those of aws, asked for at 2030-01-01 00:00 UTC."] == asked.said


async def test_a_supply_that_is_the_same_stays_the_same_object() -> None:
    offered = Offered(offer(1.0, "x"), lambda: [pool("x")])

    before = await offered.supply()
    offered.renew(offer(1.0, "x"))

    assert before is await offered.supply()


async def test_a_pool_that_is_new_since_is_sold_what_it_was_asked_for() -> None:
    pools = [pool("x")]
    offered = Offered(offer(1.0, "x"), lambda: pools)
    await offered.supply()
    pools.append(pool("y"))

    assert {"x"} == (await offered.supply()).pools.keys()
    offered.renew(offer(1.0, "x", "y"))
    assert {"x", "y"} == (await offered.supply()).pools.keys()


class Shop(FakeCloud):
    """A cloud with prices that have to be asked for."""

    async def refresh_prices(self) -> None:
        self._note("refresh_prices", "")


async def asked_of(
    cloud: FakeCloud, monkeypatch: pytest.MonkeyPatch, provider: str = "shop"
) -> LiveCluster | None:
    """Ask a cloud beside the cluster of a sandbox for what it sells to two pools."""
    monkeypatch.setattr(live, "load_provider", lambda name: lambda context: cloud)
    return await live.asked_again(
        MemoryTransport(Cluster().api),
        SystemClock(),
        provider=provider,
        pools=[pool("x"), pool("y")],
        settings=Settings(),
        environment={},
    )


async def test_what_all_pools_can_buy_is_asked_for_after_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = Shop(types=(instance_type("a"),))

    found = await asked_of(cloud, monkeypatch)

    assert found is not None
    assert {"x": cloud.types, "y": cloud.types} == found.types
    assert ["refresh_prices", "instance_types", "instance_types"] == [n for n, _ in cloud.calls]


@pytest.mark.parametrize("failing", ["refresh_prices", "instance_types"])
async def test_where_anything_cannot_be_asked_for_nothing_is_taken(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = Shop(types=(instance_type("a"),), failures={failing: [CloudError("no")]})

    with pytest.raises(CloudError, match="no"):
        await asked_of(cloud, monkeypatch)


async def test_prices_that_never_change_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, simulated = FakeCloud(), Shop()

    assert await asked_of(listed, monkeypatch) is None
    assert await asked_of(simulated, monkeypatch, "aws") is None
    assert [] == listed.calls + simulated.calls
