"""``karpenter plan`` at a terminal: progress is shown while it runs, and erased afterwards."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from helpers.cluster_texts import POOL_TEXT
from helpers.terminal import Terminal

SIZES: Final = [pytest.param(80, 24, id="80x24"), pytest.param(120, 40, id="120x40")]
POD: Final = """\
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - {name: main, image: pause, resources: {requests: {cpu: "5"}}}
"""
MANIFESTS: Final = f"{POOL_TEXT}      requirements: []\n{POD}"
BROKEN: Final = MANIFESTS.replace("requirements: []", "requirements: 7")
# The program with a planner that blocks until a test writes into the pipe
HELD_PLANNER: Final = """
from pathlib import Path
from karpenter.cli.app import main
from karpenter.inquiry.question import Question

planned = Question.provisioning

def held(asked):
    Path("pipe").read_bytes()
    return planned(asked)

Question.provisioning = held
main()
"""
PROGRAM: Final = ("-m", "karpenter")


@contextmanager
def plan(
    folder: Path,
    columns: int,
    lines: int,
    file: str,
    program: Sequence[str] = PROGRAM,
    **environment: str,
) -> Iterator[Terminal]:
    """A plan that waits for the pipe."""
    (folder / "manifests.yaml").write_text(MANIFESTS)
    os.mkfifo(folder / "pipe")
    command = [sys.executable, *program, "plan", "-f", file]
    terminal = Terminal(
        command, columns=columns, lines=lines, folder=folder, environment=environment
    )
    try:
        yield terminal
    finally:
        terminal.close()


def write(pipe: Path, text: str) -> None:
    """Write into the pipe as soon as the program reads it; a program that has ended never does."""
    threading.Thread(target=pipe.write_text, args=(text,), daemon=True).start()


def lines_of(terminal: Terminal) -> list[str]:
    return [line for line in terminal.screen.everything if line]


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_reading_is_said_until_it_is_done(tmp_path: Path, columns: int, lines: int) -> None:
    with plan(tmp_path, columns, lines, "pipe") as terminal:
        terminal.see("reading …")
        assert 1 == len(lines_of(terminal))
        write(tmp_path / "pipe", MANIFESTS)
        assert 0 == terminal.wait()
        assert terminal.shows_keys
        assert terminal.screen.shows_cursor

    assert terminal.screen.everything[0].startswith("1 node to create")
    assert not any("…" in line for line in lines_of(terminal))


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_planning_is_said_until_it_is_done(tmp_path: Path, columns: int, lines: int) -> None:
    with plan(tmp_path, columns, lines, "manifests.yaml", ("-c", HELD_PLANNER)) as terminal:
        terminal.see("planning …")
        assert 1 == len(lines_of(terminal))
        write(tmp_path / "pipe", "go")
        assert 0 == terminal.wait()
        assert terminal.screen.shows_cursor
    slow = lines_of(terminal)
    (tmp_path / "pipe").unlink()
    with plan(tmp_path, columns, lines, "manifests.yaml") as terminal:
        assert 0 == terminal.wait()

    assert slow == lines_of(terminal)
    assert not any("…" in line for line in slow)


def test_an_error_is_all_that_stays(tmp_path: Path) -> None:
    with plan(tmp_path, 80, 24, "pipe") as terminal:
        terminal.see("reading …")
        write(tmp_path / "pipe", BROKEN)
        assert 2 == terminal.wait()
        assert terminal.screen.shows_cursor

    assert terminal.screen.everything[0].startswith("error: pipe:")
    assert not any("…" in line for line in lines_of(terminal))


def test_control_c_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with plan(tmp_path, 80, 24, "manifests.yaml", ("-c", HELD_PLANNER)) as terminal:
        terminal.see("planning …")
        terminal.press_control_c()
        assert 130 == terminal.wait()
        assert terminal.shows_keys
        assert terminal.screen.shows_cursor

    # The terminal itself shows the key, where it has not been erased with the rest
    assert {*lines_of(terminal)} <= {"^C", "Aborted."}


def test_a_terminal_that_cannot_erase_is_told_nothing(tmp_path: Path) -> None:
    with plan(tmp_path, 80, 24, "pipe", TERM="dumb") as terminal:
        write(tmp_path / "pipe", MANIFESTS)
        assert 0 == terminal.wait()

    assert not any("…" in line for line in lines_of(terminal))
