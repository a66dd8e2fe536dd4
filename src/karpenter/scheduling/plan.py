"""The solver's output: claims to create, pods for machines that exist, and reasons.

Every pod of a problem is in exactly one of the lists. Pods and machines are given by name, so that
a plan can be printed, compared and stored without the problem it came from.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final, Literal

from karpenter.api.karpenter import NodeClassReference
from karpenter.api.nodes import Taint
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.commitments import Coverage, Ledger, Machine, Use
from karpenter.scheduling.problem import PackingMode

ABOUT: Final = "~"  # prefix of an estimated price


class Why(StrEnum):
    """Why a pool, or the whole cluster, does not take a pod."""

    NO_POOLS = "NoDynamicNodePools"
    NO_INSTANCE_TYPES = "NoCompatibleInstanceTypes"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    UNDEFINED_LABEL = "UndefinedLabel"
    REQUIREMENT_CONFLICT = "RequirementConflict"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    NO_OFFERING = "NoOffering"
    SOLD_OUT = "SoldOut"
    LIMIT_EXCEEDED = "LimitExceeded"
    MIN_VALUES = "MinValues"
    TOPOLOGY = "Topology"
    VOLUME_CONFLICT = "VolumeConflict"
    VOLUME_LIMIT = "VolumeLimit"
    HOST_PORT = "HostPortConflict"
    RESERVED_CAPACITY = "ReservedCapacityTaken"
    DEVICES = "DynamicResources"
    TOO_MANY_RULES = "TooManyTopologyRules"
    NOT_EVALUATED = "NotEvaluated"
    POOL_NOT_READY = "NodePoolNotReady"
    POOL_DELETING = "NodePoolDeleting"
    CLASS_NOT_FOUND = "NodeClassNotFound"
    CLASS_NOT_READY = "NodeClassNotReady"
    CLASS_UNSUPPORTED = "NodeClassUnsupported"


class Candidate(StrEnum):
    """A way to pack pods that a plan is chosen from."""

    KARPENTER = "karpenter"
    APART = "apart"
    GREEDY = "greedy"
    CONFIGURATIONS = "configurations"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one pool does not take a pod; an empty name of a pool means all of them."""

    node_pool: str
    why: Why
    detail: str


@dataclass(frozen=True, slots=True)
class Launch:
    """The cheapest available offering of a claim."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float
    is_estimate: bool = False  # the price is an estimate
    risk_hourly: float | None = None  # what its risk costs, where interruptions have a price
    covered_by: tuple[Coverage, ...] = ()  # the parts of the price that commitments pay

    @property
    def marginal_price(self) -> float:
        """By how much it raises the bill."""
        return max(0.0, self.price - math.fsum(each.hourly for each in self.covered_by))


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A NodeClaim to create."""

    name: str
    node_pool: str
    pods: tuple[str, ...]  # "namespace/name", in the order they were placed
    instance_types: tuple[str, ...]  # cheapest first
    requirements: Requirements
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    requests: Resources
    node_class_ref: NodeClassReference
    expire_after: str
    termination_grace_period: str | None
    launch: Launch | None


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod that no pool takes, with a reason for each pool."""

    pod: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """What one candidate would have cost."""

    candidate: Candidate
    hourly: float
    expected_hourly: float
    nodes: int
    refused: str = ""  # why it may not be kept, if so


class KeptFor(StrEnum):
    """Why a claim that is packed by price keeps an instance type."""

    CHEAPEST = "cheapest"
    MINIMUM = "minimum"  # the pool requires so many types
    SLACK = "slack"  # it is nearly as cheap as the cheapest
    MIN_VALUES = "minValues"
    COVERED = "covered"  # commitments pay for it


@dataclass(frozen=True, slots=True)
class KeptType:
    """An instance type that a claim keeps, with what it is expected to cost."""

    instance_type: str
    price: float
    because: KeptFor


@dataclass(frozen=True, slots=True)
class DualPrices:
    """What one more pod of a class, or one more unit of a resource, costs in its market."""

    pod: float
    rates: Mapping[str, float]  # resource -> dollars per hour for one unit


@dataclass(frozen=True, slots=True)
class Purchase:
    """Why a claim was bought by price as it is: the figures it was bought by, at that time."""

    price: float  # expected, with the fixed cost of the node
    pods: int  # on it, virtual ones of buffers included
    duals: Mapping[str, DualPrices]  # by pod, of those that were placed by price
    leading: DualPrices | None  # those of the pods that contribute most together
    per_unit: Mapping[str, float]  # resource -> its part of the launch's price, for one unit
    kept: tuple[KeptType, ...]  # cheapest first
    full: tuple[tuple[str, float], ...]  # (resource, taken part of the room), fullest first
    is_estimate: bool = False  # some price of the pool's catalogue is an estimate

    @property
    def shares(self) -> float:
        """What the pods of the claim contribute, as far as they were placed by price."""
        return sum(each.pod for each in self.duals.values())


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """Which candidate a plan was made from, of which."""

    mode: PackingMode
    candidate: Candidate
    solver: str  # "builtin", or the library that was used
    is_cut: bool  # the deadline ended the search, so the plan depends on CPU speed
    alternatives: tuple[Alternative, ...] = ()
    failures: tuple[str, ...] = ()  # of the solver
    purchases: Mapping[str, Purchase] = field(default_factory=dict)  # claim -> why it is as it is


@dataclass(frozen=True, slots=True)
class Bound:
    """The least that machines for the placed pods can cost per hour."""

    hourly: float = 0.0
    method: Literal["shares", "configurations"] = "shares"  # how it was found


@dataclass(frozen=True, slots=True)
class RatioOutcome:
    """How much of a pool with a spot ratio would be spot, with what runs and what is planned."""

    node_pool: str
    asked: float  # percent of the cpu beyond the base that may be spot
    base: float  # cpu that may not be spot
    spot_cpu: float
    total_cpu: float
    pinned: int  # claims that would be spot without the ratio
    excess_cpu: float  # spot beyond what the ratio allows

    @property
    def percent(self) -> float:
        """Spot as a part of the cpu beyond the base; 100 where the base is not reached."""
        beyond = self.total_cpu - self.base
        if beyond <= 0:
            return 100.0 if self.spot_cpu > 0 else 0.0
        return 100.0 * self.spot_cpu / beyond

    @property
    def is_met(self) -> bool:
        """Whether no more is spot than the ratio allows."""
        return self.excess_cpu <= 0


@dataclass(frozen=True)
class Plan:
    """Where the pods of a problem would go."""

    claims: tuple[PlannedClaim, ...] = ()
    existing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # machine -> pods
    unplaced: tuple[Unplaced, ...] = ()
    deferred: tuple[str, ...] = ()  # pods that wait for a reservation
    unevaluated: tuple[str, ...] = ()  # pods that were not tried before the deadline
    empty_pools: tuple[Reason, ...] = ()  # pools that have no instance type left at all
    costly: Mapping[str, str] = field(default_factory=dict)  # pod -> why it comes after others
    hourly_cost: float = 0.0
    least_cost: Callable[[], Bound] = field(default=Bound, compare=False, repr=False)
    rough_least_cost: Callable[[], float] = field(default=float, compare=False, repr=False)
    expectation: Callable[[], float] = field(default=float, compare=False, repr=False)
    packing: PackingOutcome | None = None  # None: Karpenter's order, with nothing to choose from
    ratios: tuple[RatioOutcome, ...] = ()  # of the pools that have a spot ratio
    commitments: tuple[Use, ...] = ()  # those that count, each with how much of it is used

    @property
    def covered_cost(self) -> float:
        """How much of the list prices of new nodes commitments pay, in dollars per hour."""
        launches = (claim.launch for claim in self.claims if claim.launch is not None)
        return math.fsum(each.hourly for launch in launches for each in launch.covered_by)

    @property
    def marginal_cost(self) -> float:
        """By how much the new nodes raise the bill, in dollars per hour."""
        covered = self.covered_cost
        return max(0.0, self.hourly_cost - covered) if covered else self.hourly_cost

    @cached_property
    def bound(self) -> Bound:
        """The lower bound for the placed pods; computed lazily."""
        return self.least_cost()

    @cached_property
    def rough_bound(self) -> float:
        """A bound that is cheap to compute, and no higher than ``bound``."""
        return self.rough_least_cost()

    @property
    def lower_bound(self) -> float:
        """The bound in dollars per hour."""
        return self.bound.hourly

    @cached_property
    def expected_cost(self) -> float:
        """The expected cost of the nodes per hour: spot may launch above its lowest price."""
        return self.expectation()

    def with_packing(self, outcome: PackingOutcome) -> "Plan":
        """The same plan, with how it was chosen."""
        return replace(self, packing=outcome)

    @cached_property
    def names_left_out(self) -> frozenset[str]:
        """The pods that go nowhere."""
        unplaced = (entry.pod for entry in self.unplaced)
        return frozenset((*unplaced, *self.deferred, *self.unevaluated))

    @property
    def left_out(self) -> int:
        """How many pods go nowhere."""
        return len(self.unplaced) + len(self.deferred) + len(self.unevaluated)

    @property
    def spot_excess(self) -> float:
        """The cpu that is spot beyond what the pools' ratios allow."""
        return sum(ratio.excess_cpu for ratio in self.ratios)

    @property
    def is_estimate(self) -> bool:
        """Whether the cost rests on an estimated price."""
        return rests_on_estimates(self.claims)


def with_coverage(
    claims: Iterable[PlannedClaim], ledger: Ledger, without: Collection[str] = ()
) -> tuple[tuple[PlannedClaim, ...], tuple[Use, ...]]:
    """Claims with what commitments pay of each, in plan order, and how much of these is used.

    ``without``: running machines that the plan removes.
    """
    balance = ledger.balance(without)
    found = []
    for claim in claims:
        covered = balance.take(machine_of(claim))
        launch = claim.launch
        if covered and launch is not None:
            found.append(replace(claim, launch=replace(launch, covered_by=covered)))
        else:
            found.append(claim)
    return tuple(found), ledger.uses(balance)


def machine_of(claim: PlannedClaim) -> Machine:
    """A claim that is launched, as the ledger sees it."""
    launch = claim.launch
    if launch is None:
        return Machine(claim.name, "", "", "", 0.0)
    price = launch.price if math.isfinite(launch.price) else 0.0
    return Machine(claim.name, launch.instance_type, launch.zone, launch.capacity_type, price)


def rests_on_estimates(claims: Iterable[PlannedClaim]) -> bool:
    """Whether what claims cost rests on an estimated price."""
    return any(claim.launch is not None and claim.launch.is_estimate for claim in claims)
