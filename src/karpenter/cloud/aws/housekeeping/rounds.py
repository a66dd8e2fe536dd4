"""Work that is done over and over, and that outlives its own failures."""

from typing import Final

import structlog

from karpenter.clock import Clock
from karpenter.kube.workqueue import Backoff
from karpenter.runtime import report

_BACKOFF: Final = Backoff(1.0, 60.0)

log = structlog.get_logger(__name__)


class Rounds:
    """Base of what is done in rounds."""

    name: str = ""

    def __init__(self, clock: Clock) -> None:
        self.clock: Final = clock

    async def step(self) -> float:
        """Do one round; return seconds until the next."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled."""
        failures = 0
        while True:
            try:
                seconds = await self.step()
            except Exception as error:  # noqa: BLE001 the next round may go well
                seconds = _BACKOFF.after(failures)
                failures += 1
                report(log.bind(controller=self.name), error, seconds)
            else:
                failures = 0
            await self.clock.sleep(seconds)
