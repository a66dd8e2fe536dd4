"""Devices for the pods of one pass: what is free, what the pass has allocated, and where.

A ResourceClaim is allocated once. Devices of a machine tie all pods of the ResourceClaim to that
machine; devices of the cluster let them go wherever those can be reached. A planned claim lists
several instance types, so devices are found for each group of types that publish the same. Which
cluster devices are used, and which drivers must publish, must not depend on the type that is
launched, so groups that differ in that from the cheapest are dropped.

Devices are never released within a pass and planned claims only narrow: every refusal is final.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from karpenter.api.devices import DeviceRequestAllocationResult, ResourceClaim
from karpenter.model import labels
from karpenter.model.quantity import QuantityError
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.devices.amounts import amount
from karpenter.scheduling.devices.catalogue import DeviceCatalogue
from karpenter.scheduling.devices.demand import Demand, Wanted, demand_of
from karpenter.scheduling.devices.inventory import (
    DeviceKey,
    PoolDevice,
    Published,
    published_pools,
    qualified,
)
from karpenter.scheduling.devices.places import ClaimPlace, NodePlace, TypeGroup, narrowed
from karpenter.scheduling.devices.protocol import Grant
from karpenter.scheduling.devices.reach import NodeTerm
from karpenter.scheduling.devices.requests import CompiledRequest, Compiler, RequestOption
from karpenter.scheduling.devices.search import Found, OutOfStepsError, Pick, Place, Search
from karpenter.scheduling.devices.selectors import SelectorError
from karpenter.scheduling.devices.usage import Shares, Usage
from karpenter.scheduling.packing.claims import OpenClaim, Shape

_Host: TypeAlias = OpenClaim | int  # a planned claim, or the number of a machine that exists
_Servings: TypeAlias = Mapping[TypeGroup, Found]
MOST_VAIN_SEARCHES: Final = 5  # after so many searches that ran out of steps, a class is given up


@dataclass(frozen=True, slots=True)
class Holding:
    """One device, or share of one, that a claim holds."""

    device: PoolDevice
    shares: Shares


@dataclass(slots=True)
class Ledger:
    """The holdings of all claims."""

    taken: Usage = field(default_factory=Usage)
    by_node: dict[str, list[Holding]] = field(default_factory=dict)  # of devices in nodes


def ledger_of(claims: Iterable[ResourceClaim], published: Published) -> Ledger:
    """Enter what claims hold of the devices that are published."""
    ledger = Ledger()
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            device = published.by_key.get(DeviceKey(result.driver, result.pool, result.device))
            if device is None or result.admin_access:
                continue
            holding = Holding(device, _shares(result, device))
            ledger.taken.take(device, holding.shares)
            if device.reach.node_name is not None:
                ledger.by_node.setdefault(device.reach.node_name, []).append(holding)
    return ledger


def _shares(result: DeviceRequestAllocationResult, device: PoolDevice) -> Shares:
    if not device.is_shared:
        return ()
    try:
        consumed = {
            qualified(name, device.key.driver): amount(quantity)
            for name, quantity in result.consumed_capacity.items()
        }
    except QuantityError:  # count all of it as used, so that nothing is allocated twice
        consumed = {name: capacity.value for name, capacity in device.capacity.items()}
    return tuple((name, n) for name, n in sorted(consumed.items()) if name in device.capacity)


@dataclass(frozen=True, slots=True)
class _Settled:
    """How this pass serves a claim that several pods share."""

    host: _Host | None  # the only place its pods may go to
    terms: tuple[NodeTerm, ...]  # else what must hold wherever they go


@dataclass(frozen=True, slots=True)
class _Granted:
    """Devices found for a pod."""

    commit: Callable[[], None]


class DeviceAllocator:
    """Finds devices for pods and records which are taken."""

    def __init__(self, compiled: CompiledProblem) -> None:
        """Begin with the devices that no claim of the cluster keeps."""
        problem = compiled.problem
        inputs = problem.devices
        self._compiled = compiled
        self._well_known = problem.facts.well_known_labels
        self._compiler = Compiler(inputs.classes)
        self._published = Published(published_pools(inputs.slices))
        self._catalogue = DeviceCatalogue(problem.pools, inputs.shared_attributes)
        self._ledger = ledger_of(compiled.resource_claims.served(), self._published)
        self._taken = self._ledger.taken  # of the devices of the cluster
        self._demands: dict[PodClass, Demand] = {}
        self._vain: dict[PodClass, int] = {}  # searches that took too long
        self._settled: dict[str, _Settled] = {}
        self._on_claims: dict[OpenClaim, dict[TypeGroup, Usage]] = {}
        self._nodes: dict[int, tuple[NodePlace, Usage]] = {}

    def refusal(self, pod_class: PodClass) -> str | None:
        """Why such a pod cannot have its devices wherever it goes, or None."""
        return self._demand(pod_class).problem or None

    def to_node(self, number: int, pod_class: PodClass) -> Grant | None:
        """Find devices for a pod on a machine that exists."""
        demand = self._demand(pod_class)
        place, usage = self._node(number)
        if not all(place.is_meant(served.terms) for served in demand.served):
            return None
        fresh = []
        for wanted in demand.wanted:
            settled = self._settled.get(wanted.key or "")
            if settled is None:
                fresh.append(wanted)
            elif settled.host is not None:
                if settled.host != number:
                    return None
            elif not all(place.is_meant((term,)) for term in settled.terms):
                return None
        found = self._find(pod_class, fresh, place, usage, None)
        if found is None:
            return None

        def commit() -> None:
            self._take(found.picks, usage)
            for position, wanted in enumerate(fresh):
                own = [pick for pick in found.picks if pick.claim_index == position]
                self._settle(wanted, number, own)

        return _Granted(commit)

    def to_claim(
        self, template: Template, claim: OpenClaim, shape: Shape, bits: int, pod_class: PodClass
    ) -> tuple[Shape, int, Grant] | None:
        """Find devices for a pod on a planned claim, narrowed to what can have them."""
        outcome = self._narrowed(template, claim, shape, bits, self._demand(pod_class))
        if isinstance(outcome, str):
            return None
        shape, bits, fresh = outcome
        if not fresh:
            return shape, bits, _Granted(lambda: None)
        servings = self._servings(template, claim, shape, bits, pod_class, fresh)
        if not servings:
            return None
        first = next(iter(servings.values()))
        assert first.spot is not None
        kept = sum(group.bits for group in servings)  # groups do not overlap

        def commit() -> None:
            self._commit(claim, fresh, servings)

        return first.spot, bits & kept & first.spot.bits, _Granted(commit)

    def why_not(
        self, template: Template, shape: Shape, bits: int, pod_class: PodClass
    ) -> str | None:
        """Why a new claim of the pool cannot have the devices of a pod, or None."""
        claim = OpenClaim(-1, template.number, shape, bits)
        outcome = self._narrowed(template, claim, shape, bits, self._demand(pod_class))
        if isinstance(outcome, str):
            return outcome
        shape, bits, fresh = outcome
        if not fresh or self._servings(template, claim, shape, bits, pod_class, fresh):
            return None
        if pod_class in self._vain:
            return "the search for its devices took too long; narrow its claims by selectors"
        groups = self._groups(template, bits)
        return shortage(fresh, [self._place(template, shape, bits, group) for group in groups])

    def _demand(self, pod_class: PodClass) -> Demand:
        demand = self._demands.get(pod_class)
        if demand is None:
            demand = demand_of(pod_class.pod, self._compiled.resource_claims, self._compiler)
            self._demands[pod_class] = demand
        return demand

    def _narrowed(
        self, template: Template, claim: OpenClaim, shape: Shape, bits: int, demand: Demand
    ) -> tuple[Shape, int, list[Wanted]] | str:
        """Narrow to where the devices of allocated claims are reached; return the other claims."""
        for served in demand.served:
            reached = self._reaching(template, shape, bits, served.terms)
            if reached is None:
                return f"its claim {served.entry} has devices that no node of the pool can reach"
            shape = reached
        fresh = []
        for wanted in demand.wanted:
            settled = self._settled.get(wanted.key or "")
            if settled is None:
                fresh.append(wanted)
                continue
            if settled.host is not None and settled.host is not claim:
                return f"its claim {wanted.entry} has devices of a node where other pods go"
            for term in settled.terms:
                reached = self._reaching(template, shape, bits, (term,))
                if reached is None:
                    return f"its claim {wanted.entry} has devices no node of the pool can reach"
                shape = reached
        return shape, bits & shape.bits, fresh

    def _reaching(
        self, template: Template, shape: Shape, bits: int, terms: Sequence[NodeTerm]
    ) -> Shape | None:
        for term in terms:
            reached = narrowed(template.shapes, shape, term, self._well_known)
            if reached is not None and bits & reached.bits:
                return reached
        return None

    def _servings(
        self,
        template: Template,
        claim: OpenClaim,
        shape: Shape,
        bits: int,
        pod_class: PodClass,
        fresh: Sequence[Wanted],
    ) -> _Servings:
        """Find devices for each group of types; the cheapest group that has them decides."""
        usages = self._on_claims.get(claim, {})
        servings: dict[TypeGroup, Found] = {}
        first: Found | None = None
        only: list[frozenset[PoolDevice]] | None = None
        for group in self._groups(template, bits):
            place = self._place(template, shape, bits, group)
            usage = usages.get(group) or Usage(self._taken)
            found = self._find(pod_class, fresh, place, usage, shape, only)
            if found is None:
                continue
            if first is None:
                first = found
                only = [_of_cluster(found, position) for position in range(len(fresh))]
            elif not _agree(found, first):
                continue
            servings[group] = found
        return servings

    def _find(
        self,
        pod_class: PodClass,
        fresh: Sequence[Wanted],
        place: Place,
        usage: Usage,
        spot: Shape | None,
        only: Sequence[frozenset[PoolDevice]] | None = None,
    ) -> Found | None:
        vain = self._vain.get(pod_class, 0)
        if vain >= MOST_VAIN_SEARCHES:
            return None
        try:
            return Search([wanted.compiled for wanted in fresh], place, usage, only).run(spot)
        except OutOfStepsError:
            self._vain[pod_class] = vain + 1
        except SelectorError:
            pass  # a selector failed; the search for the reason reports it
        return None

    def _groups(self, template: Template, bits: int) -> list[TypeGroup]:
        """The groups of types among ``bits``, by their cheapest offering."""
        groups = self._catalogue.groups(template.universe)
        among = [(bits & group.bits, group) for group in groups if bits & group.bits]
        among.sort(key=lambda pair: pair[0] & -pair[0])
        return [group for _, group in among]

    def _place(self, template: Template, shape: Shape, bits: int, group: TypeGroup) -> Place:
        return ClaimPlace(
            group,
            bits & group.bits,
            template.shapes,
            self._well_known,
            self._published.cluster,
            self._published.problem_for_new(shape, self._well_known),
        )

    def _node(self, number: int) -> tuple[NodePlace, Usage]:
        known = self._nodes.get(number)
        if known is None:
            known = self._nodes[number] = self._look_around(number)
        return known

    def _look_around(self, number: int) -> tuple[NodePlace, Usage]:
        state = self._compiled.state_nodes[number]
        requirements = self._compiled.nodes.targets[number].requirements
        name = state.node.metadata.name if state.node is not None else ""
        if state.is_initialized:
            return NodePlace(name, requirements, self._published, None), self._taken
        kind = state.labels.get(labels.INSTANCE_TYPE, "")
        promised = self._catalogue.on_type(state.node_pool, kind)
        usage = Usage(self._taken)
        held = {
            (holding.device.key.driver, holding.device.key.name): holding.shares
            for holding in self._ledger.by_node.get(name, ())
        }
        for device in (device for pool in promised for device in pool.devices):
            shares = held.get((device.key.driver, device.key.name))
            if shares is not None:
                usage.take(device, shares)
        return NodePlace(name, requirements, self._published, promised), usage

    def _commit(self, claim: OpenClaim, fresh: Sequence[Wanted], servings: _Servings) -> None:
        usages = self._on_claims.get(claim, {})
        kept: dict[TypeGroup, Usage] = {}
        drivers: set[str] = set()
        for group, found in servings.items():
            usage = kept[group] = usages.get(group) or Usage(self._taken)
            own = [pick for pick in found.picks if pick.device.is_template]
            self._take(own, usage)
            drivers.update(pick.device.key.driver for pick in own)
        first = next(iter(servings.values()))
        self._take([pick for pick in first.picks if not pick.device.is_template], self._taken)
        self._on_claims[claim] = kept
        claim.device_drivers |= drivers
        for position, wanted in enumerate(fresh):
            picks = [
                p for found in servings.values() for p in found.picks if p.claim_index == position
            ]
            self._settle(wanted, claim, picks)

    def _take(self, picks: Sequence[Pick], usage: Usage) -> None:
        for pick in picks:
            if pick.is_taken:
                (usage if pick.device.is_template else self._taken).take(pick.device, pick.shares)

    def _settle(self, wanted: Wanted, host: _Host, picks: Sequence[Pick]) -> None:
        if wanted.key is None:
            return
        tied = any(p.device.is_template or p.device.reach.node_name is not None for p in picks)
        terms = dict.fromkeys(pick.term for pick in picks if pick.term is not None)
        self._settled[wanted.key] = _Settled(host if tied else None, () if tied else tuple(terms))


def _of_cluster(found: Found, position: int) -> frozenset[PoolDevice]:
    return frozenset(
        pick.device
        for pick in found.picks
        if pick.claim_index == position and not pick.device.is_template
    )


def _agree(found: Found, first: Found) -> bool:
    """Whether two groups use the same devices of the cluster and need the same drivers."""
    return _footprint(found) == _footprint(first) and found.spot is first.spot


def _footprint(found: Found) -> tuple[list[tuple[int, PoolDevice, object]], frozenset[str]]:
    return (
        [(p.claim_index, p.device, p.shares) for p in found.picks if not p.device.is_template],
        frozenset(p.device.key.driver for p in found.picks if p.device.is_template),
    )


def shortage(wanted: Sequence[Wanted], places: Sequence[Place]) -> str:
    """Name the first request that no place has devices for, or report that they are not free."""
    for claim in wanted:
        for request in claim.compiled.requests:
            problem = _problem(request, places)
            if problem:
                return f"its claim {claim.entry}: {problem}"
    names = ", ".join(claim.entry for claim in wanted)
    return (
        f"its claims ({names}): enough devices match, but no instance type has all of them free"
        " and in agreement with the constraints"
    )


def _problem(request: CompiledRequest, places: Sequence[Place]) -> str:
    problem = ""
    for option in request.options:
        try:
            most = max((_matching(option, place) for place in places), default=0)
        except SelectorError as error:
            problem = str(error)
            continue
        needed = 1 if option.count is None else option.count
        if option.count is None and most and all(place.problem for place in places):
            problem = f"request {option.name} asks for all devices, but {places[0].problem}"
        elif most >= needed:
            return ""
        else:
            problem = (
                f"request {option.name} needs {needed} of device class {option.device_class};"
                f" no instance type {f'has more than {most}' if most else 'has any'} that match"
            )
    return problem


def _matching(option: RequestOption, place: Place) -> int:
    """How many devices match; a shared one counts as many as are needed."""
    count = 0
    for device in place.devices:
        if option.shares_of(device) is not None:
            count += (option.count or 1) if device.is_shared else 1
    return count
