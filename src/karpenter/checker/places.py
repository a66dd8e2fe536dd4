"""Places where a plan puts pods: machines that exist, and claims with their launch options.

A claim is checked for every launch option ("way"): each listed type in each of its offerings that
is available, compatible with the claim, and has room. A rule on a claim must hold for all of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod
from karpenter.checker.amounts import minus, overdrawn, plus, pods_total, room_of
from karpenter.checker.inputs import ClaimShape, Machine, Pool
from karpenter.checker.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    ZONE,
    Demand,
    Value,
    about,
    demand_of,
    label_meets,
    trials,
)
from karpenter.checker.launch_options import LaunchOption, LaunchOptions
from karpenter.checker.machines import Daemon, labels_of, name_of, taints_of
from karpenter.cloud.types import InstanceType


class Place(ABC):
    """Where pods are, or will be."""

    name: str
    taints: Sequence[Taint]
    bound: Sequence[Pod]  # here before the plan
    placed: Sequence[Pod]  # put here by the plan

    @abstractmethod
    def values(self, key: str) -> frozenset[str]:
        """Every value that a label may have here."""

    @abstractmethod
    def likely(self, key: str) -> Value:
        """The value of a label with the planned launch."""

    @abstractmethod
    def surely(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold for every launch option."""

    @abstractmethod
    def perhaps(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold for some launch option."""


class ExistingPlace(Place):
    """A machine that exists."""

    def __init__(self, machine: Machine, bound: Sequence[Pod], placed: Sequence[Pod]) -> None:
        """Describe a machine."""
        self.machine = machine
        self.name = name_of(machine)
        self.labels = labels_of(machine)
        self.taints = taints_of(machine)
        self.bound = bound
        self.placed = placed

    def values(self, key: str) -> frozenset[str]:
        """The value of the label, if it has it."""
        return frozenset({self.labels[key]} if key in self.labels else ())

    def likely(self, key: str) -> Value:
        """The value of the label."""
        return self.labels.get(key)

    def surely(self, demands: Sequence[Demand]) -> bool:
        """Whether its labels satisfy the demands."""
        return label_meets(self.labels, demands)

    def perhaps(self, demands: Sequence[Demand]) -> bool:
        """The same: a machine has no launch options."""
        return self.surely(demands)


class PlannedPlace(Place):
    """A claim of the plan."""

    def __init__(
        self, claim: ClaimShape, pool: Pool, placed: Sequence[Pod], shelf: LaunchOptions
    ) -> None:
        """Describe a claim of ``pool``."""
        self.claim = claim
        self.pool = pool
        self.name = claim.name
        self.taints = claim.taints
        self.bound = ()
        self.placed = placed
        self.demands = [demand_of(held) for held in claim.requirements]
        self._shelf = shelf
        self._needed = pods_total(placed)
        self._values: dict[str, frozenset[str]] = {}  # label -> all values it may have

    @cached_property
    def types(self) -> list[InstanceType]:
        """The listed types that are in the pool's catalogue."""
        known = {t.name: t for t in self.pool.instance_types}
        return [known[name] for name in self.claim.instance_types if name in known]

    @cached_property
    def ways(self) -> dict[LaunchOption, None]:
        """The launch options, those without room included."""
        return {
            way: None
            for instance_type in self.types
            for way in self._shelf.ways(instance_type)
            if way.agrees(self.demands)
        }

    @cached_property
    def roomy(self) -> list[LaunchOption]:
        """The launch options with room for all of its pods and daemons."""
        return [way for way in self.ways if not self.lacks(way)]

    def ways_of(self, instance_type: InstanceType) -> list[LaunchOption]:
        """The launch options of one type.

        A claim that holds a reservation keeps its other types, and one whose reservation is used up
        keeps the types of that; both serve as a fallback at launch.
        """
        ways = [way for way in self._shelf.ways(instance_type) if way in self.ways]
        label = self._shelf.cluster.facts.reservation_id_label
        apart = [one for one in self.demands if one.key not in (CAPACITY_TYPE, label)]
        if not ways and self._shelf.cluster.policies.reserved_capacity:
            ways = [
                way
                for way in self._shelf.ways(instance_type)
                if (self.is_booked or not way.can_launch) and way.agrees(apart)
            ]
        return ways

    @property
    def is_booked(self) -> bool:
        """Whether it holds a reservation."""
        label = self._shelf.cluster.facts.reservation_id_label
        return any(one.is_closed and one.mentioned for one in about(label, self.demands))

    def lacks(self, way: LaunchOption) -> list[str]:
        """The resources that a launch option has too little of."""
        running = self.daemons_on(way.instance_type)
        needed = plus(self._needed, *(daemon.amounts for daemon in running))
        return overdrawn(minus(room_of(way.instance_type, way.offering), needed))

    def daemons_on(self, instance_type: InstanceType) -> list[Daemon]:
        """The daemons that will run on a type."""
        return self._shelf.daemons_on(self.pool, instance_type)

    def launched(self) -> LaunchOption | None:
        """The launch option that the plan names."""
        launch = self.claim.launch
        if launch is None:
            return None
        for way in sorted(self.roomy, key=lambda way: not way.can_launch):
            if (
                way.instance_type.name == launch.instance_type
                and way.label.get(ZONE, "") == launch.zone
                and way.label.get(CAPACITY_TYPE, "") == launch.capacity_type
                and (way.offering.price == launch.price or math.isnan(launch.price))
            ):
                return way
        return None

    def possible(self, way: LaunchOption, key: str, asking: Sequence[Demand] = ()) -> set[Value]:
        """The values a label may have with this launch option."""
        if key == HOSTNAME:
            return {self.name}
        if key in self.claim.labels:
            return {self.claim.labels[key]}
        speaking = about(key, self.demands)
        if key in way.demands:
            speaking.append(way.demands[key])
        if not speaking:
            return {None}
        tried = trials([*speaking, *about(key, asking)] if not _closed(speaking) else speaking)
        return {value for value in tried if all(one.allows(value) for one in speaking)}

    def values(self, key: str) -> frozenset[str]:
        """Every value the label may have with any launch option."""
        if key not in self._values:
            found = {value for way in self.roomy for value in self.possible(way, key)}
            self._values[key] = frozenset(value for value in found if value is not None)
        return self._values[key]

    def likely(self, key: str) -> Value:
        """The value of the label with the planned launch."""
        way = self.launched()
        if way is None:
            return None
        return min((v for v in self.possible(way, key) if v is not None), default=None)

    def surely(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold for every launch option of the claim."""
        return all(
            one.allows(value)
            for way in self.roomy
            for one in demands
            for value in self.possible(way, one.key, demands)
        )

    def perhaps(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold for some launch option of the claim."""
        return any(
            all(
                any(one.allows(value) for value in self.possible(way, one.key, demands))
                for one in demands
            )
            for way in self.roomy
        )


def _closed(demands: Iterable[Demand]) -> bool:
    return any(one.is_closed for one in demands)
