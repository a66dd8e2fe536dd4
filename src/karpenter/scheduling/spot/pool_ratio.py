"""The spot ratio of a pool: claims that would exceed it are pinned to on-demand and reserved.

Notation
    spot, total   cpu of a pool's machines, in millicores: running, launching and planned ones
    excess        by how much spot exceeds what the ratio allows of the total

A planned claim counts as spot while it may be launched on spot, with the cpu of its cheapest spot
type; a pinned one with that of its cheapest other type. Claims are pinned smallest first until
nothing is in excess. One that pods, pool, or ``minValues`` tie to spot stays as it is. In the end
those that turned out not to be needed are released, largest first.

Pinning takes offerings from a claim and adds none, so no rule that the claim kept is broken.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template, template_requirements
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.plan import RatioOutcome
from karpenter.scheduling.result import with_bookings
from karpenter.scheduling.spot.annotations import SpotRatio, pool_ratio
from karpenter.state.nodes import StateNode

_PER_CPU: Final = 1000


@dataclass(slots=True)
class Fleet:
    """The cpu of some machines, in millicores."""

    total: int = 0
    spot: int = 0

    def add(self, cpu: int, *, is_spot: bool) -> None:
        """Add a machine, or remove one whose cpu is negative."""
        self.total += cpu
        self.spot += cpu if is_spot else 0


@dataclass(slots=True)
class _Planned:
    """A planned claim that may be launched on spot."""

    claim: OpenClaim
    spot_cpu: int
    other_bits: int = 0  # its offerings that are not spot; none when it cannot be pinned
    other_cpu: int = 0
    bits: int = field(default=0)  # before it was pinned


def effective_ratio(node_pool: NodePool) -> SpotRatio | None:
    """The ratio of a pool that can have one: a pool for spot alone is all spot."""
    ratio = pool_ratio(node_pool)
    if ratio is None:
        return None
    has = template_requirements(node_pool)[labels.CAPACITY_TYPE].has
    return ratio if has(labels.ON_DEMAND) or has(labels.RESERVED) else None


def running_fleets(
    machines: Iterable[StateNode], going: Collection[str] = frozenset()
) -> dict[str, Fleet]:
    """The machines of each pool that stay: ours, launching or running, and not being deleted.

    ``going`` are the names of further machines that leave.
    """
    fleets: dict[str, Fleet] = {}
    for machine in machines:
        if machine.node_claim is None or machine.is_deleting or machine.name in going:
            continue
        fleet = fleets.setdefault(machine.node_pool, Fleet())
        is_spot = machine.labels.get(labels.CAPACITY_TYPE) == labels.SPOT
        fleet.add(machine.capacity.cpu, is_spot=is_spot)
    return fleets


@dataclass(frozen=True, slots=True)
class RatioRule:
    """How the ratios of pools are kept in one packing."""

    going: frozenset[str] = frozenset()  # machines that leave, by name
    heals: bool = True  # until a ratio holds; or only until it is no further off than it is now
    is_ignored: bool = False

    def pin(self, compiled: CompiledProblem, claims: Sequence[OpenClaim]) -> None:
        """Pin planned claims so that the ratios of their pools are kept."""
        ratios = {} if self.is_ignored else _ratios(compiled.templates)
        if not ratios or not claims:
            return
        fleets = running_fleets(compiled.state_nodes, self.going)
        for number, ratio in ratios.items():
            template = compiled.templates[number]
            own = [claim for claim in claims if claim.template == number]
            fleet = fleets.get(template.name, Fleet())
            tolerated = self._tolerated(compiled, template, ratio)
            _pin(template, ratio, fleet, own, compiled.problem.facts, tolerated)

    def spot_left(
        self,
        compiled: CompiledProblem,
        template: Template,
        claims: Sequence[OpenClaim],
        waiting: int,
    ) -> float | None:
        """The cpu of a pool that may still be spot, in millicores; None where it has no ratio.

        Args:
            claims: those that are open so far.
            waiting: cpu of the pods to be placed, which new machines have at least.
        """
        ratio = None if self.is_ignored else effective_ratio(template.node_pool)
        if ratio is None:
            return None
        fleets = running_fleets(compiled.state_nodes, self.going)
        fleet = fleets.get(template.name, Fleet())
        for claim in claims:
            if claim.template == template.number:
                cpu, is_spot = _size(template, claim, compiled.problem.facts)
                fleet.add(cpu, is_spot=is_spot)
        allowed = ratio.allowed(fleet.total + waiting)
        return max(0.0, allowed + self._tolerated(compiled, template, ratio) - fleet.spot)

    def _tolerated(self, compiled: CompiledProblem, template: Template, ratio: SpotRatio) -> float:
        """By how much a pool may exceed its ratio."""
        if self.heals:
            return 0.0
        now = running_fleets(compiled.state_nodes).get(template.name, Fleet())
        return ratio.excess(now.total, now.spot)


def keep_off_spot(template: Template, claim: OpenClaim) -> None:
    """Take spot from a claim that was bought as another size."""
    claim.is_pinned = bool(claim.bits & _spot(template))
    claim.bits &= ~_spot(template)


def ratio_outcomes(
    compiled: CompiledProblem, claims: Sequence[OpenClaim]
) -> tuple[RatioOutcome, ...]:
    """What a plan with these claims makes of the ratio of each pool that has one."""
    ratios = _ratios(compiled.templates)
    if not ratios:
        return ()
    fleets = running_fleets(compiled.state_nodes)
    found = []
    for number, ratio in ratios.items():
        template = compiled.templates[number]
        fleet = fleets.get(template.name, Fleet())
        pinned = 0
        for claim in claims:
            if claim.template != number:
                continue
            pinned += claim.is_pinned
            cpu, is_spot = _size(template, claim, compiled.problem.facts)
            fleet.add(cpu, is_spot=is_spot)
        found.append(
            RatioOutcome(
                node_pool=template.name,
                asked=ratio.percent,
                base=ratio.base / _PER_CPU,
                spot_cpu=fleet.spot / _PER_CPU,
                total_cpu=fleet.total / _PER_CPU,
                pinned=pinned,
                excess_cpu=ratio.excess(fleet.total, fleet.spot) / _PER_CPU,
            )
        )
    return tuple(found)


def _ratios(templates: Sequence[Template]) -> dict[int, SpotRatio]:
    found = {template.number: effective_ratio(template.node_pool) for template in templates}
    return {number: ratio for number, ratio in found.items() if ratio is not None}


def _size(template: Template, claim: OpenClaim, facts: ProviderFacts) -> tuple[int, bool]:
    """The cpu that a claim counts with, and whether it may be launched on spot."""
    _, wanted = with_bookings(template, claim, facts)
    wanted &= template.universe.launchable
    spot = wanted & _spot(template)
    return _cpu(template, spot or wanted), bool(spot)


def _spot(template: Template) -> int:
    return template.universe.with_value(labels.CAPACITY_TYPE, labels.SPOT)


def _cpu(template: Template, bits: int) -> int:
    """The cpu of the type of the cheapest of some offerings."""
    universe = template.universe
    if not bits:
        return 0
    return universe.types[universe.type_of[universe.cheapest_bit(bits)]].capacity.cpu


def _pin(
    template: Template,
    ratio: SpotRatio,
    fleet: Fleet,
    claims: Sequence[OpenClaim],
    facts: ProviderFacts,
    tolerated: float,
) -> None:
    on_spot: list[_Planned] = []
    for claim in claims:
        cpu, is_spot = _size(template, claim, facts)
        fleet.add(cpu, is_spot=is_spot)
        if is_spot:
            on_spot.append(_planned(template, claim, cpu))

    def is_exceeded() -> bool:
        return ratio.excess(fleet.total, fleet.spot) > tolerated

    pinned: list[_Planned] = []
    for entry in sorted(on_spot, key=lambda each: (each.spot_cpu, each.claim.index)):
        if not is_exceeded():
            break
        if entry.other_bits:
            _swap(fleet, entry, is_pinned=True)
            pinned.append(entry)
    for entry in reversed(pinned):
        _swap(fleet, entry, is_pinned=False)
        if is_exceeded():
            _swap(fleet, entry, is_pinned=True)


def _planned(template: Template, claim: OpenClaim, spot_cpu: int) -> _Planned:
    """A claim with what it could be pinned to."""
    held = claim.shape.requirements
    entry = _Planned(claim, spot_cpu, bits=claim.bits)
    other = claim.bits & ~_spot(template)
    launchable = other & template.universe.launchable
    if not launchable or (held[labels.CAPACITY_TYPE].min_values or 1) > 1:
        return entry
    short = len(template.shortfalls(held, claim.bits))
    if len(template.shortfalls(held, other)) > short:
        return entry
    entry.other_bits, entry.other_cpu = other, _cpu(template, launchable)
    return entry


def _swap(fleet: Fleet, entry: _Planned, *, is_pinned: bool) -> None:
    """Pin a claim, or release it."""
    sign = 1 if is_pinned else -1
    fleet.add(-sign * entry.spot_cpu, is_spot=True)
    fleet.add(sign * entry.other_cpu, is_spot=False)
    entry.claim.is_pinned = is_pinned
    entry.claim.bits = entry.other_bits if is_pinned else entry.bits
