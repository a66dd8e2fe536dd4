"""Reports slow turns of the event loop, during which every other task waits.

The loop waits in its selector between turns, so a wrapped selector sees the start and end of every
turn, at the cost of three clock readings a turn and no wake-ups. The processor time of a turn
distinguishes our own work from waiting for a busy machine or another thread.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

SLOW_STEP_SECONDS: Final = 0.05  # seconds


class WatchedSelector(selectors.BaseSelector):
    """The platform's selector, which reports every slow turn."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self.report: Callable[[float, float], object] = _keep_quiet  # seconds, of the processor
        self._monotonic = monotonic
        self._processor = processor
        self._inner = selectors.DefaultSelector()
        self._woke = monotonic(), processor()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events; first report the turn that ends here if it was slow."""
        at, used = self._woke
        seconds = self._monotonic() - at
        if seconds >= SLOW_STEP_SECONDS:
            self.report(seconds, self._processor() - used)
        try:
            return self._inner.select(timeout)
        finally:
            self._woke = self._monotonic(), self._processor()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Add a file to the selector."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Remove a file from the selector."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Change the events that are waited for on a file."""
        return self._inner.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """The registration of a file."""
        return self._inner.get_key(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """All files."""
        return self._inner.get_map()

    def close(self) -> None:
        """Close the selector."""
        self._inner.close()


def watched_loop(selector: WatchedSelector) -> asyncio.AbstractEventLoop:
    """An event loop that waits with a selector."""
    return asyncio.SelectorEventLoop(selector)


def _keep_quiet(_: float, __: float) -> None:
    """Drop the report: no listener is set yet."""
