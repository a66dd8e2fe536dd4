"""Metrics, under Karpenter's names, and logs."""

from karpenter.telemetry.capacity import CloudCalls
from karpenter.telemetry.logs import (
    configure_logging,
    quiet_logger,
    recording_logger,
)
from karpenter.telemetry.metrics import Metrics

__all__ = [
    "CloudCalls",
    "Metrics",
    "configure_logging",
    "quiet_logger",
    "recording_logger",
]
