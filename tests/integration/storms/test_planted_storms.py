"""A mistake is planted: once an answer is lost, budgets are ignored. Storms find it, and it becomes small."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pytest

from helpers.simulated import scenario, setup_of, small_pool, steps
from karpenter.api.karpenter import Budget
from karpenter.disruption import budgets
from karpenter.kube.transport import Request
from karpenter.simulate import storm as storms
from karpenter.simulate.faults import FaultyTransport
from karpenter.simulate.runs import setup_of as setup_of_file
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.shrinking import shrunk
from karpenter.simulate.storm import Judged, Storm, judged
from karpenter.simulate.world import Setup
from karpenter.telemetry.logs import quiet_logger, take_over

ALONE = {"antiAffinity": "hostname", "cpu": "1", "memory": "1Gi"}
STORM = scenario(
    until="20m",
    faults={
        "rest": "14m",
        "lost": "5%",
        "throttled": "5%",
        "slow": "5%",
        "soldOut": {"every": "3m", "lasts": "1m"},
        "kill": {"every": "4m", "lasts": "10s"},
    },
    workloads=[
        steps("web", ("0", 4), ("3m", 1), pod=ALONE),
        steps("api", ("0", 3), ("4m", 0)),
        steps("batch", ("1m", 2), pod={"cpu": "500m", "memory": "1Gi"}),
    ],
)
POOL = small_pool(disruption={"consolidateAfter": "30s", "budgets": [{"nodes": "1"}]})


@dataclass
class Planted:
    """Whether the mistake has been triggered in the run that goes on."""

    lost: list[Request] = field(default_factory=list)

    def judge(self, setup: Setup, storm: Storm | None = None) -> Judged:
        """Run and judge, with a mistake that nothing has triggered yet."""
        self.lost.clear()
        return judged(setup, storm)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    take_over(quiet_logger())
    found = Planted()
    value = budgets.budget_value

    class Noting(FaultyTransport):
        def _happens(self, fault: str, request: Request) -> bool:
            does = super()._happens(fault, request)
            if does and fault == "lost":
                found.lost.append(request)
            return does

    def forgotten(budget: Budget, total: int, *, now: datetime) -> int:
        return budgets.UNLIMITED if found.lost else value(budget, total, now=now)

    monkeypatch.setattr(storms, "FaultyTransport", Noting)
    monkeypatch.setattr(budgets, "budget_value", forgotten)
    return found


def first_broken(planted: Planted) -> tuple[Setup, Judged]:
    for seed in range(1, 501):
        setup = replace(setup_of(STORM, POOL), seed=seed)
        outcome = planted.judge(setup)
        if outcome.broken:
            return setup, outcome
    raise AssertionError("no seed breaks")


@pytest.mark.slow
@pytest.mark.case("SIM-49")
def test_a_planted_mistake_is_found_made_small_and_replayed(
    planted: Planted, tmp_path: Path
) -> None:
    setup, outcome = first_broken(planted)
    assert {"A2"} == outcome.promises

    small = shrunk(setup, outcome, planted.judge)

    assert small.faults <= 3
    assert len(small.setup.scenario.workloads) <= 2
    loaded = load("small.yaml", small.text().encode(), tmp_path, Options())
    assert {"A2"} == small.outcome.promises
    assert small.outcome == planted.judge(setup_of_file(loaded, 0))


def test_without_the_mistake_the_same_storms_break_nothing() -> None:
    take_over(quiet_logger())

    assert () == judged(replace(setup_of(STORM, POOL), seed=1)).broken
