"""The command ``karpenter simulate``: what it prints, writes and returns."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from helpers.cluster_texts import POOL_TEXT
from helpers.commands import run
from karpenter.simulate.report.schema import schema

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "scenarios"
SCENARIO = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: small}
until: 10m
workloads:
- {name: web, pod: {cpu: 500m, memory: 1Gi}, steps: [{at: 0s, replicas: 6}, {at: 5m, replicas: 2}]}
---
"""
DETAILS = """\
      requirements:
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["2", "4"]}
  disruption: {consolidateAfter: 30s}
"""
SMALL = f"{SCENARIO}{POOL_TEXT}{DETAILS}"
PAIR = """\
compare:
- {name: now}
- name: when-empty
  patch: [{target: NodePool/default, merge: {spec: {disruption: {consolidationPolicy: WhenEmpty}}}}]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def document(*words: str) -> dict[str, object]:
    ran = run("simulate", *words, "-o", "json")
    assert 0 == ran.code, ran.err
    found: dict[str, object] = json.loads(ran.out)
    return {key: value for key, value in found.items() if key != "host"}


def test_a_scenario_is_run_and_reported_on(small: Path, tmp_path: Path) -> None:
    page, data = tmp_path / "x.html", tmp_path / "x.json"
    ran = run("simulate", str(small), "--report", str(page), "--report", str(data))

    assert (0, []) == (ran.code, ran.errors)
    assert "small" in ran.out
    assert "pending, p95" in ran.out
    assert "<!doctype html>" in page.read_text().lower()
    assert json.loads(data.read_text())["scenario"]["name"] == "small"


@pytest.mark.case("SIM-3")
def test_variants_have_the_same_demand(small: Path) -> None:
    small.write_text(SMALL.replace("---\n", f"{PAIR}---\n", 1))
    found = document(str(small), "--jobs", "1")
    alone = small.with_name("alone.yaml")
    alone.write_text(SMALL)

    variants = found["variants"]
    assert isinstance(variants, list)
    assert ["now", "when-empty"] == [each["name"] for each in variants]
    assert found["scenario"]["demandSha256"] == document(str(alone))["scenario"]["demandSha256"]  # type: ignore[index]


@pytest.mark.case("SIM-37")
def test_an_expectation_that_fails_is_shown_and_returned(small: Path, tmp_path: Path) -> None:
    expect = "expect: [{path: pods.pendingSeconds.p95, max: 0.1}]\n"
    small.write_text(SMALL.replace("---\n", f"{expect}---\n", 1))
    ran = run("simulate", str(small), "--report", str(tmp_path / "x.json"))

    assert 3 == ran.code
    assert "✗" in ran.out
    assert (tmp_path / "x.json").exists()


def test_a_report_that_cannot_be_written_leaves_the_one_before(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "x.json"
    page.write_text("before")
    written = Path.write_text

    def full(file: Path, text: str, encoding: str | None = None) -> int:
        written(file, text[:10], encoding=encoding)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        ran = run("simulate", str(small), "--report", str(page))

    assert 1 == ran.code
    assert f"error: {page}: no space left on device\n" == ran.err
    assert "before" == page.read_text()
    assert [page, small] == sorted(tmp_path.iterdir(), reverse=True)


def test_every_problem_is_listed_and_nothing_is_run(small: Path) -> None:
    small.write_text(SMALL.replace("until", "untill"))
    ran = run("simulate", str(small))

    assert (2, "") == (ran.code, ran.out)
    assert ran.errors[0].endswith(":1: until is missing")
    assert ran.errors[1].endswith(":4: untill: there is no such field; did you mean until?")
    assert "error: nothing is run: 2 problems above" == ran.errors[-1]


def test_a_check_runs_nothing(small: Path) -> None:
    ran = run("simulate", str(small.parent), "--check")

    assert (0, f"{small}: small can be run; 1 variant\n") == (ran.code, ran.out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no scenario: name a file or a folder"),
        (["x.yaml", "--set", "PAKING=1"], "did you mean PACKING?"),
        (["x.yaml", "--set", "PACKING"], "write NAME=VALUE"),
        (["x.yaml", "--report", "x.pdf"], "the name ends neither in .html nor in .json"),
        (["nowhere.yaml"], "nowhere.yaml: "),
    ],
)
def test_wrong_usage_is_one_sentence(words: list[str], sentence: str) -> None:
    ran = run("simulate", *words)

    assert (2, "") == (ran.code, ran.out)
    assert sentence in ran.err


def test_decisions_are_told_as_they_happen(small: Path) -> None:
    ran = run("simulate", str(small), "--timeline", "--until", "2m")

    assert 0 == ran.code
    assert "Provision Provisionable: 6 pods without a place" in ran.err


def test_the_schemas_are_printed() -> None:
    scenario = json.loads(run("simulate", "--schema", "scenario").out)
    report = json.loads(run("simulate", "--schema", "report").out)

    assert "Scenario" in scenario["$defs"]
    assert scenario != report


def test_scenarios_come_from_standard_input(small: Path) -> None:
    assert 0 == run("simulate", "-", "--until", "1m", stdin=SMALL).code


@pytest.mark.slow
def test_whole_scenarios_stand_side_by_side(small: Path, tmp_path: Path) -> None:
    other, page = tmp_path / "other.yaml", tmp_path / "x.html"
    other.write_text(SMALL.replace('["2", "4"]', '["16"]'))
    words = ("simulate", "--compare", str(small), str(other), "--jobs", "1")
    ran = run(*words, "-o", "json", "--report", str(page))

    assert (0, []) == (ran.code, ran.errors)
    found = json.loads(ran.out)
    jsonschema_rs.validate(schema(), found)
    assert ["small", "other"] == [each["name"] for each in found["variants"]]
    assert "small" == found["comparison"]["baseline"]
    assert found["comparison"]["metrics"][0]["values"][1]["ratio"] > 1
    alone = document(str(small), "--jobs", "1")
    assert {**alone["variants"][0], "name": "small"} == found["variants"][0]  # type: ignore[index]
    assert alone["scenario"]["demandSha256"] == found["scenario"]["demandSha256"]  # type: ignore[index]
    assert "other" in page.read_text()


def test_other_demand_is_warned_of_and_other_lengths_are_refused(
    small: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SMALL.replace("replicas: 6", "replicas: 5").replace("small", "fewer"))
    ran = run("simulate", "--compare", str(small), str(other), "--check")
    assert 0 == ran.code
    assert f"{other}: its users ask for something else than those of {small}" in ran.err

    other.write_text(SMALL.replace("until: 10m", "until: 9m"))
    ran = run("simulate", "--compare", str(small), str(other), "--check")
    assert f"{other} lasts 9m, and {small} 10m; give --until" in ran.err
    assert 2 == ran.code
    assert 2 == run("simulate", "--compare", str(small), "--check").code
    assert (
        0 == run("simulate", "--compare", str(small), str(other), "--check", "--until", "9m").code
    )


def test_the_only_provider_may_be_named(small: Path) -> None:
    assert 0 == run("simulate", str(small), "--provider", "kwok", "--check").code
    ran = run("simulate", str(small), "--provider", "aws", "--check")

    assert (2, 1) == (ran.code, len(ran.errors))
    assert "scenarios run on the simulated cloud kwok" in ran.err


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_can_be_run(path: Path) -> None:
    assert 0 == run("simulate", str(path), "--check").code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "until", "code"),
    [
        ("cron-thrash", "70m", 0),
        # Nobody comes in the first half hour after midnight, so there is no wait to expect
        ("diurnal-web", "35m", 3),
        # Ends before the nodes are cheap again, which is expected of its end
        ("perf-basic", "5m", 3),
        ("spot-storm", "25m", 0),
    ],
)
def test_the_examples_run_for_a_while(name: str, until: str, code: int) -> None:
    ran = run("simulate", str(EXAMPLES / f"{name}.yaml"), "--until", until, "--jobs", "1")

    assert (code, []) == (ran.code, ran.errors)
    assert name in ran.out


def _report(file: Path, hash_seed: str, *words: str) -> dict[str, object]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "karpenter", "simulate", str(file), "-o", "json", *words],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr  # 3: too short for what is expected of its end
    found: dict[str, object] = json.loads(done.stdout)
    return {key: value for key, value in found.items() if key != "host"}


@pytest.mark.slow
@pytest.mark.case("SIM-1")
def test_a_report_does_not_depend_on_hash_seeds() -> None:
    file = EXAMPLES / "perf-basic.yaml"
    one = _report(file, "1", "--until", "5m")

    assert one == _report(file, "2", "--until", "5m")


@pytest.mark.slow
@pytest.mark.case("SIM-2")
def test_a_report_does_not_depend_on_how_it_is_made(small: Path) -> None:
    small.write_text(SMALL.replace("---\n", f"{PAIR}---\n", 1))
    one = _report(small, "1", "--jobs", "1")
    page = str(small.with_name("x.html"))

    assert one == _report(small, "2", "--jobs", "4")
    assert one == _report(small, "3", "--timeline", "--report", page)


@pytest.mark.slow
@pytest.mark.case("SIM-38")
def test_an_interrupt_gives_the_report_so_far(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(SMALL.replace("until: 10m", "until: 30d"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "karpenter", "simulate", str(file), "-o", "json", "--timeline"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        for _ in range(3):  # decisions: the run goes on
            process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=300)
    found = json.loads(told)

    assert 130 == process.returncode
    assert found["scenario"]["complete"] is False
    ended = found["variants"][0]["ended"]
    assert 0 < ended < 30 * 86_400
    file.write_text(SMALL)
    whole = _report(file, "1", "--until", f"{ended:.0f}s")
    for figure in ("cost", "pods", "nodes", "disruption"):
        assert whole["variants"][0][figure] == found["variants"][0][figure]  # type: ignore[index]
