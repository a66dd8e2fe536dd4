"""Storms over a scenario: what a seed meets, that it is the same again, and that it becomes small."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from helpers.simulated import scenario, setup_of, small_pool, steps
from karpenter.simulate.faults import Mishap
from karpenter.simulate.runs import setup_of as setup_of_file
from karpenter.simulate.scenario.models import Scenario
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.seeds import FILE, run_seeds
from karpenter.simulate.shrinking import shrunk
from karpenter.simulate.storm import Judged, Storm, judged, storm_of
from karpenter.simulate.world import Setup
from karpenter.telemetry.logs import quiet_logger, take_over

# Ten minutes of trouble, then 25 of rest: longer than a launch may take before it is given up
STORM = scenario(
    until="35m",
    faults="storm",
    workloads=[
        steps("web", ("0", 5), ("2m", 9), ("5m", 3), ("8m", 11)),
        steps("api", ("0", 3), ("4m", 8), pod={"cpu": "1500m", "memory": "1Gi"}),
    ],
)
EXAMPLE = Path(__file__).parents[3] / "examples" / "scenarios" / "storm.yaml"
# 21 and 58: pods of a node that had recovered were not Ready again, and their budget held the drain of another
SOME = (*range(1, 5), 21, 58)
MORE = (*range(5, 11), *SOME)


def setup_for(seed: int, wanted: Scenario = STORM) -> Setup:
    return replace(setup_of(wanted, small_pool()), seed=seed)


def lines(folder: Path, seeds: Sequence[int], *, jobs: int) -> list[str]:
    setup = setup_of_file(load(EXAMPLE.name, EXAMPLE.read_bytes(), EXAMPLE.parent, Options()), 0)

    def broken(seed: int) -> tuple[str, ...]:
        take_over(quiet_logger())
        return judged(replace(setup, seed=seed)).broken

    run_seeds(sorted(seeds), broken, folder / str(jobs), jobs=jobs)
    return (folder / str(jobs) / FILE).read_text("utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.case("SIM-48")
def test_storms_break_nothing_however_many_jobs_run_them(tmp_path: Path) -> None:
    one, three = lines(tmp_path, SOME, jobs=1), lines(tmp_path, MORE, jobs=3)

    assert [] == [line for line in three if '"broken": []' not in line]
    assert set(one) < set(three)
    assert (len(SOME), len(MORE)) == (len(one), len(three))


def test_seeds_meet_one_fault_alone_or_all_or_some() -> None:
    met = [_kinds(storm_of(setup_for(seed))) for seed in range(60)]

    assert 1 in met
    assert max(met) >= 13
    assert len(set(met)) > 6


def _kinds(storm: Storm | None) -> int:
    assert storm is not None
    requests = sum(value > 0 for value in msgspec.to_builtins(storm.faults).values())
    verbs = {
        (step.fail.fault if step.fail else "")
        or next(
            name
            for name in ("sold_out", "interrupt", "kill", "clock")
            if getattr(step, name) is not None
        )
        for step in storm.steps
    }
    return int(requests) + len(verbs)


def test_faults_end_before_the_rest() -> None:
    for seed in range(30):
        storm = storm_of(setup_for(seed))
        assert storm is not None
        assert 600 == storm.rests_from
        for step in storm.steps:
            at = float((step.at or "").removesuffix("s"))
            lasts = float((step.for_ or "0s").removesuffix("s"))
            assert at < 600
            assert lasts <= 300


def test_without_faults_a_seed_has_no_storm() -> None:
    assert storm_of(setup_for(1, scenario())) is None


def test_a_broken_seed_becomes_the_few_things_it_needs() -> None:
    """The planted mistake: a lost answer while the controllers restart, and web is there."""

    def judge(setup: Setup, storm: Storm) -> Judged:
        lost = any(each.fault == "lost" and "web" in each.path for each in storm.exactly or ())
        killed = any(step.kill is not None for step in setup.scenario.timeline)
        web = any(each.name == "web" for each in setup.scenario.workloads)
        is_late = setup.until > 400
        planted = ("A2 at 399.000 s: planted",) if lost and killed and web and is_late else ()
        # What a run without its rest leaves over is no reason to keep a part
        left_over = ("R2 at 401.000 s: held back",) if setup.until < 2100 else ()
        return Judged((*planted, *left_over), ())

    mishaps = tuple(
        Mishap(fault, "PATCH", f"/api/v1/nodes/{name}", number)
        for fault in ("lost", "slow", "conflict")
        for name in ("web", "other")
        for number in range(20)
    )
    storm = storm_of(setup_for(4))
    assert storm is not None
    assert any(step.kill is not None for step in storm.steps)
    broken = ("A2 at 400.000 s: planted", "R2 at 2100.000 s: held back")
    outcome = Judged(broken, mishaps)

    small = shrunk(setup_for(4), outcome, judge)

    assert {"A2"} == small.promises
    assert 2 == small.faults
    assert ["web"] == [each.name for each in small.setup.scenario.workloads]
    body: Any = yaml.safe_load(small.text())
    assert "seed-4" == body["metadata"]["name"]
    assert "A2 at 399.000 s: planted" == body["metadata"]["description"]
    again = storm_of(setup_of(msgspec.convert(body, Scenario), *body["objects"]))
    assert again is not None
    assert small.storm.exactly == again.exactly
    assert small.storm.rests_from == pytest.approx(again.rests_from, abs=0.01)


def test_exactly_the_listed_faults_happen() -> None:
    path = "/apis/karpenter.sh/v1/nodeclaims"
    listed = [{"fault": "throttled", "method": "POST", "path": path, "number": 0}]
    wanted = scenario(until="35m", faults={"exactly": listed}, workloads=[steps("web", ("0", 3))])

    found = judged(setup_for(1, wanted))

    assert () == found.broken
    assert (Mishap("throttled", "POST", path, 0),) == found.mishaps
