"""The pods and machines of ``endtoend --rebalance``, and what it tells.

The machines are those that AWS sells in the families c, m and r, three generations of each, from 2 to
32 vCPUs, at the on-demand prices of us-east-1: twice the size costs twice as much. The pods are
services of teams that share a NodePool but no machines, as ``operator: Exists`` makes them do: each
team has one Deployment of about 25 equal pods, of a size drawn with a fixed seed. A team's last
machine is then seldom full, and no smaller one may hold what is left on it.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.workloads import SEED

from karpenter.cloud.kwok.catalogue import ZONES
from karpenter.model import labels

Json = dict[str, Any]

TEAM: Final = "example.com/team"
REQUIREMENTS: Final = ({"key": TEAM, "operator": "Exists"},)

_TEAM_PODS: Final = 25  # of a Deployment, about
_CPUS: Final = range(100, 2001, 50)  # milli
_MEMORIES: Final = (1, 2, 4, 8)  # Mi for each milli of cpu
_FAMILIES: Final = {  # GiB and dollars per hour of each vCPU
    "c5": (2, 0.0425),
    "m5": (4, 0.048),
    "r5": (8, 0.063),
    "c6a": (2, 0.03825),
    "m6a": (4, 0.0432),
    "r6a": (8, 0.0567),
    "c7i": (2, 0.044625),
    "m7i": (4, 0.0504),
    "r7i": (8, 0.06615),
}
_SIZES: Final = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}  # vCPUs


@dataclass(frozen=True, slots=True)
class Team:
    """A team's pods, all alike."""

    name: str
    replicas: int
    cpu: str
    memory: str


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A cluster scaled in: before, at rest without rebalancing, and at rest with it."""

    pods_before: int
    pods: int
    hourly_before: float  # dollars, at rest before the scale-in
    hourly_without: float
    hourly: float
    nodes_before: int
    nodes_without: int
    nodes: int
    seconds_without: float  # until the last change of a node
    seconds: float
    moved: int  # pods, by rebalances
    commands: int  # that are rebalances
    other_commands: int  # of other methods, since rebalancing is on
    is_at_rest: bool  # or the time was up

    @property
    def text(self) -> str:
        """The figures as a line for each state."""
        saved = 1 - self.hourly / self.hourly_without if self.hourly_without else 0.0
        return (
            f"before, {self.pods_before:,} pods:  ${self.hourly_before:.4f} per hour,"
            f" {self.nodes_before} nodes\n"
            f"{self.pods:,} pods, without: ${self.hourly_without:.4f} per hour,"
            f" {self.nodes_without} nodes, at rest after {self.seconds_without:.0f} s\n"
            f"{self.pods:,} pods, with:    ${self.hourly:.4f} per hour, {self.nodes} nodes,"
            f" {'at rest' if self.is_at_rest else 'NOT at rest'} after {self.seconds:.0f} s:"
            f" {saved:.1%} less\n"
            f"{self.moved} pods were moved by {self.commands} rebalances;"
            f" other methods ran {self.other_commands} commands meanwhile"
        )


def teams(pods: int) -> list[Team]:
    """So many pods as those of at least two teams."""
    rng = random.Random(SEED)
    count = max(2, pods // _TEAM_PODS)
    found = []
    for number in range(count):
        cpu = rng.choice(_CPUS)
        memory = cpu * rng.choice(_MEMORIES)
        replicas = pods // count + (number < pods % count)
        found.append(Team(f"team-{number}", replicas, f"{cpu}m", f"{memory}Mi"))
    return found


def instance_types_file() -> str:
    """The machines, as the simulated provider reads them from a file."""
    return json.dumps(
        [
            _entry(f"{family}.{size}", cpus, cpus * gib, price)
            for (family, size), (cpus, gib, price) in _machines().items()
        ]
    )


def prices() -> Mapping[str, float]:
    """What each machine costs an hour, by its name."""
    return {f"{family}.{size}": price for (family, size), (_, _, price) in _machines().items()}


def _machines() -> dict[tuple[str, str], tuple[int, int, float]]:
    """By family and size: vCPUs, GiB for each of them, and dollars per hour."""
    return {
        (family, size): (cpus, gib, cpus * price)
        for family, (gib, price) in _FAMILIES.items()
        for size, cpus in _SIZES.items()
    }


def _entry(name: str, cpus: int, gib: int, price: float) -> Json:
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110"},
        "offerings": [
            {
                "Price": price,
                "Available": True,
                "Requirements": [
                    {"key": labels.ZONE, "operator": "In", "values": [zone]},
                    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
                ],
            }
            for zone in ZONES
        ],
    }
