"""The standard scenarios, what is expected of them, and the page that says so."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

import scoreboard
from karpenter.simulate.scenario.reader import ScenarioError, scenarios_in

FIGURES = scoreboard.expected()
OF_TRACES = [name for name in scoreboard.STANDARD if name.startswith("traces/")]
QUICK = ("zone-outage", "black-friday")  # the shortest of them


def test_the_page_is_what_would_be_written() -> None:
    written = scoreboard.PAGE.read_text("utf-8")

    assert scoreboard.page(FIGURES) == written, "run: make scoreboard"


def test_every_scenario_is_a_standard_one() -> None:
    files = [*scenarios_in(scoreboard.FOLDER), *scenarios_in(scoreboard.FOLDER / "traces")]
    names = {file.relative_to(scoreboard.FOLDER).with_suffix("").as_posix() for file in files}

    # Of storm, seeds are run, and no figure of one of them means anything
    assert names - {"storm"} == set(scoreboard.STANDARD)


def test_every_scenario_has_figures_but_those_that_take_too_long() -> None:
    assert set(scoreboard.STANDARD) - FIGURES.keys() <= set(scoreboard.LONG)
    assert FIGURES.keys() <= set(scoreboard.STANDARD)


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in OF_TRACES])
def test_figures_are_those_of_the_scenario_as_it_is(name: str) -> None:
    loaded = scoreboard.read(name)
    held = FIGURES[name]

    assert held["inputs"] == scoreboard.inputs_of(loaded), f"run: tools/scoreboard.py {name}"
    assert list(held["variants"]) == [variant.name for variant in loaded.variants]
    paths = {metric.path for metric in scoreboard.HEADLINES}
    assert all(figures.keys() == paths for figures in held["variants"].values())


@pytest.mark.parametrize("name", OF_TRACES)
def test_a_scenario_of_a_trace_says_what_is_missing(name: str) -> None:
    file = scoreboard.FOLDER / f"{name}.yaml"
    if (trace := _trace_of(file)).exists():
        pytest.skip(f"{trace} is there")

    with pytest.raises(ScenarioError) as error:
        scoreboard.read(name)

    (problem,) = error.value.problems
    assert problem.endswith(f"{trace.name}: no such file or directory")
    assert trace.name in file.read_text("utf-8").partition("apiVersion")[0]


def _trace_of(file: Path) -> Path:
    (line,) = [each for each in file.read_text("utf-8").splitlines() if "file: " in each]
    return file.with_name(line.partition("file: ")[2].rstrip("}"))


def test_only_what_figures_follow_from_counts(tmp_path: Path, monkeypatch: Any) -> None:
    name = "perf-basic"
    text = (scoreboard.FOLDER / f"{name}.yaml").read_text("utf-8")
    shutil.copytree(scoreboard.FOLDER / "pools", tmp_path / "pools")
    before = scoreboard.inputs_of(scoreboard.read(name))
    monkeypatch.setattr(scoreboard, "FOLDER", tmp_path)
    monkeypatch.setattr(scoreboard, "ROOT", tmp_path)

    def inputs(changed: str) -> str:
        (tmp_path / f"{name}.yaml").write_text(changed)
        return scoreboard.inputs_of(scoreboard.read(name))

    assert before == inputs(f"# said otherwise\n{text}")
    assert before == inputs(text.replace("1,000 pods", "A thousand pods"))
    assert before == inputs(f"{text}- {{path: pods.created, min: 1}}\n")
    assert before != inputs(text.replace("replicas: 350", "replicas: 351"))
    assert before != inputs(f"{text}seed: 2\n")


def test_what_moved_is_told() -> None:
    before = FIGURES["cron-thrash"]
    after = copy.deepcopy(before)
    after["variants"]["now"]["nodes.created"] = 71
    after["variants"]["later"] = after["variants"].pop("patient")

    assert [] == list(scoreboard.moved("cron-thrash", before, before))
    assert ["cron-thrash: is new"] == list(scoreboard.moved("cron-thrash", before, None))
    assert [
        "cron-thrash: patient is gone",
        f"cron-thrash: now: nodes.created is 71, and was {before['variants']['now']['nodes.created']}",
        "cron-thrash: later is new",
    ] == list(scoreboard.moved("cron-thrash", after, before))


def test_parts_that_do_not_add_up_are_told() -> None:
    cost = {"dollarHours": 2.0, **{parts: {"a": 1.5, "b": 0.5} for parts in scoreboard.PARTS}}
    series = {"dollarsHourly": [2.0, 2.0], "step": 1800}
    sound = {"name": "now", "expectations": [], "invariants": [], "cost": cost, "series": series}
    odd = {**cost, "byZone": {"a": 1.5}}
    high = {**series, "dollarsHourly": [2.0, 3.0]}
    broken = [{"id": "A2", "promise": "budgets", "broken": [{"text": "pool a"}, {"text": "b"}]}]
    missed = [{"held": False, "sentence": "x is 2"}, {"held": True, "sentence": "y is 1"}]

    def told(**changes: Any) -> list[str]:
        return list(scoreboard.not_held("x", {"variants": [{**sound, **changes}]}))

    assert [] == told()
    assert ["x: now: cost.byZone does not add up to 2.0"] == told(cost=odd)
    assert ["x: now: the series of dollars comes to 2.5, and the cost to 2.0"] == told(series=high)
    assert ["x: now: A2 (budgets): pool a"] == told(invariants=broken)
    assert ["x: now: x is 2"] == told(expectations=missed)


@pytest.mark.slow
@pytest.mark.case("SIM-31")
@pytest.mark.parametrize("name", QUICK)
def test_a_standard_scenario_comes_to_what_is_expected(name: str) -> None:
    loaded = scoreboard.read(name)
    report = scoreboard.measured(loaded)

    now = scoreboard.entry(loaded, report)

    assert [] == list(scoreboard.not_held(name, report))
    assert [] == list(scoreboard.moved(name, now, FIGURES[name]))
