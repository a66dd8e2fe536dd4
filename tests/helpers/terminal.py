"""A terminal for tests: runs a command at a pseudo-terminal, and shows what a person would see.

It understands what the program may send: text, line ends, colours, and the few controls with which
a part of the screen is drawn anew. Any other control fails the test, because its
effect is not modelled.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PATIENCE: Final = 60.0  # for something to be seen; a command that needs it has failed
_CONTROL: Final = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")
_UNFINISHED: Final = re.compile(r"\x1b(\[[?\d;]*)?$")


class Screen:
    """What text with controls leaves on a screen, and in the lines that have moved up and out."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._all = [""]
        self._is_wrapped = [False]  # whether a line goes on in the next one
        self._top = 0  # the first line on the screen; those above cannot change
        self._line = self._column = 0
        self._rest = ""
        self.shows_cursor = True

    @property
    def everything(self) -> list[str]:
        """Every line, from the first one that was ever printed."""
        return [line.rstrip() for line in self._all]

    @property
    def visible(self) -> list[str]:
        """The lines that are on the screen."""
        return self.everything[self._top :]

    def feed(self, text: str) -> None:
        """Take in what a program sends."""
        text, self._rest = self._rest + text, ""
        position = 0
        while position < len(text):
            letter = text[position]
            if letter == "\x1b":
                if _UNFINISHED.match(text, position):
                    self._rest = text[position:]
                    return
                control = _CONTROL.match(text, position)
                assert control is not None, f"unknown control {text[position : position + 10]!r}"
                self._obey(control[1], control[2])
                position = control.end()
                continue
            self._put(letter)
            position += 1

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self._column = 0
        elif letter == "\n":
            self._go_down()
        else:
            assert letter.isprintable(), f"unknown control {letter!r}"
            if self._column == self.columns:
                self._is_wrapped[self._line] = True
                self._column = 0
                self._go_down()
            line = self._all[self._line].ljust(self._column)
            self._all[self._line] = line[: self._column] + letter + line[self._column + 1 :]
            self._column += 1

    def _go_down(self) -> None:
        self._line += 1
        if self._line == len(self._all):
            self._all.append("")
            self._is_wrapped.append(False)
        self._top = max(self._top, self._line - self.lines + 1)

    def resize(self, columns: int, lines: int) -> None:
        """Have another size: long lines are wrapped anew, and as many are seen as there is room."""
        whole: list[tuple[str, bool]] = []  # lines as they were written, and if the cursor is there
        text, has_cursor = "", False
        for at, line in enumerate(self._all):
            text, has_cursor = text + line, has_cursor or at == self._line
            if not self._is_wrapped[at]:
                whole.append((text, has_cursor))
                text, has_cursor = "", False
        self.columns, self.lines = columns, lines
        self._all, self._is_wrapped = [], []
        for text, has_cursor in whole:
            pieces = [text[at : at + columns] for at in range(0, len(text), columns)] or [""]
            self._all += pieces
            self._is_wrapped += [True] * (len(pieces) - 1) + [False]
            if has_cursor:
                self._line = len(self._all) - 1
        self._column = min(self._column, columns - 1)
        self._top = max(0, min(len(self._all) - lines, self._line))

    def _obey(self, argument: str, control: str) -> None:
        if control == "m":  # colours
            return
        if argument == "?25" and control in "hl":
            self.shows_cursor = control == "h"
        elif control == "A":  # up, and no further than the screen goes
            self._line = max(self._top, self._line - int(argument or 1))
        elif (argument, control) == ("2", "K"):
            self._all[self._line] = ""
        elif (argument, control) == ("", "H"):
            self._line, self._column = self._top, 0
        elif (argument, control) == ("", "J"):  # from the cursor on
            self._all[self._line] = self._all[self._line][: self._column]
            self._is_wrapped[self._line] = False
            del self._all[self._line + 1 :], self._is_wrapped[self._line + 1 :]
        else:
            raise AssertionError(f"unknown control {argument!r} {control!r}")


class Terminal:
    """A command that runs at a pseudo-terminal of a given size."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int,
        lines: int,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = Screen(columns, lines)
        self._cut = b""  # the beginning of a character whose end has not come yet
        self._end, theirs = os.openpty()
        self._set_size(columns, lines)
        unset = ("COLUMNS", "LINES", "NO_COLOR", "KUBECONFIG", "TTY_COMPATIBLE", "FORCE_COLOR")
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        # A session leader opens it first, which makes it the controlling terminal: Ctrl-C works
        opened = ["/bin/sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(theirs)]
        self._process = subprocess.Popen(
            [*opened, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**inherited, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
            preexec_fn=_heed_signals,  # noqa: PLW1509 it only resets signals
        )
        os.close(theirs)

    def see(self, text: str, times: int = 1) -> None:
        """Wait until so many lines, on the screen or above it, have this in them."""
        deadline = time.monotonic() + PATIENCE
        while sum(text in line for line in self.screen.everything) < times:
            assert time.monotonic() < deadline, "\n".join(self.screen.everything)
            assert self._read(), f"it ended before {text!r}:\n" + "\n".join(self.screen.everything)

    def press(self, keys: str) -> None:
        """Press keys; Ctrl-C is ``\\x03`` and Ctrl-Z ``\\x1a``."""
        os.write(self._end, keys.encode())

    def press_control_c(self) -> None:
        """Interrupt the command as the terminal does."""
        self.press("\x03")

    def send(self, number: signal.Signals) -> None:
        """Send the command a signal."""
        self._process.send_signal(number)

    def resize(self, columns: int, lines: int) -> None:
        """Draw the window larger or smaller."""
        self._set_size(columns, lines)
        self.screen.resize(columns, lines)

    @property
    def shows_keys(self) -> bool:
        """Whether keys that are pressed are seen, and can be edited before they are read."""
        modes = termios.tcgetattr(self._end)[3]
        wanted = termios.ECHO | termios.ICANON
        assert modes & wanted in (0, wanted), "the terminal is half of what it was"
        return bool(modes & wanted)

    @property
    def heeds_control_s(self) -> bool:
        """Whether Ctrl-S stops what is printed."""
        return bool(termios.tcgetattr(self._end)[0] & termios.IXON)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait(self) -> int:
        """Read on until the command has ended, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline, "\n".join(self.screen.everything)
        return self._process.wait(PATIENCE)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the command, if it has not ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE)
        os.close(self._end)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._end], [], [], PATIENCE)
        assert ready, "nothing was printed for too long"
        with contextlib.suppress(OSError):  # EIO on Linux: the other end is closed
            data = os.read(self._end, 65536)
            self._decode(data)
            return bool(data)
        return False

    def _decode(self, data: bytes) -> None:
        data = self._cut + data
        try:
            text, self._cut = data.decode(), b""
        except UnicodeDecodeError as error:
            text, self._cut = data[: error.start].decode(), data[error.start :]
        self.screen.feed(text)


def _heed_signals() -> None:
    """Reset the signals that the test run may ignore (nohup, background job), as a shell does."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
