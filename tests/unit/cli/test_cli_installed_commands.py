"""Installed packages add commands; a package that cannot be loaded takes nothing else with it."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest
import typer

from helpers.commands import run
from karpenter.cli import installed_commands

GREETING = typer.Typer(help="Say hello.")
NO_COMMAND = "nothing"


@GREETING.command()
def greet(name: str) -> None:
    """Say hello to somebody."""
    typer.echo(f"hello {name}")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "greet": f"{__name__}:GREETING",
        "missing": "no_such_package.command:app",
        "wrong": f"{__name__}:NO_COMMAND",
        "plan": f"{__name__}:GREETING",
    }
    entries = [EntryPoint(name, value, installed_commands.GROUP) for name, value in values.items()]

    def entry_points(**_: Any) -> list[EntryPoint]:
        return entries

    monkeypatch.setattr(installed_commands, "entry_points", entry_points)


@pytest.mark.usefixtures("installed")
class TestInstalledCommands:
    def test_it_runs(self) -> None:
        ran = run("greet", "world")

        assert (0, "hello world\n") == (ran.code, ran.out)

    def test_help_lists_it(self) -> None:
        ran = run("--help")

        assert ran.code == 0
        assert "Say hello to somebody." in ran.out
        assert ran.out.index("controller") < ran.out.index("greet")

    def test_a_built_in_command_wins(self) -> None:
        ran = run("plan", "--help")

        assert "--instance-types" in ran.out

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("missing", "from no_such_package.command:app: ModuleNotFoundError: No module named"),
            ("wrong", f"from {__name__}:NO_COMMAND, which is no typer.Typer"),
        ],
    )
    def test_one_that_cannot_be_loaded_says_why(self, name: str, reason: str) -> None:
        ran = run(name, "--some", "option")

        assert ran.code == 1
        assert f"command {name} cannot be loaded {reason}" in ran.err
        assert "upgrade or uninstall" in ran.err

    def test_help_survives_one_that_cannot_be_loaded(self) -> None:
        ran = run("--help")

        assert ran.code == 0
        assert "Cannot be loaded" in ran.out

    def test_an_unknown_command_is_bad_usage(self) -> None:
        ran = run("nonsense")

        assert ran.code == 2


def test_the_sandbox_is_one_of_them() -> None:
    ran = run("sandbox", "--help")

    assert ran.code == 0
    assert "Examples" in ran.out
    assert "interrupt" in ran.out
