"""Work that is done over and over, and that outlives its own failures."""

from typing import Final, Protocol

import structlog

from karpenter.clock import Clock
from karpenter.cloud.provider import CloudError
from karpenter.kube.errors import KubeError

_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 60.0

log = structlog.get_logger(__name__)


class Worker(Protocol):
    """Anything that works until it is cancelled."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


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
            except (CloudError, KubeError) as error:
                seconds = min(_FIRST_DELAY * 2.0**failures, _LONGEST_DELAY)
                failures = min(failures + 1, 10)
                log.warning(
                    "round failed", controller=self.name, error=str(error), retry_in=f"{seconds:g}s"
                )
            else:
                failures = 0
            await self.clock.sleep(seconds)
