"""When nodes on EC2 count as broken, by the conditions EKS's node monitoring agent sets."""

from datetime import timedelta
from typing import Final

from karpenter.cloud.provider import RepairPolicy

_ANY_REASON: Final = ".*"
_HALF_AN_HOUR: Final = timedelta(minutes=30)

REPAIR_POLICIES: Final = (
    RepairPolicy("Ready", "False", _HALF_AN_HOUR),  # the fallback
    RepairPolicy("Ready", "Unknown", _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("AcceleratedHardwareReady", "False", timedelta(minutes=10), _ANY_REASON),
    RepairPolicy("StorageReady", "False", _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("NetworkingReady", "False", _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("KernelReady", "False", _HALF_AN_HOUR, _ANY_REASON),
    RepairPolicy("ContainerRuntimeReady", "False", _HALF_AN_HOUR, _ANY_REASON),
)
