"""Workflows run what people run, on every Python the project claims, and with no more rights than that."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return content


def _steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in _read(path)["jobs"].values() for step in job["steps"]]


def _commands(name: str) -> list[str]:
    steps = _steps(ROOT / f".github/workflows/{name}.yml")
    return [step["run"] for step in steps if "run" in step]


def test_there_is_one_for_each_tier() -> None:
    assert [path.stem for path in FILES] == ["check", "fast", "slow"]


def test_together_they_do_what_has_to_hold_before_a_change_lands() -> None:
    wanted = re.findall(r"^ *(make .+)$", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    done = [line for path in FILES for line in _commands(path.stem) if line.startswith("make ")]
    assert wanted == done


@pytest.mark.parametrize("name", ["check", "fast"])
def test_every_python_that_is_claimed_is_tried(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    classified = re.findall(r"Python :: (3\.\d+)'", str(project["classifiers"]))
    (job,) = _read(ROOT / f".github/workflows/{name}.yml")["jobs"].values()
    assert classified == job["strategy"]["matrix"]["python"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rights_time_and_actions_are_bounded(path: Path) -> None:
    workflow = _read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"] > 0
    for step in _steps(path):
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
