"""Whether somebody looks: a page that is open, or a question within the last hour.

A dashboard that stands beside the controllers costs nothing while nobody looks. It begins to follow the
cluster when the first client comes, and ends an hour after the last one is gone. Until a client comes
again no timer is set.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final

from karpenter.clock import Clock

AFTERWARDS: Final = 3600.0  # seconds for which the past is recorded with nobody looking


class Attendance:
    """Knows whether there are clients, or were until recently."""

    def __init__(self, clock: Clock, *, afterwards: float = AFTERWARDS) -> None:
        """Begin with nobody.

        Args:
            clock: real time.
            afterwards: for how many seconds after the last client there is still something to do.
        """
        self._clock = clock
        self._afterwards = afterwards
        self._present = 0
        self._last = 0.0  # when somebody was seen
        self.awake: Final = asyncio.Event()  # set while there is something to do

    def note(self) -> None:
        """Take note that a client has asked something."""
        self._last = self._clock.monotonic()
        self.awake.set()

    @contextmanager
    def present(self) -> Iterator[None]:
        """Have a client for as long as a block runs."""
        self._present += 1
        self.note()
        try:
            yield
        finally:
            self._present -= 1
            self.note()

    async def run(self, period: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Enter a period when the first client comes and leave it after the last, until cancelled."""
        while True:
            await self.awake.wait()
            async with period():
                while (left := self._left()) > 0:
                    await self._clock.sleep(left)
                self.awake.clear()

    def _left(self) -> float:
        """For how long there is something to do at least, in seconds."""
        if self._present:
            return self._afterwards
        return self._last + self._afterwards - self._clock.monotonic()
