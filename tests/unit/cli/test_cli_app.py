"""The program explains itself, knows its version, and uses colour only where it helps."""

import re
import subprocess
import sys

import pytest
import typer

from helpers.commands import run
from karpenter import __version__
from karpenter.console import manifest_files, output


def test_version() -> None:
    ran = run("--version")

    assert (0, f"karpenter {__version__}\n") == (ran.code, ran.out)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands(flag: str) -> None:
    ran = run(flag)

    assert ran.code == 0
    assert all(command in ran.out for command in ("plan", "explain", "convert", "crds"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("convert", ["Examples", "--node-role", "--legacy-defaults", "--recursive", "Provisioner"]),
        ("crds", ["Examples", "--legacy", "kubectl apply"]),
        ("plan", ["Examples", "--instance-types", "--set", "--now", "--only", "--time-budget"]),
    ],
)
def test_help_of_a_command_has_examples(command: str, words: list[str]) -> None:
    ran = run(command, "--help")

    assert ran.code == 0
    assert [] == [word for word in words if word not in ran.out]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "controller",
        "plan",
        "explain",
        "explain pod",
        "explain node",
        "explain nodepool",
        "explain deployment",
        "sandbox",
        "sandbox interrupt",
        "sandbox fault",
        "convert",
        "crds",
    ],
)
def test_help_shows_what_is_typed_and_no_types_of_python(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    ran = run(*command.split(), "--help")

    assert ran.code == 0
    shown = re.findall(r"<\w+|\b(?:bool|str|int|float)\b|list\[|range", ran.out)
    assert [] == shown


@pytest.mark.parametrize("columns", ["60", "80", "120"])
@pytest.mark.parametrize("command", ["controller", "sandbox", "plan", "convert", "explain pod"])
def test_nothing_on_a_help_page_is_cut(
    command: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_columns(int(columns), monkeypatch)

    shown = run(*command.split(), "--help").out

    assert "…" not in shown
    if command == "controller":
        assert "--disable-cluster-state-observability" in shown


def have_columns(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Print for so many columns; the library reads the width once, whichever test is the first."""
    monkeypatch.setenv("COLUMNS", str(count))
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", count)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["plan", "--output", "xml"], "'xml' is not one of 'table', 'json', 'yaml'."),
        (["sandbox", "--port", "x"], "'x' is not a whole number."),
        (["sandbox", "--port", "65536"], "65536 is more than 65535."),
        (["sandbox", "--nodes", "-1"], "-1 is less than 0."),
        (["sandbox", "--speed", "fast"], "'fast' is not a number."),
    ],
)
def test_a_value_that_cannot_be_right_is_named(
    args: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_columns(120, monkeypatch)

    ran = run(*args)

    assert 2 == ran.code
    assert f"Invalid value for '{args[1]}'" in ran.err
    assert f": {said}" in ran.err


def test_help_lists_the_choices_of_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    ran = run("plan", "--help")

    assert " table|json|yaml " in ran.out


def test_a_mistyped_command_is_guessed() -> None:
    ran = run("convrt")

    assert ran.code == 2
    assert "Did you mean 'convert'?" in ran.err


def test_without_arguments_the_help_is_shown() -> None:
    ran = run()

    assert ran.code == 2
    assert "Usage: karpenter" in ran.out + ran.err


def test_python_runs_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "karpenter", "--version"], capture_output=True, text=True, check=True
    )

    assert f"karpenter {__version__}\n" == done.stdout


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manifest_files, "load_documents", interrupt)

    ran = run("convert", "-")

    assert (130, "", "") == (ran.code, ran.out, ran.err)


@pytest.mark.parametrize(
    ("is_terminal", "environment", "is_coloured"),
    [
        pytest.param(True, {}, True, id="a terminal"),
        pytest.param(False, {}, False, id="a pipe"),
        pytest.param(True, {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(True, {"TERM": "dumb"}, False, id="a dumb terminal"),
    ],
)
def test_colour(
    is_terminal: bool,
    environment: dict[str, str],
    is_coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)

    output.error("broken")

    shown = capsys.readouterr().err
    assert is_coloured == ("\x1b[" in shown)
    assert shown.endswith(" broken\n")


def test_with_standard_error_closed_the_exit_code_still_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)

    with pytest.raises(typer.Exit) as ended:
        output.fail("nobody reads this")

    assert output.EXIT_BAD_INPUT == ended.value.exit_code


def test_a_closed_standard_output_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    with pytest.raises(typer.Exit) as ended:
        output.write("text")

    assert ended.value.exit_code == output.EXIT_FAILED
    said = capsys.readouterr().err
    assert said == "error: the result could not be written: standard output is closed\n"


def test_keys_are_in_the_order_people_expect() -> None:
    item = {
        "status": {},
        "data": {},
        "spec": {"b": 1, "a": 2},
        "metadata": {"annotations": {}, "uid": "x", "name": "n"},
        "kind": "K",
        "apiVersion": "v1",
    }

    ordered = output.in_order(item)

    assert ["apiVersion", "kind", "metadata", "spec", "status", "data"] == list(ordered)
    assert ["name", "annotations", "uid"] == list(ordered["metadata"])
    assert ["b", "a"] == list(ordered["spec"])
