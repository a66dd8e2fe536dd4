"""Instance types and offerings: the catalogue model that every provider shares.

An instance type is a machine one could have; an offering is one way to have it (a zone, a capacity
type, perhaps a reservation) with a price. The planners see clouds only through these values.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from karpenter.api.codec import known_node_class
from karpenter.api.devices import ResourceSlice
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.meta import group_of, kind_of
from karpenter.api.node_classes import NodeClass
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import HUGEPAGES_PREFIX, NO_RESOURCES, Resources

_NO_LIMITS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class Offering:
    """One way to have an instance type.

    ``available`` means that the offering is healthy; a reservation that is used up stays available
    with a ``reservation_capacity`` of zero.
    """

    requirements: Requirements
    price: float
    available: bool = True
    reservation_id: str = ""
    reservation_capacity: int = 0
    capacity: Resources | None = None  # amounts that replace those of the type
    overhead: Resources | None = None  # amounts that replace the type's total overhead
    overlaid: bool = False  # the price comes from a NodeOverlay
    is_estimate: bool = False  # the price is the provider's estimate, not the cloud's

    @property
    def zone(self) -> str:
        """The zone, or nothing when the offering is bound to none."""
        requirement = self.requirements[labels.ZONE]
        return "" if requirement.complement else requirement.any()

    @property
    def capacity_type(self) -> str:
        """Spot, on-demand or reserved; nothing when the provider does not say."""
        requirement = self.requirements[labels.CAPACITY_TYPE]
        return "" if requirement.complement else requirement.any()

    @property
    def is_reserved(self) -> bool:
        """Whether the offering draws on a reservation."""
        return self.capacity_type == labels.RESERVED

    @property
    def is_launchable(self) -> bool:
        """Whether a launch could succeed: healthy, and not a reservation that is used up."""
        return self.available and (not self.is_reserved or self.reservation_capacity > 0)


@dataclass(frozen=True)
class InstanceType:
    """A machine that can be bought, with all properties that scheduling depends on."""

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Resources
    overhead: Resources = NO_RESOURCES  # kube-reserved, system-reserved and eviction threshold
    volume_attachment_limits: Mapping[str, int] = field(default_factory=lambda: _NO_LIMITS)
    device_templates: tuple[ResourceSlice, ...] = ()  # what DRA drivers will publish on the node
    overlaid_capacity: bool = False  # some capacity comes from a NodeOverlay

    @cached_property
    def allocatable(self) -> Resources:
        """What pods may use when no offering says otherwise."""
        return allocatable(self.capacity, self.overhead)

    def offering_in(self, zone: str, capacity_type: str) -> Offering | None:
        """The first offering of a kind in a zone, sold out or not."""
        return self._by_place.get((zone, capacity_type))

    @cached_property
    def _by_place(self) -> Mapping[tuple[str, str], Offering]:
        return {(each.zone, each.capacity_type): each for each in reversed(self.offerings)}

    def allocatable_of(self, offering: Offering) -> Resources:
        """What pods may use on this offering."""
        if offering.capacity is None and offering.overhead is None:
            return self.allocatable
        capacity = _replaced(self.capacity, offering.capacity)
        return allocatable(capacity, _replaced(self.overhead, offering.overhead))

    def with_offerings(self, offerings: tuple[Offering, ...]) -> "InstanceType":
        """The same machine with other offerings."""
        return replace(self, offerings=offerings)


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What the planners must know about a provider beyond its catalogue."""

    name: str
    node_classes: tuple[tuple[str, str], ...]  # (group, kind) of the node classes it serves
    well_known_labels: frozenset[str]
    reservation_id_label: str = ""
    unsupported_volume_drivers: frozenset[str] = frozenset()
    unsupported_topology_keys: frozenset[str] = frozenset()
    default_termination_grace_period: str | None = None
    models: tuple[type[NodeClass], ...] = ()  # of node classes, which need not be named above then
    serves_any: bool = False  # machines without a cloud, such as those of a file, for any class

    def __post_init__(self) -> None:
        """Serve the node classes whose models it brings."""
        own = tuple((group_of(model), kind_of(model)) for model in self.models)
        object.__setattr__(self, "node_classes", tuple(dict.fromkeys((*self.node_classes, *own))))

    def serves(self, reference: NodeClassReference) -> bool:
        """Whether it serves a node class; objects that name another one are ignored."""
        return self.serves_any or (reference.group, reference.kind) in self.node_classes

    @property
    def readable_node_classes(self) -> tuple[type[NodeClass], ...]:
        """The models of the node classes it serves; one without a model only the provider reads."""
        own = {(group_of(model), kind_of(model)): model for model in self.models}
        found = (own.get(pair) or known_node_class(*pair) for pair in self.node_classes)
        return tuple(model for model in found if model is not None)


def allocatable(capacity: Resources, overhead: Resources) -> Resources:
    """What is left of ``capacity`` for pods; huge pages come out of memory, down to nothing."""
    left = capacity - overhead
    huge = sum(n for name, n in left.others.items() if name.startswith(HUGEPAGES_PREFIX))
    if not huge:
        return left
    return Resources(
        left.cpu, max(0, left.memory - huge), left.pods, left.ephemeral_storage, left.others
    )


def price_ceiling(annotations: Mapping[str, str]) -> float:
    """The dollars per hour that the launch of a claim may cost at most; infinite by default."""
    try:
        ceiling = float(annotations.get(labels.PRICE_CEILING, "inf"))
    except ValueError:
        return math.inf
    return math.inf if math.isnan(ceiling) else ceiling


def is_within(ceiling: float, price: float) -> bool:
    """Whether a price is no higher than a ceiling, with a tolerance for rounding."""
    return ceiling == math.inf or comparable_price(price) <= ceiling * (1 + 1e-9)


def comparable_price(price: float) -> float:
    """A price that can be sorted: NaN sorts last."""
    return math.inf if math.isnan(price) else price


def _replaced(base: Resources, override: Resources | None) -> Resources:
    if override is None:
        return base
    return Resources.of(dict(base.items()) | dict(override.items()))
