"""The command ``karpenter simulate --seeds``: what it prints, writes and returns."""

import errno
import json
from pathlib import Path

import pytest

from helpers.cluster_texts import POOL_TEXT
from helpers.commands import run
from karpenter.simulate import storm
from karpenter.simulate.storm import Judged
from karpenter.simulate.world import Setup

SCENARIO = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: quiet}
until: 2m
workloads:
- {name: web, pod: {cpu: 500m}, steps: [{at: 0s, replicas: 2}]}
---
"""
TWO_CPUS = """\
      requirements: [{key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["2"]}]
"""
QUIET = f"{SCENARIO}{POOL_TEXT}{TWO_CPUS}"


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    file = tmp_path / "quiet.yaml"
    file.write_text(QUIET)
    return file


def test_seeds_that_hold_are_counted(quiet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "seeds"

    ran = run("simulate", str(quiet), "--seeds", "1..3", "--jobs", "1", "--resume", str(folder))

    assert (0, f"3 of 3 seeds run, 0 broken; {folder / 'seeds.jsonl'}\n") == (ran.code, ran.out)
    lines = (folder / "seeds.jsonl").read_text().splitlines()
    assert [{"seed": n, "broken": []} for n in (1, 2, 3)] == [json.loads(line) for line in lines]


def test_a_broken_seed_is_told_with_the_command_that_replays_it(
    quiet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(setup: Setup) -> Judged:
        return Judged(("A1 at 5.000 s: planted",) if setup.seed == 2 else (), ())

    monkeypatch.setattr(storm, "judged", judged)
    folder = tmp_path / "seeds"

    ran = run("simulate", str(quiet), "--seeds", "1..3", "--jobs", "2", "--resume", str(folder))

    assert 3 == ran.code
    assert "seed 2: A1 at 5.000 s: planted" in ran.out
    assert f"  replay: karpenter simulate {quiet} --seed 2 --timeline" in ran.out.splitlines()


def test_a_replay_has_the_options_that_the_seeds_were_run_with(
    quiet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm, "judged", lambda _: Judged(("A1 at 5.000 s: planted",), ()))
    options = ["--until", "90s", "--set", "PACKING=cheapest", "--large"]

    ran = run("simulate", str(quiet), "--seeds", "1", "--resume", str(tmp_path / "s"), *options)

    given = "--set=PACKING=cheapest --until=90s --large"
    assert (
        f"  replay: karpenter simulate {quiet} {given} --seed 1 --timeline" in ran.out.splitlines()
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--seeds", "1", "--seed", "0"], "--seed goes without --seeds"),
        (["--seeds", "1", "--report", "x.html"], "--report goes without --seeds"),
        (["--seeds", "1", "--timeline"], "--timeline goes without --seeds"),
        (["--seeds", "1", "-o", "json"], "--output goes without --seeds"),
        (["--resume", "x"], "--resume goes with --seeds only"),
        (["--fail-fast"], "--fail-fast goes with --seeds only"),
        (["--no-shrink"], "--no-shrink goes with --seeds only"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(
    quiet: Path, options: list[str], why: str
) -> None:
    ran = run("simulate", str(quiet), *options)

    assert (2, "") == (ran.code, ran.out)
    assert why in ran.err


def test_a_disk_that_is_full_is_a_failure_and_no_wrong_usage(
    quiet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    ran = run("simulate", str(quiet), "--seeds", "1", "--resume", str(tmp_path))

    assert 1 == ran.code
    assert "seeds.jsonl: no space left on device; choose another folder" in ran.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("7..3", "--seeds 7..3: 3 comes before 7"),
        ("some", "--seeds 'some': write FIRST..LAST, such as 1..10000"),
        ("1..9999999", "--seeds 1..9999999: more than 1,000,000 seeds"),
    ],
)
def test_seeds_that_make_no_sense_are_refused(quiet: Path, text: str, why: str) -> None:
    ran = run("simulate", str(quiet), "--seeds", text)

    assert 2 == ran.code
    assert why in ran.err


def test_a_probability_above_one_is_refused(quiet: Path) -> None:
    quiet.write_text(QUIET.replace("until: 2m\n", "until: 2m\nfaults: {throttled: 120%}\n"))

    ran = run("simulate", str(quiet), "--check")

    assert 2 == ran.code
    assert "faults" in ran.err
    assert "at most 100%" in ran.err


def test_what_faults_do_is_not_listed_as_left_out(quiet: Path) -> None:
    left_out = []
    for faults in ("", "faults: storm\n"):
        quiet.write_text(QUIET.replace("until: 2m\n", f"until: 2m\n{faults}"))
        ran = run("simulate", str(quiet), "-o", "json")
        left_out.append(set(json.loads(ran.out)["notModelled"]))

    assert left_out[0] - left_out[1] == {
        "offerings that are sold out",
        "spot machines that are taken back, as interruptions are not given",
    }
