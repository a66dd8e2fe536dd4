"""Rebalancing in a cluster: what is announced happens, it comes to rest, and storms do not matter."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.priced_catalogues import PRICES, ZONES, dear_when_large
from helpers.storms import judged
from integration.storms.rebalance_storm import ON_DEMAND, ridden_out
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.decision_log.record import Kind, Outcome
from karpenter.model.labels import ZONE
from karpenter.settings import MinTypes, Percentage, Settings
from karpenter.simulate.invariants import problems

SEEDS: Final = range(200)
SAMPLE: Final = range(1, 5, 3)  # one with faults and one without
OFF: Final = Settings(
    rebalance_moves=Percentage(100.0),
    packing_min_types=MinTypes(1, 1),
    rebalance_cooldown=timedelta(minutes=10),
)
HOURS: Final = 3600.0
PODS: Final = 24  # in each zone


@asynccontextmanager
async def wasteful(settings: Settings = OFF, *, zones: int = 1) -> AsyncIterator[Autoscaler]:
    """A cluster whose pods came at once: Karpenter's order put them on a dear machine per zone."""
    disruption = {"consolidateAfter": "15s", "budgets": [{"nodes": "100%"}]}
    used = ZONES[:zones]
    pool = kwok_pool("default", ON_DEMAND, disruption=disruption)
    async with autoscaler(
        pool,
        *(deployment(f"web-{zone}", PODS, cpu="900m", nodeSelector={ZONE: zone}) for zone in used),
        settings=settings,
        make_cloud=lambda kube, clock, rng: KwokProvider(kube, clock, dear_when_large()),
    ) as run:
        await run.until(lambda: len(run.running) == PODS * zones)
        await run.pass_time(120)
        yield run


def hourly(run: Autoscaler) -> float:
    """What all nodes cost an hour."""
    kinds = (node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in run.nodes)
    return sum(PRICES[kind] for kind in kinds)


async def restart(run: Autoscaler, mode: str) -> None:
    await run.kill()
    run.settings = replace(run.settings, rebalance=mode)
    run.start()


def begun(run: Autoscaler) -> list[str]:
    """What the records say of commands that were begun, oldest first."""
    return [
        record.text
        for record in reversed(tuple(run.decisions.newest()))
        if record.kind is Kind.DISRUPT and record.outcome is Outcome.BEGUN
    ]


@in_virtual_time
async def test_what_a_preview_announces_is_what_then_happens() -> None:
    async with wasteful() as run:
        before = hourly(run)
        await restart(run, "Preview")
        await run.pass_time(120)
        announced = [message for _, reason, message in run.events if reason == "RebalancePreview"]

        assert [] == begun(run)
        assert before == hourly(run) == 2.00

        await restart(run, "On")
        await run.pass_time(600)

        (sentence,) = begun(run)
        assert [f"rebalancing is in preview, or this would happen: {sentence}"] == announced
        assert sentence.endswith("saves $0.9200/h")
        assert 1.08 == pytest.approx(hourly(run))
        assert PODS == len(run.running)
        assert [] == problems(run)


@pytest.mark.slow
@in_virtual_time
async def test_a_cluster_at_rest_stays_at_rest() -> None:
    async with wasteful(replace(OFF, rebalance="On")) as run:
        await run.pass_time(600)
        first, price = begun(run), hourly(run)

        await run.pass_time(6 * HOURS)

        assert 1 == len(first)
        assert first == begun(run)
        assert price == hourly(run)


@pytest.mark.slow
@pytest.mark.case("OPT-40")
@in_virtual_time
async def test_no_more_pods_move_in_an_hour_than_may() -> None:
    half = replace(OFF, rebalance_moves=Percentage(55.0))
    async with wasteful(half, zones=2) as run:
        moved = [0.0]
        for _ in range(12):
            await restart(run, "On")  # what was moved is noted in the cluster
            await run.pass_time(600)
            (family,) = run.metrics.rebalance_pods_moved_total.collect()
            moved.append(sum(s.value for s in family.samples if s.name.endswith("_total")))

        in_an_hour = [after - before for before, after in zip(moved, moved[6:], strict=False)]
        assert PODS == max(in_an_hour)
        assert 2 * PODS == moved[-1]
        assert [] == problems(run)


@pytest.mark.storm
@pytest.mark.parametrize("seed", SEEDS)
def test_promises_are_kept_in_storms(seed: int) -> None:
    assert "" == judged(ridden_out, seed, "rebalance_storm.py")


@pytest.mark.parametrize("seed", SAMPLE)
def test_promises_are_kept_in_a_few_storms(seed: int) -> None:
    assert "" == judged(ridden_out, seed, "rebalance_storm.py")
