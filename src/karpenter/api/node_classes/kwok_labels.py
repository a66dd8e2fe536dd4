"""The label keys of the simulated provider."""

from typing import Final

DOMAIN: Final = "karpenter.kwok.sh"

NODE_CLASS: Final = "karpenter.kwok.sh/kwoknodeclass"
INSTANCE_SIZE: Final = "karpenter.kwok.sh/instance-size"
INSTANCE_FAMILY: Final = "karpenter.kwok.sh/instance-family"
INSTANCE_CPU: Final = "karpenter.kwok.sh/instance-cpu"
INSTANCE_MEMORY: Final = "karpenter.kwok.sh/instance-memory"
RESERVATION_ID: Final = "karpenter.kwok.sh/reservation-id"

# Labels that this provider sets, besides those that every provider sets
WELL_KNOWN: Final = frozenset(
    {
        INSTANCE_SIZE,
        INSTANCE_FAMILY,
        INSTANCE_CPU,
        INSTANCE_MEMORY,
        RESERVATION_ID,
    }
)
