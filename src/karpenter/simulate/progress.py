"""How far runs are: one line on a terminal, once a second; elsewhere nothing."""

import os
import sys
import time
from types import TracebackType
from typing import Final

from karpenter.simulate.lengths import shown
from karpenter.simulate.world import Progress

_PERIOD: Final = 1.0
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """The line, for as long as a block runs."""

    def __init__(self, variants: int) -> None:
        self._variants = variants
        self._done = 0
        self._began = time.monotonic()
        self._shown_at = 0.0
        self._variant = ""
        self._is_shown = _is_terminal()

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_shown and self._shown_at:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def progress(self, variant: str, at: Progress) -> None:
        """Show how far one variant is."""
        now = time.monotonic()
        if variant != self._variant:
            self._variant, self._began = variant, now
        if self._is_shown and now - self._shown_at >= _PERIOD:
            self._show(line_of(at, now - self._began, self._others(variant)), now)

    def done(self, count: int, of: int) -> None:
        """Show how many variants are done."""
        self._done = count
        if self._is_shown and of > 1:
            self._show(f"{count} of {of} variants are done", time.monotonic())

    def _others(self, variant: str) -> str:
        if self._variants == 1:
            return ""
        return f"{variant} ({self._done + 1} of {self._variants})  "

    def _show(self, text: str, now: float) -> None:
        self._shown_at = now
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        sys.stderr.write(_CLEAR + text[: max(columns - 1, 1)])
        sys.stderr.flush()


def line_of(at: Progress, elapsed: float, beginning: str = "") -> str:
    """The line: virtual time, speed, what there is, what it costs, and how long it will take."""
    part = at.at / at.until if at.until else 1.0
    speed = at.at / elapsed if elapsed > 0 else 0.0
    left = elapsed * (1 - part) / part if part > 0 else 0.0
    return (
        f"{beginning}{shown(at.at)} of {shown(at.until)}  {part:.0%}  {speed:,.0f}x real time"
        f"  {at.nodes:,} nodes  {at.pods:,} pods  ${at.dollars:,.2f}/h  {left:,.0f} s left"
    )


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
