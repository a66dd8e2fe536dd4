"""What a pool can create: its requirements and taints, and the offerings that remain for pods.

A template is a pool compiled against its catalogue. Daemons that will run on every node of the
pool are subtracted from each offering beforehand, so "does it fit" is a question about pods alone.
Building one is expensive; it is cached while pool, catalogue and daemons stay the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.api.nodes import Taint
from karpenter.api.pods import Toleration
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.model import labels
from karpenter.model.min_values import Shortfall
from karpenter.model.requirement import Operator, requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import NO_RESOURCES, NODES, Resources, total
from karpenter.model.taints import PREFER_NO_SCHEDULE, first_untolerated
from karpenter.scheduling.compiled.host_ports import HostPort
from karpenter.scheduling.compiled.offerings import Levels, OfferingIndex
from karpenter.scheduling.inputs.daemons import Daemon
from karpenter.scheduling.packing.claims import Shapes
from karpenter.state.drift_hash import node_pool_hash

# Labels that registration and initialization set; only daemons may require them of a new node
_AS_IF_STARTED: Final = Requirements.from_labels(
    {labels.REGISTERED: "true", labels.INITIALIZED: "true"}
)


@dataclass(frozen=True, slots=True)
class DaemonGroup:
    """Offerings whose nodes will run the same daemons."""

    bits: int
    overhead: Resources
    ports: tuple[HostPort, ...]
    daemons: tuple[Daemon, ...] = ()


class Template:
    """A pool compiled against its catalogue."""

    __slots__ = (
        "_domains",
        "_hash",
        "_sold_out",
        "base",
        "daemon_groups",
        "has_reserved",
        "is_picky",
        "limits",
        "min_values",
        "name",
        "node_pool",
        "number",
        "offered",
        "requirements",
        "room",
        "shape",
        "shapes",
        "taints",
        "universe",
    )

    def __init__(
        self,
        number: int,
        node_pool: NodePool,
        universe: OfferingIndex,
        shapes: Shapes,
        daemons: Sequence[Daemon],
        facts: ProviderFacts,
    ) -> None:
        """Compile ``node_pool``; ``shapes`` are those of ``universe``."""
        self.number: Final = number
        self.node_pool: Final = node_pool
        self.name: Final = node_pool.metadata.name
        self.universe: Final = universe
        self.shapes: Final = shapes
        self.taints: Final[tuple[Taint, ...]] = node_pool.spec.template.spec.taints
        self.requirements: Final = template_requirements(node_pool)
        self.limits: Final[Mapping[str, int]] = {
            name: Resources.from_wire({name: limit})[name]
            for name, limit in node_pool.spec.limits.items()
        }
        self.min_values: Final = tuple(
            (r.key, r.min_values) for r in self.requirements if r.min_values is not None
        )
        self.daemon_groups: Final = _daemon_groups(self, daemons, facts)
        self.has_reserved: Final = bool(universe.reserved)
        self.is_picky: Final = bool(self.min_values) or self.has_reserved
        self.room: Final = universe.room(
            tuple((group.bits, group.overhead) for group in self.daemon_groups)
        )
        self.offered: Final = universe.allowed(self.requirements)
        self.base: Final = self.offered & self.room.possible  # without those too small for daemons
        self.shape: Final = shapes.of(self.requirements)
        self._hash = ""
        self._sold_out: dict[Requirements, tuple[InstanceType, ...]] = {}
        self._domains: dict[str, set[str]] = {}

    def levels(self, name: str) -> Levels:
        """Which offerings have how much of a resource left for pods."""
        return self.room.levels(name)

    def within(self, remaining: Mapping[str, int]) -> int:
        """Offerings whose whole size stays within what is left of the pool's limits."""
        bits = self.base
        for name, amount in remaining.items():
            if name == NODES:
                if amount <= 0:
                    return 0
                continue
            bits &= ~self.universe.sizes(name).at_least(amount + 1) if amount >= 0 else 0
        return bits

    def attaching(self, driver: str, volumes: int) -> int:
        """Offerings that can attach this many volumes of a driver; no stated limit means any."""
        bits = 0
        for index, instance_type in enumerate(self.universe.types):
            limit = instance_type.volume_attachment_limits.get(driver)
            if limit is None or limit >= volumes:
                bits |= self.universe.type_bits[index]
        return bits

    def largest_attach_limit(self, driver: str, bits: int) -> int:
        """The most volumes of a driver that any type in ``bits`` states it can attach."""
        types = (self.universe.types[index] for index in self.universe.types_in(bits))
        return max((t.volume_attachment_limits.get(driver, 0) for t in types), default=0)

    def largest_size(self, name: str, bits: int) -> int:
        """The largest capacity for one resource among the types in ``bits``."""
        return self.universe.sizes(name).largest(bits)

    def largest_room(self, name: str) -> int:
        """The most of one resource that any offering of the pool leaves for pods."""
        return self.levels(name).largest(self.base)

    def shortfalls(self, requirements: Requirements, bits: int) -> list[Shortfall]:
        """The keys whose ``minValues`` the offerings in ``bits`` cannot reach."""
        found = []
        for key, _ in self.min_values:
            held = requirements[key]
            if held.min_values is None:
                continue
            count = sum(map(held.has, self._advertised(key, bits)))
            if count < held.min_values:
                found.append(Shortfall(key, held.min_values, count))
        return found

    def is_tolerated(self, tolerations: Iterable[Toleration]) -> bool:
        """Whether these tolerations cover the pool's taints."""
        return first_untolerated(self.taints, tolerations) is None

    def domains(self, key: str) -> set[str]:
        """The values of a label that nodes of the pool could have, sold out or not."""
        known = self._domains.get(key)
        if known is not None:
            return known
        held = self.requirements[key]
        found = set() if held.complement else set(held.values)
        for advertised in {t.requirements.get(key) for t in self.universe.types}:
            both = held.intersection(advertised) if advertised is not None else held
            if not both.complement:
                found |= both.values
        self._domains[key] = found
        return found

    def sold_out(self, wanted: Requirements) -> tuple[InstanceType, ...]:
        """The types that would suit the pool, narrowed to what is wanted, but are sold out.

        A type counts only if none of its suitable offerings is available. Used when a pod fails.
        """
        known = self._sold_out.get(wanted)
        if known is None:
            both = self.requirements & wanted
            available = set(self.universe.types_in(self.universe.allowed(both)))
            found = (
                kind
                for index, kind in enumerate(self.universe.types)
                if index not in available and is_sold_out(kind, both)
            )
            known = tuple(sorted(found, key=lambda kind: kind.name))  # in any catalogue's order
            self._sold_out[wanted] = known
        return known

    @property
    def hash(self) -> str:
        """The hash of the pool as it was compiled, which its annotation may lag behind."""
        if not self._hash:
            self._hash = node_pool_hash(self.node_pool)
        return self._hash

    @property
    def has_soft_taint(self) -> bool:
        """Whether the pool has a ``PreferNoSchedule`` taint."""
        return any(taint.effect == PREFER_NO_SCHEDULE for taint in self.taints)

    def _advertised(self, key: str, bits: int) -> set[str]:
        types = self.universe.types
        values: set[str] = set()
        for index in self.universe.types_in(bits):
            advertised = types[index].requirements[key]
            if not advertised.complement:
                values |= advertised.values
        return values


def is_sold_out(kind: InstanceType, wanted: Requirements) -> bool:
    """Whether a type has a suitable offering that is not available now."""
    return kind.requirements.intersects(wanted) and any(
        not each.available and each.requirements.intersects(wanted) for each in kind.offerings
    )


def template_requirements(node_pool: NodePool) -> Requirements:
    """What every node of a pool will satisfy."""
    template = node_pool.spec.template
    reference = template.spec.node_class_ref
    stated = Requirements.from_wire(template.spec.requirements)
    stated &= Requirements.from_labels(template.metadata.labels)
    stated &= (requirement(labels.NODEPOOL, Operator.IN, (node_pool.metadata.name,)),)
    if not reference.group:
        return stated
    class_label = f"{reference.group}/{reference.kind.lower()}"
    return stated & (requirement(class_label, Operator.IN, (reference.name,)),)


def _daemon_groups(
    template: Template, daemons: Sequence[Daemon], facts: ProviderFacts
) -> tuple[DaemonGroup, ...]:
    universe = template.universe
    pretended = template.requirements & _AS_IF_STARTED
    expected = [
        (daemon, terms)
        for daemon in daemons
        if daemon.tolerates(template.taints)
        and (
            terms := [
                term
                for term in daemon.terms
                if pretended.is_compatible(term, facts.well_known_labels)
            ]
        )
    ]
    if not expected:
        return (DaemonGroup(universe.all_bits, NO_RESOURCES, ()),)
    grouped: dict[frozenset[int], int] = {}
    for index, instance_type in enumerate(universe.types):
        running = frozenset(
            position
            for position, (_, terms) in enumerate(expected)
            if any(instance_type.requirements.intersects(term) for term in terms)
        )
        grouped[running] = grouped.get(running, 0) | universe.type_bits[index]
    return tuple(
        DaemonGroup(
            bits,
            total(expected[i][0].requests for i in sorted(running)),
            tuple(port for i in sorted(running) for port in expected[i][0].ports),
            tuple(expected[i][0] for i in sorted(running)),
        )
        for running, bits in grouped.items()
    )
