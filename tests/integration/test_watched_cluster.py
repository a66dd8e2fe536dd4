"""Observers beside a real cluster in virtual time, and the report of what they saw."""

import asyncio
import math
from typing import Any

import jsonschema_rs
import pytest

from helpers.autoscaler import deployment, kwok_pool
from helpers.watched_run import run_of, watched_run
from karpenter.clock import run_virtual
from karpenter.simulate.report.document import document, document_held
from karpenter.simulate.report.schema import schema

SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]}
QUICK = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}


async def up_and_down() -> Any:
    objects = (
        kwok_pool("default", SMALL, disruption=QUICK),
        deployment("web", 12),
        deployment("huge", 1, cpu="300"),
    )
    async with watched_run(*objects, until=1800.0) as watched:
        await watched.run.pass_time(600)
        await watched.run.scale("web", 3)
        await watched.run.pass_time(1200)
        return watched.finished()


@pytest.fixture(scope="module")
def found() -> Any:
    return document(run_of(run_virtual(up_and_down(), seed="1")))


def test_a_report_is_as_its_schema_says(found: Any) -> None:
    jsonschema_rs.validate(schema(), found)

    assert document_held(found)


@pytest.mark.case("SIM-31")
def test_the_cost_of_a_cluster_is_the_integral_of_its_series(found: Any) -> None:
    (variant,) = found["variants"]
    cost, series = variant["cost"], variant["series"]

    total = math.fsum(series["dollarsHourly"]) * series["step"] / 3600

    assert 0 < cost["dollarHours"] == pytest.approx(total, rel=0.01)
    for parts in ("byPool", "byCapacityType", "byZone", "byType"):
        assert cost["dollarHours"] == pytest.approx(math.fsum(cost[parts].values()), abs=1e-9)


@pytest.mark.case("SIM-33")
def test_a_pod_that_fits_nowhere_waits_for_the_reason_that_explain_gives(found: Any) -> None:
    (variant,) = found["variants"]

    (waiting,) = variant["pods"]["unscheduled"]

    assert waiting["pod"].startswith("default/huge-")
    assert "nodepool default: needs 300 cpu; the largest type has 7.9" == waiting["reason"]
    assert 1 == variant["pods"]["neverFit"]
    assert 1800 == pytest.approx(variant["pods"]["pendingSeconds"]["max"], abs=5)


@pytest.mark.case("SIM-35")
def test_what_leaves_by_a_scale_down_was_not_evicted_and_what_consolidation_moved_was(
    found: Any,
) -> None:
    (variant,) = found["variants"]

    assert {"Underutilized"} >= set(variant["disruption"]["byCause"])
    assert variant["disruption"]["evictions"] <= 3
    assert variant["nodes"]["removed"] == sum(variant["nodes"]["byReason"].values())
    assert {"Empty", "Underutilized"} >= set(variant["nodes"]["byReason"])


def test_nobody_could_have_paid_less_than_the_bound(found: Any) -> None:
    (variant,) = found["variants"]
    series = variant["series"]

    assert 0 < variant["cost"]["lowerBound"]["dollarHours"] <= variant["cost"]["dollarHours"]
    pairs = zip(series["boundHourly"], series["dollarsHourly"], strict=True)
    assert all(bound <= paid + 1e-9 for bound, paid in pairs)


@pytest.mark.case("SIM-32")
def test_one_pod_that_fills_the_cheapest_machine_costs_as_much_as_the_bound() -> None:
    async def story() -> Any:
        # 0.905 cpu is what the smallest of the catalogue has for pods
        async with watched_run(
            kwok_pool("default"), deployment("web", 1, cpu="900m"), until=600.0, warmup=60.0
        ) as watched:
            await asyncio.wait_for(watched.run.pass_time(600), None)
            return watched.finished()

    (variant,) = document(run_of(run_virtual(story(), seed="1")))["variants"]

    assert variant["cost"]["lowerBound"]["gap"] == pytest.approx(0.0, abs=1e-6)
