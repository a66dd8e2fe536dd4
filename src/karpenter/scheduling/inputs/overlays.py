"""NodeOverlays: prices and capacity that users set in place of what the cloud publishes.

Overlays are evaluated from the heaviest to the lightest, and by descending name at equal weight.
The first to price an offering, or to set a resource of a type, decides it. Two overlays of one
weight that would decide the same thing conflict: the later one is refused and applies nowhere, even
where it alone matches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Final

from karpenter.api.karpenter import NodeOverlay
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirement import RequirementError
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from karpenter.scheduling.problem import PoolCatalogue

_CORE_RESOURCES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})


@dataclass(frozen=True, slots=True)
class RefusedOverlay:
    """An overlay that applies nowhere: its name, the condition's reason, and why."""

    name: str
    reason: str  # Conflict or RuntimeValidation
    detail: str


@dataclass(frozen=True, slots=True)
class Overlaid:
    """Catalogues with every accepted overlay applied."""

    pools: tuple[PoolCatalogue, ...]
    refused: tuple[RefusedOverlay, ...]


@dataclass(frozen=True, slots=True)
class OverlaidCatalogues:
    """The cache of overlaid catalogues, valid while overlays and catalogues are unchanged.

    Applying them again in each pass would make new types, and invalidate everything compiled from
    the old ones.
    """

    overlays: Sequence[NodeOverlay]
    pools: Sequence[PoolCatalogue]  # before they were applied
    overlaid: Overlaid

    def holds(self, overlays: Sequence[NodeOverlay], pools: Sequence[PoolCatalogue]) -> bool:
        """Whether the cache is valid for these overlays and catalogues."""
        return (
            len(overlays) == len(self.overlays)
            and len(pools) == len(self.pools)
            and all(map(is_, overlays, self.overlays))
            and all(map(_has_same_machines, pools, self.pools))
        )

    def of(self, pools: Sequence[PoolCatalogue]) -> Overlaid:
        """The cached catalogues, for pools that differ only in fields overlays do not read."""
        made = zip(pools, self.overlaid.pools, strict=True)
        return Overlaid(
            tuple(PoolCatalogue(pool.node_pool, each.instance_types) for pool, each in made),
            self.overlaid.refused,
        )


def _has_same_machines(one: PoolCatalogue, other: PoolCatalogue) -> bool:
    return one.instance_types is other.instance_types and _held_by(one) == _held_by(other)


def _held_by(pool: PoolCatalogue) -> Mapping[str, str]:
    """The labels that all machines of a pool have."""
    node_pool = pool.node_pool
    return {**node_pool.spec.template.metadata.labels, labels.NODEPOOL: node_pool.metadata.name}


@dataclass(frozen=True, slots=True)
class _Touch:
    """One thing an overlay decides: the price of an offering, or a resource of a type."""

    pool: str
    instance_type: str
    what: int | str  # position of the offering, or name of the resource


def apply_overlays(overlays: Iterable[NodeOverlay], pools: Sequence[PoolCatalogue]) -> Overlaid:
    """Apply overlays to the catalogues of pools."""
    ordered = sorted(overlays, key=lambda overlay: overlay.metadata.name, reverse=True)
    ordered.sort(key=lambda overlay: -(overlay.spec.weight or 0))
    decided: dict[_Touch, NodeOverlay] = {}
    lightest: dict[_Touch, NodeOverlay] = {}  # the last one that would also have decided
    refused = []
    for overlay in ordered:
        try:
            touched = _touched(overlay, pools)
        except RequirementError as error:
            refused.append(RefusedOverlay(overlay.metadata.name, "RuntimeValidation", str(error)))
            continue
        rival = _rival(overlay, touched, lightest)
        if rival is not None:
            detail = f"decides the same as {rival}, which has the same weight"
            refused.append(RefusedOverlay(overlay.metadata.name, "Conflict", detail))
            continue
        for touch in touched:
            decided.setdefault(touch, overlay)
            lightest[touch] = overlay
    if not decided:
        return Overlaid(tuple(pools), tuple(refused))
    return Overlaid(tuple(_overlaid(pool, decided) for pool in pools), tuple(refused))


def adjusted_price(overlay: NodeOverlay, price: float) -> float:
    """The price an overlay gives to an offering that costs ``price``; never below zero."""
    if overlay.spec.price is not None:
        return float(overlay.spec.price)
    change = overlay.spec.price_adjustment or "+0"
    if change.endswith("%"):
        return max(0.0, price * (1 + float(change[:-1]) / 100))
    return max(0.0, price + float(change))


def _touched(overlay: NodeOverlay, pools: Sequence[PoolCatalogue]) -> list[_Touch]:
    core = sorted(_CORE_RESOURCES & overlay.spec.capacity.keys())
    if core:
        raise RequirementError(f"capacity of {', '.join(core)} cannot be changed; leave it out")
    wanted = Requirements.from_wire(overlay.spec.requirements)
    prices = overlay.spec.price is not None or overlay.spec.price_adjustment is not None
    found = []
    for pool in pools:
        name = pool.node_pool.metadata.name
        held = Requirements.from_labels(_held_by(pool))
        for instance_type in pool.instance_types:
            matching = list(_matching_offerings(held, instance_type, wanted))
            if not matching:
                continue
            if prices:
                found += [_Touch(name, instance_type.name, position) for position in matching]
            found += [_Touch(name, instance_type.name, res) for res in overlay.spec.capacity]
    return found


def _matching_offerings(
    held: Requirements, instance_type: InstanceType, wanted: Requirements
) -> Iterable[int]:
    machine = held & instance_type.requirements
    if not machine.is_compatible(wanted):
        return
    for position, offering in enumerate(instance_type.offerings):
        if (machine & offering.requirements).is_compatible(wanted):
            yield position


def _rival(
    overlay: NodeOverlay, touched: Iterable[_Touch], lightest: Mapping[_Touch, NodeOverlay]
) -> str | None:
    weight = overlay.spec.weight or 0
    for touch in touched:
        other = lightest.get(touch)
        if other is not None and (other.spec.weight or 0) == weight:
            return other.metadata.name
    return None


def _overlaid(pool: PoolCatalogue, decided: Mapping[_Touch, NodeOverlay]) -> PoolCatalogue:
    name = pool.node_pool.metadata.name
    resources = sorted({touch.what for touch in decided if isinstance(touch.what, str)})
    types = tuple(_overlaid_type(name, it, decided, resources) for it in pool.instance_types)
    if all(new is old for new, old in zip(types, pool.instance_types, strict=True)):
        return pool  # unchanged, so pools with the same catalogue still share it
    return PoolCatalogue(pool.node_pool, types)


def _overlaid_type(
    pool: str,
    instance_type: InstanceType,
    decided: Mapping[_Touch, NodeOverlay],
    resources: Iterable[str],
) -> InstanceType:
    offerings = tuple(
        _overlaid_offering(offering, decided.get(_Touch(pool, instance_type.name, position)))
        for position, offering in enumerate(instance_type.offerings)
    )
    added = {
        resource: overlay.spec.capacity[resource]
        for resource in resources
        if (overlay := decided.get(_Touch(pool, instance_type.name, resource))) is not None
    }
    untouched = zip(offerings, instance_type.offerings, strict=True)
    if not added and all(new is old for new, old in untouched):
        return instance_type
    capacity = dict(instance_type.capacity.items()) | dict(Resources.from_wire(added).items())
    return replace(
        instance_type,
        offerings=offerings,
        capacity=Resources.of(capacity),
        overlaid_capacity=bool(added),
    )


def _overlaid_offering(offering: Offering, overlay: NodeOverlay | None) -> Offering:
    if overlay is None:
        return offering
    return replace(
        offering,
        price=adjusted_price(overlay, offering.price),
        overlaid=True,
        # an adjusted estimate is still an estimate
        is_estimate=offering.is_estimate and overlay.spec.price is None,
    )
