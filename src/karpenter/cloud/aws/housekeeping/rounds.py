"""Periodic work that survives its own failures."""

from typing import Final

import structlog

from karpenter.clock import Clock
from karpenter.kube.workqueue import Backoff
from karpenter.runtime import LoopController
from karpenter.telemetry import Metrics

_log: Final = structlog.get_logger(__name__)


class Rounds(LoopController):
    """Base of periodic work; a failed round is retried with back-off."""

    backoff = Backoff(1.0, 60.0)

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        super().__init__(clock, _log, metrics)
