"""What a change to a cluster changes in its plan: the ``difference`` part of ``plan -o json``.

Nodes to create have generated names, so they are counted by pool, type, zone and capacity type;
nodes that exist and pods are named. The cost is what carrying out the plan adds to the
bill: new nodes, less what removing nodes saves. It is unknown where a price is missing from just
one of the plans; a price missing from both makes no difference.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.plan import DisruptionPlan
from karpenter.report.provisioning import estimate_mark
from karpenter.report.static_nodes import Deleted, StaticNodes
from karpenter.scheduling.plan import Launch, PlannedClaim, rests_on_estimates
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
    static: StaticNodes = field(default_factory=StaticNodes)

    @property
    def hourly(self) -> float:
        """What carrying out the plan adds to the bill, in dollars an hour, as far as is known."""
        new = self.made.plan.marginal_cost if self.made is not None else 0.0
        saved = sum(command.savings for command in self.commands)
        freed = sum(each.price or 0.0 for each in self.deleted)
        return new + self.static.hourly - saved - freed

    @property
    def unknown(self) -> Counter[str]:
        """Whose prices are missing from that: ``Node/name``, and ``NodePool/name`` of a new one."""
        going = [c for each in self.commands if not _stays(each) for c in each.candidates]
        found = Counter(f"Node/{each.name}" for each in going if each.known_price is None)
        found.update(f"Node/{each.name}" for each in self.deleted if each.price is None)
        for (pool, launch), count in self._created.items():
            if launch is None:
                found[f"NodePool/{pool}"] += count
        return found

    @property
    def is_estimate(self) -> bool:
        """Whether what it adds to the bill rests on an estimated price."""
        return (
            rests_on_estimates(self.claims)
            or self.static.is_estimate
            or any(command.is_estimate for command in self.commands)
            or any(each.is_estimate for each in self.deleted)
        )

    @property
    def claims(self) -> tuple[PlannedClaim, ...]:
        """The nodes to create for pods that wait."""
        return self.made.plan.claims if self.made is not None else ()

    @property
    def commands(self) -> tuple[Command, ...]:
        """What would be done about nodes that exist."""
        return self.removed.commands if self.removed is not None else ()

    @property
    def deleted(self) -> tuple[Deleted, ...]:
        """What static pools give up, unless that is among the commands already."""
        return self.static.deleted if self.removed is None else ()

    @property
    def models(self) -> Counter[Model]:
        """How many of which nodes would be created, those of static pools and replacements too."""
        found: Counter[Model] = Counter()
        for (pool, launch), count in self._created.items():
            found[_model(pool, launch)] += count
        return found

    @property
    def going(self) -> set[str]:
        """The nodes that would be removed."""
        named = {name for command in self.commands for name in command.names}
        return named | {each.name for each in self.deleted}

    @property
    def _created(self) -> Counter[tuple[str, Launch | None]]:
        replacements = (claim for command in self.commands for claim in command.replacements)
        made = Counter((claim.node_pool, claim.launch) for claim in (*self.claims, *replacements))
        return made + self.static.created

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
    def hourly_change(self) -> float | None:
        """What the plan costs more an hour; None where a price is missing from one of them."""
        return None if self.unknown else self.hourly_change_known

    @property
    def hourly_change_known(self) -> float:
        """The same as far as prices are known."""
        return self.after.hourly - self.before.hourly

    @property
    def unknown(self) -> list[str]:
        """Whose prices are missing from just one of the plans."""
        before, after = self.before.unknown, self.after.unknown
        return sorted(((after - before) + (before - after)).keys())

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
            "hourlyBefore": None if before.unknown else before.hourly,
            "hourlyAfter": None if after.unknown else after.hourly,
            "hourlyChange": difference.hourly_change,
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


def _stays(command: Command) -> bool:
    """Whether the nodes of a command stay, so that their prices do not matter."""
    return command.decision is Decision.REBOOT


def _model(pool: str, launch: Launch | None) -> Model:
    if launch is None:
        return pool, "", "", ""
    return pool, launch.instance_type, launch.zone, launch.capacity_type


def _models(counts: Counter[Model]) -> list[dict[str, Any]]:
    names = ("nodePool", "instanceType", "zone", "capacityType")
    return [{**_named(names, model), "count": count} for model, count in sorted(counts.items())]


def _named(names: Iterable[str], values: Iterable[str]) -> dict[str, str]:
    return dict(zip(names, values, strict=True))
