"""Asking for help loads nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "aiohttp",
    "boto3",
    "cel",
    "highspy",
    "hypothesis",
    "jsonschema_rs",
    "msgspec",
    "numpy",
    "prompt_toolkit",
    "pydantic",
    "yaml",
}
PROGRAM = """
import atexit, sys
atexit.register(lambda: print("LOADED", *sorted(sys.modules), file=sys.stderr))
from karpenter.cli.app import main
main()
"""


# Typer itself checks the options of a command with pydantic.
OF_TYPER = {"pydantic"}


def loaded_by(*args: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *args], capture_output=True, text=True, check=False
    )
    (loaded,) = [line for line in done.stderr.splitlines() if line.startswith("LOADED ")]
    modules = {name.partition(".")[0] for name in loaded.split()[1:]}
    assert "typer" in modules
    return modules


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_help_imports_no_heavy_library(flag: str) -> None:
    assert set() == loaded_by(flag) & HEAVY


@pytest.mark.parametrize(
    "args",
    [
        ["convert", "--help"],
        ["crds", "--help"],
        ["plan", "--help"],
        ["plan", "--schema"],
        ["explain", "--help"],
        ["explain", "pod", "--help"],
        ["nonsense"],
    ],
)
def test_help_of_a_command_imports_no_heavy_library(args: list[str]) -> None:
    assert set() == loaded_by(*args) & HEAVY - OF_TYPER


def test_printing_the_definitions_loads_no_validator() -> None:
    assert set() == loaded_by("crds") & {"cel", "jsonschema_rs", "msgspec"}


def test_planning_for_files_loads_neither_client_nor_telemetry(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\n"
        "kind: Pod\n"
        "metadata: {name: web}\n"
        "spec: {containers: [{name: web, image: web}]}\n",
        "utf-8",
    )

    loaded = loaded_by("plan", str(file))

    assert set() == loaded & {"aiohttp", "asyncio", "prometheus_client", "structlog"}
