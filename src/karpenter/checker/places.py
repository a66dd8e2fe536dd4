"""Places where a plan puts pods: machines that exist, and claims with all they may become.

A claim is judged by every way it could be launched: each listed type in each of its offerings that
is available, agrees with the claim, and has room. What must hold on a claim must hold for them all.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from karpenter.api.karpenter import NodePool
from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod, PodSpec
from karpenter.checker.amounts import minus, overdrawn, plus, pods_total, room_of
from karpenter.checker.inputs import ClaimShape, Cluster, Machine, Pool
from karpenter.checker.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    NODEPOOL,
    ZONE,
    Demand,
    Value,
    about,
    can_agree,
    demand,
    demand_of,
    label_meets,
    trials,
    untolerated,
)
from karpenter.checker.machines import Daemon, labels_of, name_of, taints_of
from karpenter.cloud.types import InstanceType, Offering


class Place(ABC):
    """Where pods are, or will be."""

    name: str
    taints: Sequence[Taint]
    bound: Sequence[Pod]  # here before, and not asked about
    placed: Sequence[Pod]  # put here by the plan

    @abstractmethod
    def values(self, key: str) -> frozenset[str]:
        """Every value that a label may have here."""

    @abstractmethod
    def likely(self, key: str) -> Value:
        """The value a label will have here as things stand."""

    @abstractmethod
    def surely(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold, whatever happens."""

    @abstractmethod
    def perhaps(self, demands: Sequence[Demand]) -> bool:
        """Whether demands may hold."""


class OldPlace(Place):
    """A machine that exists."""

    def __init__(self, machine: Machine, bound: Sequence[Pod], placed: Sequence[Pod]) -> None:
        """Look at a machine."""
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
        """The same: nothing about it is open."""
        return self.surely(demands)


@dataclass(frozen=True, eq=False)
class Way:
    """One way to launch a claim."""

    instance_type: InstanceType
    offering: Offering

    @cached_property
    def demands(self) -> dict[str, Demand]:
        """What is known of the node's labels; the offering knows better than the type."""
        known = {held.key: demand_of(held) for held in self.instance_type.requirements}
        return known | {held.key: demand_of(held) for held in self.offering.requirements}

    @property
    def price(self) -> float:
        """Its price, which is beyond all others when it is not a number."""
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
        """Whether the cloud has one left."""
        reserved = self.label.get(CAPACITY_TYPE) == "reserved"
        return self.offering.available and (not reserved or self.offering.reservation_capacity > 0)

    def agrees(self, demands: Sequence[Demand]) -> bool:
        """Whether nothing known of the node contradicts the demands."""
        return all(
            can_agree([self.demands[one.key], *about(one.key, demands)])
            for one in demands
            if one.key in self.demands
        )


class NewPlace(Place):
    """A claim of the plan."""

    def __init__(
        self,
        claim: ClaimShape,
        pool: Pool,
        placed: Sequence[Pod],
        daemons: Sequence[Daemon],
        cluster: Cluster,
    ) -> None:
        """Look at a claim that ``pool`` is to make."""
        self.claim = claim
        self.pool = pool
        self.name = claim.name
        self.taints = claim.taints
        self.bound = ()
        self.placed = placed
        self._daemons = daemons
        self._cluster = cluster
        self.demands = [demand_of(held) for held in claim.requirements]

    @cached_property
    def types(self) -> list[InstanceType]:
        """The listed types that the pool has."""
        known = {t.name: t for t in self.pool.instance_types}
        return [known[name] for name in self.claim.instance_types if name in known]

    @cached_property
    def ways(self) -> list[Way]:
        """The ways to launch it, those without room included."""
        return [
            way
            for instance_type in self.types
            for way in ways_of(instance_type)
            if way.agrees(self.demands)
        ]

    @cached_property
    def roomy(self) -> list[Way]:
        """The ways to launch it that have room for everything."""
        return [way for way in self.ways if not self.lacks(way)]

    def ways_of(self, instance_type: InstanceType) -> list[Way]:
        """The ways to launch it as one type.

        A claim that waits for a reservation keeps its other types, and one that found a reservation
        used up keeps the types of that; both are there for a later launch.
        """
        ways = [way for way in self.ways if way.instance_type is instance_type]
        label = self._cluster.facts.reservation_id_label
        apart = [one for one in self.demands if one.key not in (CAPACITY_TYPE, label)]
        if not ways and self._cluster.policies.reserved_capacity:
            ways = [
                way
                for way in ways_of(instance_type)
                if (self.is_booked or not way.can_launch) and way.agrees(apart)
            ]
        return ways

    @property
    def is_booked(self) -> bool:
        """Whether it waits for a reservation that is to make it."""
        label = self._cluster.facts.reservation_id_label
        return any(one.is_closed and one.mentioned for one in about(label, self.demands))

    def lacks(self, way: Way) -> list[str]:
        """The resources that a way to launch it has too little of."""
        running = self.daemons_on(way.instance_type)
        needed = plus(pods_total(self.placed), *(daemon.amounts for daemon in running))
        return overdrawn(minus(room_of(way.instance_type, way.offering), needed))

    def daemons_on(self, instance_type: InstanceType) -> list[Daemon]:
        """The daemons that will run on a type."""
        return daemons_on(self.pool, instance_type, self._daemons, self._cluster)

    def launched(self) -> Way | None:
        """The way it would be launched as things stand."""
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

    def possible(self, way: Way, key: str, asking: Sequence[Demand] = ()) -> set[Value]:
        """The values a label may have when the claim is launched in this way."""
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
        """Every value the label may have, however the claim is launched."""
        found = {value for way in self.roomy for value in self.possible(way, key)}
        return frozenset(value for value in found if value is not None)

    def likely(self, key: str) -> Value:
        """The value of the label when the claim is launched as the plan says."""
        way = self.launched()
        if way is None:
            return None
        return min((v for v in self.possible(way, key) if v is not None), default=None)

    def surely(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold, however the claim is launched."""
        return all(
            one.allows(value)
            for way in self.roomy
            for one in demands
            for value in self.possible(way, one.key, demands)
        )

    def perhaps(self, demands: Sequence[Demand]) -> bool:
        """Whether demands hold for some way to launch the claim."""
        return any(
            all(
                any(one.allows(value) for value in self.possible(way, one.key, demands))
                for one in demands
            )
            for way in self.roomy
        )


def ways_of(instance_type: InstanceType) -> Iterator[Way]:
    """Yield the available ways to have a type."""
    for offering in instance_type.offerings:
        if offering.available:
            yield Way(instance_type, offering)


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
    """Whether a pool can be narrowed to what is asked; unknown labels can only be absent."""
    for one in asking:
        known = about(one.key, pool)
        if not known and one.key not in well_known and not one.allows(None):
            return False
        if known and not can_agree([*known, *about(one.key, asking)]):
            return False
    return True


def daemons_on(
    pool: Pool, instance_type: InstanceType, daemons: Sequence[Daemon], cluster: Cluster
) -> list[Daemon]:
    """The daemons that will run on nodes of a pool that are of this type."""
    started = [
        demand(f"karpenter.sh/{state}", "In", ("true",)) for state in ("registered", "initialized")
    ]
    promised = [*pool_demands(pool.node_pool), *started]
    known = {held.key: demand_of(held) for held in instance_type.requirements}
    well_known = cluster.facts.well_known_labels
    return [
        daemon
        for daemon in daemons
        if untolerated(pool.node_pool.spec.template.spec.taints, daemon.tolerations, soft_too=False)
        is None
        and any(
            admits(promised, asked, well_known)
            and all(
                can_agree([known[one.key], *about(one.key, asked)])
                for one in asked
                if one.key in known
            )
            for asked in daemon.alternatives
        )
    ]


def clashing_ports(coming: Iterable[PodSpec], there: Iterable[PodSpec] = ()) -> list[str]:
    """The host ports that pods want although one of them, or one that is there, has it."""
    held = [port for number, spec in enumerate(there) for port in _host_ports(-1 - number, spec)]
    clashes = []
    for number, spec in enumerate(coming):
        for mine in _host_ports(number, spec):
            clashes += [f"{mine[2]}/{mine[1]}" for other in held if _clash(mine, other)]
            held.append(mine)
    return clashes


def _host_ports(owner: int, spec: PodSpec) -> list[tuple[int, str, int, str]]:
    return [
        (owner, port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")  # noqa: S104
        for container in spec.containers
        for port in container.ports
        if port.host_port
    ]


def _clash(left: tuple[int, str, int, str], right: tuple[int, str, int, str]) -> bool:
    everywhere = ("0.0.0.0", "::")  # noqa: S104
    same_address = left[3] == right[3] or left[3] in everywhere or right[3] in everywhere
    return left[0] != right[0] and left[1:3] == right[1:3] and same_address


def _closed(demands: Iterable[Demand]) -> bool:
    return any(one.is_closed for one in demands)
