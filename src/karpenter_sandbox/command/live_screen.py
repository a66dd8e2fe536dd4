"""A terminal area that is redrawn in place, below lines that stay.

Terminal echo is off meanwhile: an echoed Enter would scroll the screen by a line that is not
accounted for. The terminal's settings are restored whenever another program may use it: when this
one ends in any way, when Ctrl-Z stops it, and while it runs in the background, where nothing is
drawn.

A terminal may stop taking output: Ctrl-S does that, and so does a connection that hangs. The first
is turned off meanwhile. For the second a thread does the writing, and frames are omitted until the
terminal goes on, so that nothing else in the process waits for it.

After a resize it is unknown how the terminal has wrapped its content, so everything is redrawn.
"""

import asyncio
import contextlib
import io
import os
import queue
import shutil
import signal
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from karpenter.console.screen import words

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import RenderableType
    from rich.text import Text

_KEPT: Final = 200  # lines kept for a redraw, more than a screen shows
_INPUT_MODES: Final = 0  # indexes into the attributes of termios
_LOCAL_MODES: Final = 3
_UNSEEN: Final = termios.ECHO | termios.ECHONL | termios.ICANON
_FLOW_CONTROL: Final = termios.IXON  # Ctrl-S and Ctrl-Q
_LONGEST_FAREWELL: Final = 5.0  # real seconds to wait at the end for a blocked terminal
# Signals that end or stop the program at once; those for an orderly end are handled elsewhere
_ABRUPT: Final = (signal.SIGTSTP, signal.SIGQUIT, signal.SIGHUP)
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_HOME, _ERASE_BELOW = "\x1b[H", "\x1b[J"


class Keys:
    """The keyboard input of a terminal: echo and pending keys."""

    def __init__(self, terminal: TextIO) -> None:
        """Change nothing yet."""
        self._fd = terminal.fileno()
        self._before: list[int | list[bytes | int]] | None = None

    @property
    def are_ours(self) -> bool:
        """Whether this program is in the terminal's foreground."""
        return self._group() == os.getpgrp()

    @property
    def are_for_others(self) -> bool:
        """Whether another program is in the terminal's foreground."""
        return self._group() not in (None, os.getpgrp())

    def hide(self) -> None:
        """Turn echo and Ctrl-S off; Ctrl-C and Ctrl-Z still work."""
        if not self.are_ours:
            return  # tcsetattr from the background raises SIGTTOU, which stops it
        with contextlib.suppress(termios.error):
            modes = termios.tcgetattr(self._fd)
            # checked at every refresh: a shell restores its own modes while the program is stopped
            if modes[_LOCAL_MODES] & _UNSEEN or modes[_INPUT_MODES] & _FLOW_CONTROL:
                self._before = self._before or list(modes)
                modes[_LOCAL_MODES] &= ~_UNSEEN
                modes[_INPUT_MODES] &= ~_FLOW_CONTROL
                termios.tcsetattr(self._fd, termios.TCSANOW, modes)

    def restore(self) -> None:
        """Restore the terminal's settings, and discard pending input."""
        before, self._before = self._before, None
        if before is not None and self.are_ours:
            with contextlib.suppress(termios.error):
                termios.tcflush(self._fd, termios.TCIFLUSH)
                termios.tcsetattr(self._fd, termios.TCSANOW, before)

    def _group(self) -> int | None:
        """The foreground process group; None if this is not the program's controlling terminal."""
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None


class _Writer:
    """Writes to a terminal in a thread, and reports whether all output has been accepted."""

    def __init__(self, terminal: TextIO) -> None:
        """Write nothing yet."""
        self._fd = terminal.fileno()
        self._texts: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._pending = 0  # texts that the thread has not written yet
        self._changed = threading.Condition()
        self._error: OSError | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the terminal has not taken all of it yet."""
        return self._pending > 0

    def write(self, text: str) -> None:
        """Begin to write.

        Raises:
            OSError: the terminal is gone, as an earlier write has found out.
        """
        if self._error is not None:
            raise self._error
        if self._thread is None:
            # A daemon, so that the process can end while the terminal takes nothing
            self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
            self._thread.start()
        with self._changed:
            self._pending += 1
        self._texts.put(text.encode(errors="replace"))

    def is_done_within(self, seconds: float) -> bool:
        """Wait until everything is written, at most so long, and say whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def _run(self) -> None:
        while True:
            left = self._texts.get()
            try:
                while left:
                    left = left[os.write(self._fd, left) :]
            except OSError as error:
                self._error = error
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()


class LiveScreen:
    """Lines that stay, and below them an area that is redrawn."""

    def __init__(
        self, layout: "Callable[[int, int], RenderableType]", before: Iterable[str] = ()
    ) -> None:
        """Draw nothing yet.

        Args:
            layout: the redrawn area, for so many columns and lines.
            before: lines that stand on the screen already.
        """
        from rich.console import Console

        self._file: Final[TextIO] = sys.stdout
        self._console: Final = Console(file=self._file, highlight=False, markup=False, emoji=False)
        self._keys: Final = Keys(self._file)
        self._writer: Final = _Writer(self._file)
        self._layout: Final = layout
        self._before: Final = [words(line) for line in before]
        self._said: Final[deque[Text]] = deque(maxlen=_KEPT)  # lines that are on the screen
        self._unseen: Final[list[Text]] = []
        self._printed: Final = _Lines(self.say)
        self._others: Final = contextlib.ExitStack()
        self._height = 0  # of the redrawn area; 0: nothing is drawn
        self._size = self.size

    @property
    def size(self) -> tuple[int, int]:
        """How many columns and lines the terminal has."""
        size = shutil.get_terminal_size()
        return max(1, size.columns), max(1, size.lines)

    @property
    def is_behind(self) -> bool:
        """Whether lines wait to be drawn, or the terminal was resized."""
        if self._keys.are_for_others or self._writer.is_busy:
            return False
        return bool(self._unseen) or not self._height or self._size != self.size

    def say(self, lines: "Iterable[Text]") -> None:
        """Have lines stay above, from the next refresh on."""
        self._unseen.extend(lines)

    def refresh(self) -> None:
        """Draw all changes, unless another program has the terminal or it takes nothing."""
        if not self._keys.are_for_others and not self._writer.is_busy:
            self._keys.hide()
            self._draw()

    def __enter__(self) -> "LiveScreen":
        """Capture other output of the process as lines that stay."""
        self._file.flush()
        self._others.enter_context(contextlib.redirect_stdout(self._printed))
        self._others.enter_context(contextlib.redirect_stderr(self._printed))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        """Draw pending lines and restore the terminal, also after an exception."""
        self._others.close()
        self._printed.flush()
        with contextlib.suppress(OSError):  # the terminal is gone
            if self._writer.is_done_within(_LONGEST_FAREWELL):
                self._draw()
            self._leave()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Leave the terminal in order also where a signal stops or ends the program."""
        loop = asyncio.get_running_loop()
        caught = [number for number in _ABRUPT if signal.getsignal(number) is signal.SIG_DFL]

        def leave(number: signal.Signals) -> None:
            with contextlib.suppress(OSError):
                self._leave()
            loop.remove_signal_handler(number)
            # to this thread: the signal takes effect before its next statement
            signal.pthread_kill(threading.get_ident(), number)
            loop.add_signal_handler(number, leave, number)  # after SIGCONT

        for number in caught:
            loop.add_signal_handler(number, leave, number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def _draw(self) -> None:
        size = self.size
        columns, lines = size
        drawn = self._rendered([self._layout(columns, lines)])[:lines]
        if self._height and size != self._size:
            beginning = f"{_HOME}{_ERASE_BELOW}"
            above = [*self._rendered(self._before, is_whole=True), *self._rendered(self._said)]
            above += self._rendered(self._unseen)
            above = _last_rows(above, lines - len(drawn), columns)
        else:
            beginning = "\r" + (f"\x1b[{self._height - 1}A" if self._height > 1 else "")
            beginning += _ERASE_BELOW if self._height else ""
            above = self._rendered(self._unseen)
        self._said.extend(self._unseen)
        self._unseen.clear()
        self._size, self._height = size, len(drawn)
        self._writer.write(_HIDE_CURSOR + beginning + "\n".join([*above, *drawn]))

    def _leave(self) -> None:
        """Go on below what is drawn, and give the terminal back."""
        if self._height:
            self._height = 0
            self._writer.write(f"\n{_SHOW_CURSOR}")
            self._writer.is_done_within(_LONGEST_FAREWELL)
        self._keys.restore()

    def _rendered(self, parts: "Iterable[RenderableType]", *, is_whole: bool = False) -> list[str]:
        """Parts as lines; with ``is_whole``, long lines are left for the terminal to wrap."""
        self._console.size = self.size
        with self._console.capture() as capture:
            for part in parts:
                self._console.print(part, soft_wrap=is_whole)
        return capture.get().split("\n")[:-1]


class _Lines(io.StringIO):
    """A stream that passes its lines to a callback."""

    def __init__(self, tell: "Callable[[Iterable[Text]], None]") -> None:
        super().__init__()
        self._tell = tell
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        self._tell([words(line) for line in lines])
        return len(text)

    def flush(self) -> None:
        if self._rest:
            rest, self._rest = self._rest, ""
            self._tell([words(rest)])


def _last_rows(lines: list[str], rows: int, columns: int) -> list[str]:
    """The last lines that fit into so many rows of a screen."""
    from rich.text import Text

    shown: list[str] = []
    for line in reversed(lines):
        rows -= max(1, -(-Text.from_ansi(line).cell_len // columns))
        if rows < 0:
            break
        shown.append(line)
    return shown[::-1]
