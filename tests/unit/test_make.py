"""What ``make`` installs, and for which target: running needs less than developing."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def _pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def _commands(target: str, venv: Path) -> str:
    """What make would do for a target."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={venv}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("name", ["run", "build", "image"])
def test_pins_agree(name: str) -> None:
    # one .venv holds both, whatever was asked for first
    pins, everything = _pins(name), _pins("dev")
    assert pins
    assert {key: everything.get(key) for key in pins} == pins


@pytest.mark.parametrize(
    "file", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda p: p.stem
)
def test_every_pin_has_hashes(file: Path) -> None:
    entries = re.split(r"^(?=\w)", file.read_text("utf-8"), flags=re.MULTILINE)
    unpinned = [
        entry for entry in entries[1:] if "==" not in entry or "--hash=sha256:" not in entry
    ]

    assert entries[1:]
    assert [] == unpinned
    assert "--require-hashes" in (ROOT / "Makefile").read_text("utf-8")


def test_run_has_what_pyproject_asks_for_and_no_development_tool() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = {re.split(r"[>=\[]", each)[0] for each in project["project"]["dependencies"]}
    assert asked <= _pins("run").keys()
    assert not _pins("run").keys() & {"boto3", "moto", "mypy", "pytest", "ruff"}


def test_the_image_has_what_running_needs_and_the_extra_for_aws() -> None:
    # pins are installed without their dependencies, so one that is missing is missing in the image
    image = _pins("image")
    assert {} == {name: pin for name, pin in _pins("run").items() if image.get(name) != pin}
    assert {"boto3", "botocore"} <= image.keys() - _pins("run").keys()
    assert "moto" not in image


@needs_make
def test_run_installs_only_what_running_needs(tmp_path: Path) -> None:
    said = _commands("run", tmp_path / "venv")
    assert "-r requirements/run.txt" in said
    assert "dev.txt" not in said
    assert "sandbox --nodes 1 --example" in said


@needs_make
@pytest.mark.parametrize("target", ["test", "check", "slow", "bench", "walk-aws", "install"])
def test_development_adds_its_tools_to_the_same_environment(target: str, tmp_path: Path) -> None:
    said = _commands(target, tmp_path / "venv")
    assert said.count("-m venv") == 1
    assert 0 < said.index("-r requirements/run.txt") < said.index("-r requirements/dev.txt")


@needs_make
def test_development_after_run_fetches_only_the_rest(tmp_path: Path) -> None:
    (tmp_path / ".runs").touch()
    said = _commands("test", tmp_path)
    assert "-r requirements/run.txt" not in said
    assert "-r requirements/dev.txt" in said


@needs_make
@pytest.mark.parametrize("target", ["run", "test"])
def test_nothing_is_installed_twice(target: str, tmp_path: Path) -> None:
    for stamp in (".runs", ".develops"):
        (tmp_path / stamp).touch()
    assert "pip install" not in _commands(target, tmp_path)


@needs_make
def test_every_long_step_says_what_it_does(tmp_path: Path) -> None:
    lines = _commands("test", tmp_path / "venv").splitlines()
    for number, line in enumerate(lines):
        if "pip install" in line or "-m venv" in line:
            assert lines[number - 1].startswith("echo "), line


@needs_make
def test_check_looks_at_every_python_file_of_the_project(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    typed = project["tool"]["mypy"]["files"]
    said = _commands("check", tmp_path / "venv")
    assert (
        re.findall(r"ruff (?:format --check|check) (.+)$", said, re.MULTILINE)
        == [" ".join(typed)] * 2
    )
    passed_over = {".venv", "build", "dist"}
    folders = [each for each in ROOT.iterdir() if each.is_dir() and each.name not in passed_over]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 100
    assert [p for p in files if not any(p.is_relative_to(ROOT / each) for each in typed)] == []
