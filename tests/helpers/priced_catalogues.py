"""A small catalogue in which large machines are dear, for the planners and the simulated provider."""

import json
from typing import Any, Final

from helpers.builders import priced_type
from karpenter.cloud.kwok.catalogue import load
from karpenter.cloud.types import InstanceType
from karpenter.model import labels

Json = dict[str, Any]

ZONES: Final = ("test-zone-a", "test-zone-b")
# Name: cpus, GiB and dollars an hour. Karpenter's order fills ``x``; two of ``l`` cost a third of it
SIZES: Final = {
    "s": (2, 4, 0.10),
    "m": (4, 8, 0.19),
    "l": (8, 16, 0.36),
    "x": (32, 64, 2.00),
}
# As planners see them: sold on-demand in one zone
TYPES: Final = tuple(priced_type(name, cpus, price) for name, (cpus, _, price) in SIZES.items())
S, M, L, X = TYPES
PRICES: Final = {name: price for name, (_, _, price) in SIZES.items()}


def dear_when_large() -> tuple[InstanceType, ...]:
    """Types of all sizes, on-demand and at a third of that on spot, in two zones."""
    entries = [_entry(name, *size) for name, size in SIZES.items()]
    return load(json.dumps(entries).encode(), "sizes.json")


def _entry(name: str, cpus: int, gib: int, price: float) -> Json:
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": str(cpus),
            "memory": f"{gib}Gi",
            "pods": "110",
            "ephemeral-storage": "20Gi",
        },
        "offerings": [
            {
                "Price": price * share,
                "Available": True,
                "Requirements": [
                    {"key": labels.ZONE, "operator": "In", "values": [zone]},
                    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [way]},
                ],
            }
            for zone in ZONES
            for way, share in ((labels.ON_DEMAND, 1.0), (labels.SPOT, 1 / 3))
        ],
    }
