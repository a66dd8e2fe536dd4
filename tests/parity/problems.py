"""A problem as both sides read it: objects of a cluster, what a cloud sells, a moment, options."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

NOW: Final = "2026-08-01T12:00:00Z"
ZONES: Final = ("z1", "z2", "z3")
NODE_CLASS: Final = {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}
RESERVATION_ID: Final = "karpenter.test.sh/reservation-id"


@dataclass
class Problem:
    """Everything a decision depends on."""

    mix: str
    seed: int
    disrupt: bool = False
    objects: list[Json] = field(default_factory=list)
    instance_types: dict[str, list[Json]] = field(default_factory=dict)  # by pool; "" for others
    marked: list[str] = field(default_factory=list)  # nodes that a command removes already
    nominated: list[str] = field(default_factory=list)  # nodes that pods are expected on
    options: Json = field(default_factory=dict)
    repair_policies: list[Json] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What to ask for to get it again."""
        return f"{self.mix}:{self.seed}"

    def of_kind(self, *kinds: str) -> Iterable[Json]:
        """The objects of some kinds."""
        return (each for each in self.objects if each["kind"] in kinds)

    def wire(self) -> Json:
        """The problem as the peer reads it."""
        return {
            "now": NOW,
            "disrupt": self.disrupt,
            "objects": self.objects,
            "instanceTypes": self.instance_types,
            "marked": self.marked,
            "nominated": self.nominated,
            "options": self.options,
            "repairPolicies": self.repair_policies,
        }


def gates(problem: Problem) -> Mapping[str, bool]:
    """The feature gates that a problem sets."""
    found: Mapping[str, bool] = problem.options.get("gates", {})
    return found
