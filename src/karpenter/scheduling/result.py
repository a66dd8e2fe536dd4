"""From packed claims to the NodeClaims that would be created."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.model.claim_names import planned_name
from karpenter.model.min_values import Shortfall, lowered
from karpenter.model.requirement import Operator, Requirement, requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.plan import Launch, PlannedClaim
from karpenter.scheduling.problem import Options
from karpenter.scheduling.spot.fallback import return_wait, spot_offerings
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION

# Labels that are set while a node starts, so a claim neither has nor requires them
NOT_ON_CLAIMS: Final = frozenset({labels.HOSTNAME, labels.REGISTERED, labels.INITIALIZED})


@dataclass(frozen=True, slots=True)
class _Common:
    """The parts that claims with the same narrowing share, whichever pods they hold."""

    instance_types: tuple[str, ...]
    requirements: Requirements
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    overhead: Resources
    launch: Launch | None


class ClaimWriter:
    """Writes out the claims of one packing."""

    __slots__ = ("_facts", "_known", "_options")

    def __init__(self, facts: ProviderFacts, options: Options) -> None:
        """Begin with nothing written."""
        self._facts = facts
        self._options = options
        self._known: dict[tuple[object, ...], _Common | list[Shortfall]] = {}

    def planned(
        self, template: Template, claim: OpenClaim, pods: Sequence[str]
    ) -> PlannedClaim | list[Shortfall]:
        """Write a claim, or return the ``minValues`` that its listed types do not reach."""
        key = (
            template.number,
            claim.shape,
            claim.bits,
            claim.bookings,
            claim.device_drivers,
            claim.ceiling,
        )
        common = self._known.get(key)
        if common is None:
            common = self._known[key] = self._common(template, claim)
        if isinstance(common, list):
            return common
        spec = template.node_pool.spec.template.spec
        return PlannedClaim(
            name=planned_name(template.name, pods),
            node_pool=template.name,
            pods=tuple(pods),
            instance_types=common.instance_types,
            requirements=common.requirements,
            labels=common.labels,
            annotations=common.annotations,
            taints=spec.taints,
            startup_taints=spec.startup_taints,
            requests=Resources.of(claim.requests) + common.overhead,
            node_class_ref=spec.node_class_ref,
            expire_after=spec.expire_after,
            termination_grace_period=spec.termination_grace_period
            or self._facts.default_termination_grace_period,
            launch=common.launch,
        )

    def _common(self, template: Template, claim: OpenClaim) -> _Common | list[Shortfall]:
        universe = template.universe
        most = self._options.most_instance_types
        held, wanted = with_bookings(template, claim, self._facts)
        bits = claim.bits
        if template.has_reserved:
            bits &= ~_too_small(universe, held, wanted, bits)
        listed = _in_price_order(universe, wanted & bits, bits)
        for index in listed[most:]:
            bits &= ~universe.type_bits[index]
        wanted &= bits
        short = template.shortfalls(held, bits)
        if short and not self._options.best_effort_min_values:
            return short
        held = lowered(held, short) if short else held
        names = tuple(map(universe.type_names.__getitem__, listed[:most]))
        return _Common(
            instance_types=names,
            requirements=_requirements(held, names, _capacity_types(template, wanted)),
            labels=claim_labels(template.node_pool, held, self._facts),
            annotations=_annotations(template, claim, bits, is_short=bool(short)),
            overhead=_least_overhead(template, bits),
            launch=self._with_risk(launch_of(template, wanted)),
        )

    def _with_risk(self, launch: Launch | None) -> Launch | None:
        """A launch with what the risk of its interruption costs, where that has a price."""
        risk = self._options.cost.risk
        if launch is None or risk is None or launch.capacity_type != labels.SPOT:
            return launch
        return replace(launch, risk_hourly=risk.hourly(launch.instance_type, launch.zone))


def with_bookings(
    template: Template, claim: OpenClaim, facts: ProviderFacts
) -> tuple[Requirements, int]:
    """The final requirements of a claim, and the offerings that remain."""
    held = claim.shape.requirements
    if not claim.bookings:
        return held, claim.bits
    # a reservation takes precedence over minValues of the capacity type
    held = Requirements(entry for entry in held if entry.key != labels.CAPACITY_TYPE)
    held &= (requirement(labels.CAPACITY_TYPE, Operator.IN, (labels.RESERVED,)),)
    if facts.reservation_id_label:
        held &= (requirement(facts.reservation_id_label, Operator.IN, sorted(claim.bookings)),)
    universe = template.universe
    booked = 0
    for bit in universe.members(claim.bits & universe.reserved):
        if universe.offerings[bit].reservation_id in claim.bookings:
            booked |= 1 << bit
    return held, booked


def _too_small(universe: OfferingIndex, held: Requirements, wanted: int, bits: int) -> int:
    """Offerings of types that fit the claim only on offerings outside its final requirements."""
    capacity_types = universe.values(labels.CAPACITY_TYPE, wanted & universe.launchable)
    if not capacity_types:
        return 0
    asked = (requirement(labels.CAPACITY_TYPE, Operator.IN, capacity_types),)
    without_room = universe.allowed(held & asked) & ~bits
    too_small = 0
    for index in universe.types_in(without_room):
        if not universe.type_bits[index] & wanted & universe.launchable:
            too_small |= universe.type_bits[index]
    return too_small


def _in_price_order(universe: OfferingIndex, wanted: int, bits: int) -> tuple[int, ...]:
    """The types in ``bits``, those that have no offering in ``wanted`` at the end."""
    cheapest_first = universe.types_in(wanted)
    if wanted == bits:
        return cheapest_first
    known = set(cheapest_first)
    rest = (index for index in universe.types_in(bits) if index not in known)
    return (*cheapest_first, *rest)


def _requirements(
    held: Requirements, types: Sequence[str], capacity_types: Sequence[str]
) -> Requirements:
    chosen = [Requirement(labels.INSTANCE_TYPE, complement=False, values=frozenset(types))]
    # fewer capacity types than the pool's minValues would make the claim invalid
    if len(capacity_types) >= (held[labels.CAPACITY_TYPE].min_values or 1):
        chosen.append(requirement(labels.CAPACITY_TYPE, Operator.IN, capacity_types))
    kept = (entry for entry in held if entry.key not in NOT_ON_CLAIMS)
    return Requirements(kept) & chosen


def _capacity_types(template: Template, bits: int) -> list[str]:
    universe = template.universe
    return universe.values(labels.CAPACITY_TYPE, bits & universe.launchable)


def claim_labels(pool: NodePool, held: Requirements, facts: ProviderFacts) -> dict[str, str]:
    """The labels of a claim of ``pool`` that holds these requirements."""
    reference = pool.spec.template.spec.node_class_ref
    found = dict(pool.spec.template.metadata.labels)
    found[labels.NODEPOOL] = pool.metadata.name
    if reference.group:
        found[f"{reference.group}/{reference.kind.lower()}"] = reference.name
    for entry in held:
        if entry.key in found or entry.key in facts.well_known_labels | NOT_ON_CLAIMS:
            continue
        value = entry.any()
        if value:
            found[entry.key] = value
    return found


def _annotations(
    template: Template, claim: OpenClaim, bits: int, *, is_short: bool
) -> Mapping[str, str]:
    found = dict(template.node_pool.spec.template.metadata.annotations)
    found[labels.NODEPOOL_HASH] = template.hash
    found[labels.NODEPOOL_HASH_VERSION] = NODEPOOL_HASH_VERSION
    relaxed = is_short or any(
        claim.shape.requirements[key].min_values != wanted for key, wanted in template.min_values
    )
    found[labels.MIN_VALUES_RELAXED] = "true" if relaxed else "false"
    universe = template.universe
    if bits & universe.overlaid:
        found[labels.PRICE_OVERLAY_APPLIED] = "true"
    if bits & universe.overlaid_capacity:
        found[labels.CAPACITY_OVERLAY_APPLIED] = "true"
    if claim.device_drivers:
        found[labels.REQUESTED_DRA_DRIVERS] = ",".join(sorted(claim.device_drivers))
    if claim.ceiling is not None:
        found[labels.PRICE_CEILING] = str(claim.ceiling)
    if return_wait(template.node_pool) is not None:
        on_spot = _cheaper_spot(template, claim, bits)
        if on_spot is not None:
            found[labels.SPOT_PRICE] = str(on_spot)
    return found


def _cheaper_spot(template: Template, claim: OpenClaim, bits: int) -> float | None:
    """The least a claim would cost on spot, sold out or not, if that is less than on-demand."""
    held, universe = claim.shape.requirements, template.universe
    if claim.is_pinned or claim.bookings or not held[labels.CAPACITY_TYPE].has(labels.SPOT):
        return None
    on_demand = universe.cheapest(
        bits & universe.with_value(labels.CAPACITY_TYPE, labels.ON_DEMAND)
    )
    if on_demand is None:
        return None
    needs = Resources.of(claim.requests) + _least_overhead(template, bits)
    found = spot_offerings(universe.types, held, needs)
    price = min((offering.price for offering, _ in found), default=math.inf)
    return price if price < on_demand.price else None


def _least_overhead(template: Template, bits: int) -> Resources:
    overheads = [group.overhead for group in template.daemon_groups if group.bits & bits]
    least = overheads[0] if overheads else Resources()
    for overhead in overheads[1:]:
        least = least.lowest(overhead)
    return least


def launch_of(template: Template, bits: int) -> Launch | None:
    """The cheapest way to launch one of the offerings in ``bits``, or None."""
    universe = template.universe
    bits &= universe.launchable
    if not bits:
        return None
    bit = universe.cheapest_bit(bits)
    offering = universe.offerings[bit]
    return Launch(
        instance_type=universe.types[universe.type_of[bit]].name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price,
        is_estimate=offering.is_estimate,
    )
