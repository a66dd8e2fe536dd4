"""What a change to a cluster changes in its plan: the ``difference`` part of ``plan -o json``.

Nodes to create have names that mean nothing, so those of a pool, type, zone and capacity type are
counted; nodes that exist and pods are named. The cost is what carrying out the plan adds to the
bill: new nodes, less what removing nodes saves.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from karpenter.disruption.plan import DisruptionPlan
from karpenter.report.provisioning import estimate_mark
from karpenter.scheduling.plan import PlannedClaim, rests_on_estimates
from karpenter.scheduling.provisioning import ProvisioningPlan
from karpenter.state.snapshot import Snapshot

Model: TypeAlias = tuple[str, str, str, str]  # pool, type, zone, capacity type
NOWHERE = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """A cluster and what was planned for it; None for a part that was not asked for."""

    snapshot: Snapshot
    made: ProvisioningPlan | None
    removed: DisruptionPlan | None

    @property
    def hourly(self) -> float:
        """What carrying out the plan adds to the bill, in dollars an hour."""
        new = self.made.plan.hourly_cost if self.made is not None else 0.0
        saved = sum(command.savings for command in self.removed.commands) if self.removed else 0.0
        return new - saved

    @property
    def is_estimate(self) -> bool:
        """Whether that rests on a price that nobody has told."""
        commands = self.removed.commands if self.removed is not None else ()
        return rests_on_estimates(self.claims) or any(each.is_estimate for each in commands)

    @property
    def claims(self) -> tuple[PlannedClaim, ...]:
        """The nodes to create for pods that wait."""
        return self.made.plan.claims if self.made is not None else ()

    @property
    def models(self) -> Counter[Model]:
        """How many of which nodes would be created, those that take the place of others too."""
        commands = self.removed.commands if self.removed is not None else ()
        replacements = [claim for command in commands for claim in command.replacements]
        return Counter(_model(claim) for claim in (*self.claims, *replacements))

    @property
    def going(self) -> set[str]:
        """The nodes that would be removed."""
        commands = self.removed.commands if self.removed is not None else ()
        return {name for command in commands for name in command.names}

    @property
    def places(self) -> dict[str, str]:
        """Where pods that wait would go: the name of a node, the pool of a new one, or nowhere."""
        if self.made is None:
            return {}
        plan = self.made.plan
        found = {entry.pod: NOWHERE for entry in plan.unplaced}
        found |= dict.fromkeys((*plan.deferred, *plan.unevaluated), NOWHERE)
        found |= {pod: f"NodePool/{claim.node_pool}" for claim in plan.claims for pod in claim.pods}
        return found | {pod: f"Node/{node}" for node, pods in plan.existing.items() for pod in pods}


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between a plan and the one before a change."""

    before: Planned
    after: Planned

    @property
    def more(self) -> Counter[Model]:
        """Nodes that would be created only with the change."""
        return self.after.models - self.before.models

    @property
    def fewer(self) -> Counter[Model]:
        """Nodes that would be created only without the change."""
        return self.before.models - self.after.models

    @property
    def pods_added(self) -> list[str]:
        """Pods that are there only with the change."""
        return sorted(self.after.snapshot.pods.keys() - self.before.snapshot.pods.keys())

    @property
    def pods_removed(self) -> list[str]:
        """Pods that are there only without the change."""
        return sorted(self.before.snapshot.pods.keys() - self.after.snapshot.pods.keys())

    @property
    def pods_changed(self) -> list[tuple[str, str, str]]:
        """Pods of both that would go elsewhere: which, and where to without and with the change."""
        old, new = self.before.places, self.after.places
        return [
            (pod, old[pod], new[pod]) for pod in sorted(old.keys() & new) if old[pod] != new[pod]
        ]

    @property
    def is_none(self) -> bool:
        """Whether both plans are for the same pods and lead to the same nodes."""
        return not (
            self.more
            or self.fewer
            or self.pods_added
            or self.pods_removed
            or self.pods_changed
            or self.before.going != self.after.going
        )


def difference_document(difference: Difference) -> dict[str, Any]:
    """Write a difference as plain data."""
    before, after = difference.before, difference.after
    return {
        "cost": {
            "hourlyBefore": before.hourly,
            "hourlyAfter": after.hourly,
            "hourlyChange": after.hourly - before.hourly,
            **estimate_mark(before.is_estimate or after.is_estimate),
        },
        "nodesToCreate": {
            "before": before.models.total(),
            "after": after.models.total(),
            "added": _models(difference.more),
            "removed": _models(difference.fewer),
        },
        "nodesToRemove": {
            "added": sorted(after.going - before.going),
            "removed": sorted(before.going - after.going),
        },
        "pods": {
            "added": difference.pods_added,
            "removed": difference.pods_removed,
            "changed": [
                {"pod": pod, "before": old, "after": new}
                for pod, old, new in difference.pods_changed
            ],
        },
    }


def _model(claim: PlannedClaim) -> Model:
    launch = claim.launch
    if launch is None:
        return claim.node_pool, "", "", ""
    return claim.node_pool, launch.instance_type, launch.zone, launch.capacity_type


def _models(counts: Counter[Model]) -> list[dict[str, Any]]:
    names = ("nodePool", "instanceType", "zone", "capacityType")
    return [{**_named(names, model), "count": count} for model, count in sorted(counts.items())]


def _named(names: Iterable[str], values: Iterable[str]) -> dict[str, str]:
    return dict(zip(names, values, strict=True))
