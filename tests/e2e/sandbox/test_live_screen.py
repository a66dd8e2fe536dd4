"""What is drawn anew at a terminal: keys, sizes, and every way in which it may come to an end."""

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from helpers.terminal import PATIENCE, Terminal

SIZES: Final = [pytest.param(80, 24, id="80x24"), pytest.param(120, 40, id="120x40")]
# Draws a number that grows, says every tenth, leaves a file, and fails when it is sent SIGUSR1
COUNTING: Final = """
import asyncio, signal
from rich.console import Group
from karpenter_sandbox.command.live_screen import LiveScreen
from karpenter.console.screen import words

async def main():
    broken, count = asyncio.Event(), 0
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, broken.set)

    def layout(columns, lines):
        first = words(f"{columns} columns and {lines} lines, {'x' * (columns // 2)}")
        return Group(first, words(f"drawn {count} times"), words(""))

    print("Hello")
    with LiveScreen(layout, ["Hello"]) as shown, shown.guarded():
        while not broken.is_set():
            count += 1
            shown.say([words(f"said {count}")] if count % 10 == 0 else [])
            shown.refresh()
            if count == 20:
                open("twenty", "w").close()
            await asyncio.sleep(0.01)
        print("printed on the way")
        raise SystemExit("broken")

asyncio.run(main())
"""
# What a shell does with a job: gives it the terminal, and takes it back when it stops or ends.
# With & as its first argument it begins without
SHELL: Final = """
import os, signal, sys, termios, time

def modes():
    held = termios.tcgetattr(0)[3]
    return "as before" if held & termios.ECHO and held & termios.ICANON else "unusable"

signal.signal(signal.SIGTTOU, signal.SIG_IGN)
background = sys.argv[1] == "&"
job = os.fork()
if not job:
    os.setpgid(0, 0)
    if not background:
        os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1 + background:]])
if background:
    while not os.path.exists("twenty"):
        time.sleep(0.01)
    print("shell>", end="", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print(f"ended, terminal {modes()}", flush=True)
        break
    print(f"stopped, terminal {modes()}")
    print("shell>", end="", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""


def counting(
    folder: Path, columns: int = 80, lines: int = 24, shell: Sequence[str] = ()
) -> Terminal:
    command = [sys.executable, *shell, "-c", COUNTING]
    return Terminal(command, columns=columns, lines=lines, folder=folder)


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_keys_leave_nothing_on_the_screen(tmp_path: Path, columns: int, lines: int) -> None:
    with counting(tmp_path, columns, lines) as terminal:
        terminal.see("drawn ")
        assert not terminal.shows_keys
        terminal.press("\n\nls -l\n\x1b[A\t\n")
        terminal.see("said 100")
        terminal.send(signal.SIGUSR1)
        terminal.wait()
    said = [line for line in terminal.screen.everything if line]

    assert ["Hello", *(f"said {n}" for n in range(10, 101, 10))] == said[:11]
    assert [1, 1] == [sum(each in line for line in said) for each in ("columns and", "drawn ")]
    assert not any("ls" in line for line in said)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda terminal: terminal.send(signal.SIGUSR1), id="an error"),
        pytest.param(lambda terminal: terminal.press("\x03"), id="Ctrl-C"),
        pytest.param(lambda terminal: terminal.press("\x1c"), id="SIGQUIT"),
        pytest.param(lambda terminal: terminal.send(signal.SIGHUP), id="SIGHUP"),
    ],
)
def test_the_terminal_is_as_before_however_it_ends(
    tmp_path: Path, end: Callable[[Terminal], None]
) -> None:
    with counting(tmp_path) as terminal:
        terminal.see("drawn ")
        assert not terminal.shows_keys
        end(terminal)
        assert 0 != terminal.wait()
        assert terminal.shows_keys


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_control_s_stops_nothing(tmp_path: Path, columns: int, lines: int) -> None:
    with counting(tmp_path, columns, lines) as terminal:
        terminal.see("drawn ")
        terminal.press("\x13")
        terminal.see("said 100")
        assert not terminal.heeds_control_s
        terminal.press_control_c()
        terminal.wait()
        assert terminal.heeds_control_s


def test_the_program_goes_on_while_the_terminal_takes_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "far")
    far = os.open(tmp_path / "far", os.O_RDONLY | os.O_NONBLOCK)
    # Draws more than any pipe or terminal buffer holds, and ends after that
    busy = COUNTING.replace("0.01", "0").replace("'x' * (columns // 2)", "'x' * 5000")
    busy = busy.replace("count == 20:", "count == 200:")
    busy = busy.replace('open("twenty", "w").close()', 'open("far", "w").write("there")')
    command = [sys.executable, "-c", busy]
    terminal = Terminal(command, columns=10000, lines=24, folder=tmp_path)
    try:
        assert select.select([far], [], [], PATIENCE)[0], "it waits for the terminal"
        terminal.see("said 210")
        terminal.send(signal.SIGUSR1)
        terminal.wait()
    finally:
        os.close(far)
        terminal.close()

    said = [line for line in terminal.screen.everything if line.startswith("said ")]
    assert [f"said {number}" for number in range(10, 201, 10)] == said[:20]


def test_what_others_print_stays_above_in_a_line_of_its_own(tmp_path: Path) -> None:
    with counting(tmp_path) as terminal:
        terminal.see("drawn ")
        terminal.send(signal.SIGUSR1)
        terminal.wait()
    lines = terminal.screen.everything

    first, last = lines.index("printed on the way"), lines.index("broken")
    assert lines[first + 1].startswith("80 columns and 24 lines")
    assert first < last


def test_control_z_gives_the_terminal_back_until_the_job_goes_on(tmp_path: Path) -> None:
    with counting(tmp_path, shell=["-c", SHELL]) as terminal:
        terminal.see("said 10")
        terminal.press("\x1a")
        terminal.see("stopped, terminal as before")
        terminal.see("shell>")
        terminal.press("fg\n")
        terminal.see("columns and", times=2)
        terminal.see("said ", times=3)
        assert not terminal.shows_keys
        terminal.press("\x1a")
        terminal.see("stopped, terminal as before", times=2)
        terminal.see("shell>", times=2)
        terminal.press("fg\n")
        terminal.see("columns and", times=3)
        terminal.press("\x03")
        terminal.see("ended, terminal as before")
        terminal.wait()
    lines = terminal.screen.everything

    # What was drawn before stays where it was: nothing of the shell is overwritten
    assert 2 == lines.count("shell>fg")
    assert 3 == sum("drawn " in line for line in lines)


def test_nothing_is_drawn_while_others_have_the_terminal(tmp_path: Path) -> None:
    with counting(tmp_path, shell=["-c", SHELL, "&"]) as terminal:
        terminal.see("shell>")
        assert terminal.shows_keys
        terminal.press("fg\n")
        terminal.see("drawn ")
        assert not terminal.shows_keys
        terminal.press("\x03")
        terminal.see("ended, terminal as before")
        terminal.wait()

    assert ["Hello", "shell>fg", "said 10", "said 20"] == terminal.screen.everything[:4]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        pytest.param(120, 40, id="larger"),
        pytest.param(60, 12, id="smaller"),
        pytest.param(20, 24, id="narrower than what stands there"),
        pytest.param(20, 5, id="very small"),
    ],
)
def test_another_size_leaves_no_stale_lines(tmp_path: Path, columns: int, lines: int) -> None:
    with counting(tmp_path) as terminal:
        terminal.see("said 30")
        terminal.resize(columns, lines)
        terminal.see(f"{columns} columns and")
        terminal.see("said 50")
        terminal.send(signal.SIGUSR1)
        terminal.wait()
    everything, seen = terminal.screen.everything, terminal.screen.visible

    # A shrinking terminal scrolls lines out before the program gets SIGWINCH
    assert 1 == sum("drawn " in line for line in seen)
    assert not any("80 columns" in line for line in seen)
    assert ["said 40", "said 50"] == [line for line in everything if line in ("said 40", "said 50")]
