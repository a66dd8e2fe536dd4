"""Nobody pays less than the lower bound: random demand under every policy of consolidation."""

import random
from typing import Any

import pytest

from helpers.autoscaler import deployment, kwok_pool
from helpers.watched_run import run_of, watched_run
from karpenter.clock import run_virtual
from karpenter.simulate.report.document import document, document_held

POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
SAMPLE = range(1000, 1003)


async def half_an_hour(seed: int) -> Any:
    chance = random.Random(seed)
    pool = kwok_pool(
        "default",
        {
            "key": "karpenter.kwok.sh/instance-cpu",
            "operator": "In",
            "values": chance.sample(["2", "4", "8", "16", "32"], 3),
        },
        disruption={
            "consolidationPolicy": POLICIES[seed % len(POLICIES)],
            "consolidateAfter": chance.choice(["0s", "30s", "5m"]),
            "budgets": [{"nodes": chance.choice(["1", "50%", "100%"])}],
        },
    )
    workloads = [
        deployment(
            f"app-{number}",
            chance.randrange(1, 12),
            cpu=f"{chance.randrange(100, 3000)}m",
            memory=f"{chance.randrange(64, 9000)}Mi",
        )
        for number in range(chance.randrange(1, 4))
    ]
    async with watched_run(pool, *workloads, until=1800.0, seed=seed) as watched:
        for _ in range(6):
            await watched.run.scale(f"app-{chance.randrange(len(workloads))}", chance.randrange(12))
            await watched.run.pass_time(300)
        return watched.finished()


def judged(seed: int) -> None:
    found = document(run_of(run_virtual(half_an_hour(seed), seed=str(seed))))

    (variant,) = found["variants"]
    series = variant["series"]
    pairs = zip(series["boundHourly"], series["dollarsHourly"], strict=True)
    assert [] == [(bound, paid) for bound, paid in pairs if bound > paid + 1e-9]
    assert variant["cost"]["lowerBound"]["dollarHours"] <= variant["cost"]["dollarHours"]
    assert document_held(found), variant["invariants"]


@pytest.mark.case("SIM-32")
@pytest.mark.parametrize("seed", SAMPLE)
def test_policies_pay_no_less_than_the_bound(seed: int) -> None:
    judged(seed)
