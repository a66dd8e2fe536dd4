"""A static pool has what it says, never more than its limit, and nothing is made in vain."""

from collections import Counter
from typing import Final

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, gates, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.storms import judged
from integration.storms.static_storm import (
    POOL,
    TYPE,
    DesiredNumber,
    FaultPlan,
    LateAnswers,
    Witness,
    is_leaving,
    planned_for,
    ridden_out,
)
from karpenter.clock import running_clock
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.kube.transport import Transport
from karpenter.settings import Settings

SEEDS: Final = range(150)
SAMPLE: Final = range(1001, 1002)
ON: Final = Settings(feature_gates=gates(StaticCapacity=True))
ALL_AT_ONCE: Final = {"budgets": [{"nodes": "100%"}]}


@pytest.mark.storm
@pytest.mark.parametrize("seed", SEEDS)
def test_a_static_pool_rides_out_a_storm(seed: int) -> None:
    assert "" == judged(ridden_out, seed, "static_storm.py")


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_static_pool_rides_out_a_few_storms(seed: int) -> None:
    assert "" == judged(ridden_out, seed, "static_storm.py")


def late(seconds: float) -> FaultPlan:
    """No faults, except that answers take so long."""
    fault_plan = FaultPlan(0)
    fault_plan.is_over, fault_plan.late_seconds = True, seconds
    return fault_plan


async def change(run: Autoscaler, **spec: object) -> None:
    await run.client.patch("merge", "karpenter.sh/v1", "NodePool", None, POOL, {"spec": spec})


def counted(run: Autoscaler, message: str) -> Counter[str]:
    """How often each controller logged a message."""
    return Counter(line["controller"] for line in run.lines if line["message"] == message)


def versions(run: Autoscaler) -> list[str]:
    """What the nodes say of the template they were made from."""
    return [node["metadata"]["annotations"].get("example.com/version", "") for node in run.nodes]


OTHER_TEMPLATE: Final = {"metadata": {"annotations": {"example.com/version": "2"}}}


@pytest.mark.parametrize("seconds", [0.0, 0.05, 1.0])
def test_more_replicas_and_another_template_at_once_stay_within_the_limit(seconds: float) -> None:
    @in_virtual_time
    async def walk() -> None:
        fault_plan = late(seconds)
        pool = kwok_pool(POOL, TYPE, replicas=3, limits={"nodes": "5"}, disruption=ALL_AT_ONCE)

        def wrap(transport: Transport) -> Transport:
            return LateAnswers(transport, fault_plan, running_clock())

        async with autoscaler(pool, settings=ON, wrap=wrap) as run:
            witness = Witness(run, DesiredNumber(4), DesiredNumber(5))
            await run.until(lambda: 3 == len(run.nodes))
            await run.pass_time(30)

            await change(run, replicas=4, template=OTHER_TEMPLATE)
            await run.until(lambda: ["2"] * 4 == versions(run))
            await run.pass_time(120)

            assert [] == witness.judge()
            assert (4, 7) == (len(run.claims), witness.made)
            assert {"static.provisioning": 4, "disruption": 3} == counted(run, "created nodeclaim")
            assert {} == counted(run, "deleting surplus nodeclaim")

    walk()


@in_virtual_time
async def test_fewer_replicas_end_what_is_being_replaced() -> None:
    fault_plan = FaultPlan(0)
    pool = kwok_pool(POOL, TYPE, replicas=3, disruption=ALL_AT_ONCE)
    async with autoscaler(pool, settings=ON, make_cloud=fault_plan.cloud) as run:
        await run.until(lambda: 3 == len(run.nodes))
        await run.pass_time(30)
        old = {claim["metadata"]["name"] for claim in run.claims}
        fault_plan.clouds[-1].faults.launch_seconds = 60.0
        await change(run, template=OTHER_TEMPLATE)
        await run.until(lambda: 6 == len(run.claims))

        await change(run, replicas=1)
        await run.until(lambda: ["2"] == versions(run))
        await run.pass_time(120)

        (left,) = run.claims
        assert left["metadata"]["name"] not in old
        assert {"static.provisioning": 3, "disruption": 3} == counted(run, "created nodeclaim")


@in_virtual_time
async def test_a_process_that_takes_over_ends_what_the_one_before_began() -> None:
    fault_plan = FaultPlan(0)
    pool = kwok_pool(POOL, TYPE, replicas=2, limits={"nodes": "4"}, disruption=ALL_AT_ONCE)
    async with autoscaler(pool, settings=ON, make_cloud=fault_plan.cloud) as run:
        witness = Witness(run, DesiredNumber(2), DesiredNumber(4))
        await run.until(lambda: 2 == len(run.nodes))
        await run.pass_time(30)
        fault_plan.clouds[-1].faults.launch_seconds = 20.0
        await change(run, template=OTHER_TEMPLATE)
        await run.until(lambda: 4 == len(run.claims))
        # ``plan``, which reads only the API server, counts in the same way
        assert [(2, 2, 0, ())] == [
            (found.replicas, found.have, found.create, found.delete) for found in planned_for(run)
        ]

        await run.kill()
        run.start()
        await run.until(lambda: ["2", "2"] == versions(run))
        await run.pass_time(120)

        assert [] == witness.judge()
        assert (2, 4) == (len(run.claims), witness.made)


@in_virtual_time
async def test_a_pool_whose_machines_are_sold_out_is_patient() -> None:
    pool = kwok_pool(POOL, TYPE, replicas=2, limits={"nodes": "3"}, disruption=ALL_AT_ONCE)
    async with autoscaler(pool, settings=ON) as run:
        witness = Witness(run, DesiredNumber(2), DesiredNumber(3))
        await run.until(lambda: 2 == len(run.nodes))
        await run.pass_time(30)
        assert isinstance(run.cloud, KwokProvider)
        run.cloud.faults.sell_out(OfferingPattern())
        before = witness.made
        await change(run, template=OTHER_TEMPLATE)
        await run.pass_time(600)

        assert 2 == len(run.nodes)
        assert 1 <= witness.made - before <= 20
        assert [] == witness.judge()

        run.cloud.faults.restock()
        await run.until(lambda: ["2", "2"] == versions(run))
        await run.pass_time(60)
        assert [] == [claim for claim in run.claims if is_leaving(claim)]
