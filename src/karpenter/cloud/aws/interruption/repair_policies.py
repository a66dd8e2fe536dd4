"""Repair policies of nodes on EC2, by the conditions that EKS's node monitoring agent sets."""

from datetime import timedelta
from typing import Final

from karpenter.cloud.provider import RepairPolicy
from karpenter.model.conditions import FALSE, READY, UNKNOWN

_ANY_REASON: Final = ".*"
_HALF_AN_HOUR: Final = timedelta(minutes=30)

REPAIR_POLICIES: Final = (
    RepairPolicy(READY, FALSE, _HALF_AN_HOUR),  # the fallback
    RepairPolicy(READY, UNKNOWN, _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("AcceleratedHardwareReady", FALSE, timedelta(minutes=10), _ANY_REASON),
    RepairPolicy("StorageReady", FALSE, _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("NetworkingReady", FALSE, _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("KernelReady", FALSE, _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("ContainerRuntimeReady", FALSE, _HALF_AN_HOUR, _ANY_REASON),
)
