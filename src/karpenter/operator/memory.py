"""Warns when the process comes close to its memory limit."""

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

_LOOK_SECONDS: Final = 15.0
_SHARE: Final = 0.9
_STATM: Final = Path("/proc/self/statm")


@contextmanager
def watch_memory(limit: int, log: FilteringBoundLogger) -> Iterator[None]:
    """Watch the memory of the process while the block runs; a limit below 1 means none."""
    if limit <= 0:
        yield
        return
    task = asyncio.ensure_future(_watch(limit, log))
    try:
        yield
    finally:
        task.cancel()


async def _watch(limit: int, log: FilteringBoundLogger) -> None:
    alarm = MemoryAlarm(limit, log, _resident)
    while True:
        alarm.check()
        await asyncio.sleep(_LOOK_SECONDS)


class MemoryAlarm:
    """Warns once when memory runs short, and again only after it has recovered."""

    def __init__(self, limit: int, log: FilteringBoundLogger, resident: Callable[[], int]) -> None:
        self._limit = limit
        self._log = log
        self._resident = resident
        self._is_short = False

    def check(self) -> None:
        """Check once, after a garbage collection if memory seems short."""
        if self._resident() > _SHARE * self._limit:
            gc.collect()
        used = self._resident()
        was_short, self._is_short = self._is_short, used > _SHARE * self._limit
        if self._is_short and not was_short:
            self._log.error("memory is running short", used=used, limit=self._limit)


def _resident() -> int:
    try:
        pages = int(_STATM.read_text("ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
