"""The launch options of a pool, and the labels that are known before launch.

A launch option ("way") is one available offering of one type. The labels that its type and its
offering give the node are compared with the demands on the node, one label at a time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from karpenter.api.karpenter import NodePool
from karpenter.checker.inputs import Cluster, Pool
from karpenter.checker.labels import (
    CAPACITY_TYPE,
    NODEPOOL,
    Demand,
    about,
    can_agree,
    demand,
    demand_of,
    untolerated,
)
from karpenter.checker.machines import Daemon
from karpenter.cloud.types import InstanceType, Offering


@dataclass(frozen=True, eq=False)
class LaunchOption:
    """One way to launch a claim."""

    instance_type: InstanceType
    offering: Offering

    @cached_property
    def demands(self) -> dict[str, Demand]:
        """The known labels of the node; the offering overrides the type."""
        known = {held.key: demand_of(held) for held in self.instance_type.requirements}
        return known | {held.key: demand_of(held) for held in self.offering.requirements}

    @property
    def price(self) -> float:
        """Its price; infinite when it is not a number."""
        return math.inf if math.isnan(self.offering.price) else self.offering.price

    @cached_property
    def label(self) -> dict[str, str]:
        """The labels that have exactly one value."""
        return {
            key: next(iter(known.mentioned))
            for key, known in self.demands.items()
            if known.is_closed and len(known.mentioned) == 1
        }

    @property
    def can_launch(self) -> bool:
        """Whether it is available, and not a used-up reservation."""
        reserved = self.label.get(CAPACITY_TYPE) == "reserved"
        return self.offering.available and (not reserved or self.offering.reservation_capacity > 0)

    def agrees(self, demands: Sequence[Demand]) -> bool:
        """Whether nothing known of the node contradicts the demands."""
        return all(
            can_agree([self.demands[one.key], *about(one.key, demands)])
            for one in demands
            if one.key in self.demands
        )


class LaunchOptions:
    """A cache of the launch options of each type, and of the daemons it will run."""

    def __init__(self, cluster: Cluster, daemons: Sequence[Daemon]) -> None:
        """Begin with nothing looked up."""
        self.cluster = cluster
        self._daemons = daemons
        self._ways: dict[int, list[LaunchOption]] = {}  # by identity of the type
        self._running: dict[tuple[int, int], list[Daemon]] = {}  # by those of pool and type

    def ways(self, instance_type: InstanceType) -> list[LaunchOption]:
        """The launch options of a type."""
        if id(instance_type) not in self._ways:
            self._ways[id(instance_type)] = [
                LaunchOption(instance_type, offering)
                for offering in instance_type.offerings
                if offering.available
            ]
        return self._ways[id(instance_type)]

    def daemons_on(self, pool: Pool, instance_type: InstanceType) -> list[Daemon]:
        """The daemons that will run on nodes of a pool that are of this type."""
        key = (id(pool), id(instance_type))
        if key not in self._running:
            self._running[key] = [
                daemon
                for daemon in self._daemons
                if _runs_on(daemon, pool, instance_type, self.cluster.facts.well_known_labels)
            ]
        return self._running[key]


def pool_demands(pool: NodePool) -> list[Demand]:
    """What every node of a pool will satisfy."""
    template = pool.spec.template
    reference = template.spec.node_class_ref
    labels = {**template.metadata.labels, NODEPOOL: pool.metadata.name}
    if reference.group:
        labels[f"{reference.group}/{reference.kind.lower()}"] = reference.name
    return [
        *(demand(r.key, r.operator, r.values) for r in template.spec.requirements),
        *(demand(key, "In", (value,)) for key, value in labels.items()),
    ]


def admits(pool: Sequence[Demand], asking: Sequence[Demand], well_known: frozenset[str]) -> bool:
    """Whether a pool can be narrowed to demands; a label it does not define can only be absent."""
    for one in asking:
        known = about(one.key, pool)
        if not known and one.key not in well_known and not one.allows(None):
            return False
        if known and not can_agree([*known, *about(one.key, asking)]):
            return False
    return True


def _runs_on(
    daemon: Daemon, pool: Pool, instance_type: InstanceType, well_known: frozenset[str]
) -> bool:
    taints = pool.node_pool.spec.template.spec.taints
    if untolerated(taints, daemon.tolerations, soft_too=False) is not None:
        return False
    started = [
        demand(f"karpenter.sh/{state}", "In", ("true",)) for state in ("registered", "initialized")
    ]
    promised = [*pool_demands(pool.node_pool), *started]
    known = {held.key: demand_of(held) for held in instance_type.requirements}
    return any(
        admits(promised, asked, well_known)
        and all(
            can_agree([known[one.key], *about(one.key, asked)]) for one in asked if one.key in known
        )
        for asked in daemon.alternatives
    )
