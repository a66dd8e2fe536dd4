"""The explanation of one pool: what it can launch and at what price, and what its limits leave.

A type is excluded by the first of the pool's requirements that none of its offerings meets, then
for being sold out, then for being larger than what is left of the pool's limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.api.karpenter import Budget, NodePool
from karpenter.api.times import earlier, later
from karpenter.cloud.types import InstanceType
from karpenter.disruption.budgets import Allowance, budget_value, is_active, next_opening
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.costs import offering_of
from karpenter.model import durations
from karpenter.model.cron import parse_schedule
from karpenter.model.requirement import Requirement, RequirementError
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, MEMORY, NODES, Resources, format_amount, total
from karpenter.report.disruption import reported_reasons
from karpenter.report.provisioning import estimate_mark, launch_document
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.templates import is_sold_out, template_requirements
from karpenter.scheduling.plan import Launch

SOLD_OUT: Final = "SoldOut"
REQUIREMENT: Final = "RequirementConflict"
LIMIT: Final = "LimitExceeded"

_MOST_WINDOWS: Final = 100  # that are searched for an end


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Types that a pool cannot have, with the one reason they share."""

    reason: str  # CamelCase
    detail: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """The cheapest way to have so many cpus."""

    cpu: int  # in thousandths
    memory: int  # bytes
    types: int  # how many have so many cpus
    launch: Launch


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of a resource a pool may have, and has."""

    resource: str
    limit: int
    used: int

    @property
    def left(self) -> int:
        """How much more it may have; less than nothing when it has too much."""
        return self.limit - self.used


@dataclass(frozen=True, slots=True)
class BudgetExplanation:
    """One budget of a pool and its window."""

    budget: Budget
    is_active: bool
    allowed: int | None  # nodes at a time, of all that there are; None when it is not active
    opens: datetime | None  # next
    closes: datetime | None  # of a window that is open
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodePoolExplanation:
    """The explanation of one pool."""

    pool: NodePool
    objection: tuple[str, str] | None  # why it makes no nodes: reason and detail
    nodes: int
    hourly: float  # what they cost
    unpriced: int  # how many of them have no known price
    is_estimate: bool  # some of their prices are estimates
    types: int  # that can be had
    excluded: tuple[Exclusion, ...]  # most types first
    prices: tuple[Size, ...]  # smallest first
    limits: tuple[Limit, ...]
    budgets: tuple[BudgetExplanation, ...]
    allowances: Mapping[str, Allowance]  # by reason


def explain_pool(name: str, view: DisruptionContext) -> NodePoolExplanation:
    """Explain a pool of a cluster."""
    pool = view.snapshot.node_pools[name]
    machines = [each for each in view.snapshot.nodes_of(name) if not each.is_deleting]
    known = view.inspection.types.get(name, {})
    bought = [offering_of(machine, known) for machine in machines]
    priced = [offering for offering in bought if offering is not None]
    used = total(machine.capacity for machine in machines)
    limits = tuple(_limits(pool, used, len(machines)))
    kept, excluded = _sorted_out(pool, tuple(known.values()), limits)
    objection = next((r for r in view.ground.pools.excluded if r.node_pool == name), None)
    reasons = reported_reasons(with_repair=view.settings.repair)
    allowances = {reason: view.allowance(name, reason) for reason in reasons}
    counted = next(iter(allowances.values())).total
    return NodePoolExplanation(
        pool=pool,
        objection=(objection.why.value, objection.detail) if objection is not None else None,
        nodes=len(machines),
        hourly=sum(offering.price for offering in priced),
        unpriced=len(bought) - len(priced),
        is_estimate=any(offering.is_estimate for offering in priced),
        types=len(kept.universe.types_in(kept.bits)),
        excluded=excluded,
        prices=tuple(_curve(kept)),
        limits=limits,
        budgets=tuple(
            _budget(each, counted, now=view.now) for each in pool.spec.disruption.budgets
        ),
        allowances=allowances,
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    universe: OfferingIndex
    bits: int  # offerings that can be had


def _limits(pool: NodePool, used: Resources, nodes: int) -> Iterator[Limit]:
    for name, limit in sorted(pool.spec.limits.items()):
        amount = Resources.from_wire({name: limit})[name]
        yield Limit(name, amount, nodes if name == NODES else used[name])


def _sorted_out(
    pool: NodePool, types: tuple[InstanceType, ...], limits: Sequence[Limit]
) -> tuple[_Kept, tuple[Exclusion, ...]]:
    universe = OfferingIndex(types)
    out: dict[tuple[str, str], list[str]] = {}
    kept = 0
    try:
        wanted = template_requirements(pool)
    except RequirementError as error:
        names = tuple(sorted(universe.type_names))
        return _Kept(universe, 0), (Exclusion(REQUIREMENT, str(error), names),)
    for index, kind in enumerate(types):
        bits, why = _fate(universe, index, kind, wanted, limits)
        kept |= bits
        if why is not None:
            out.setdefault(why, []).append(kind.name)
    found = [Exclusion(*why, types=tuple(sorted(names))) for why, names in out.items()]
    found.sort(key=lambda each: (-len(each.types), each.detail))
    return _Kept(universe, kept), tuple(found)


def _fate(
    universe: OfferingIndex,
    index: int,
    kind: InstanceType,
    wanted: Requirements,
    limits: Sequence[Limit],
) -> tuple[int, tuple[str, str] | None]:
    """The offerings of a type that a pool can have, or why it can have none."""
    bits = universe.type_bits[index]
    if not bits:
        return 0, (SOLD_OUT, "no offering is available")
    for requirement in wanted:
        bits &= universe.matching(requirement)
        if not bits and is_sold_out(kind, wanted):
            return 0, (SOLD_OUT, "sold out: what the pool asks for is unavailable now")
        if not bits:
            return 0, (REQUIREMENT, _needs(requirement))
    bits &= universe.launchable
    if not bits:
        return 0, (SOLD_OUT, "every reservation is used up")
    for limit in limits:
        if limit.resource == NODES and limit.left <= 0:
            return 0, (LIMIT, f"the limit of {limit.limit} nodes is reached")
        if limit.resource != NODES and kind.capacity[limit.resource] > limit.left:
            return 0, (LIMIT, f"it has more {limit.resource} than the pool's limit leaves")
    return bits, None


def _needs(requirement: Requirement) -> str:
    bounds = [
        f"{word} {bound}"
        for word, bound in (("at least", requirement.gte), ("at most", requirement.lte))
        if bound is not None
    ]
    if bounds and not requirement.values:
        return f"the pool asks for {requirement.key} of {' and '.join(bounds)}"
    return f"the pool asks for {requirement}"


def _curve(kept: _Kept) -> Iterator[Size]:
    """The cheapest way to have each size, smallest size first."""
    universe = kept.universe
    by_cpu: dict[int, int] = {}
    for index in universe.types_in(kept.bits):
        cpu = universe.types[index].capacity[CPU]
        by_cpu[cpu] = by_cpu.get(cpu, 0) | universe.type_bits[index] & kept.bits
    for cpu, bits in sorted(by_cpu.items()):
        bit = universe.cheapest_bit(bits)
        kind, offering = universe.types[universe.type_of[bit]], universe.offerings[bit]
        launch = Launch(
            kind.name, offering.zone, offering.capacity_type, offering.price, offering.is_estimate
        )
        yield Size(cpu, kind.capacity[MEMORY], len(universe.types_in(bits)), launch)


def _budget(budget: Budget, nodes: int, *, now: datetime) -> BudgetExplanation:
    try:
        active = is_active(budget, now=now)
        allowed = budget_value(budget, nodes, now=now) if active else None
    except ValueError as error:
        return BudgetExplanation(budget, True, 0, None, None, str(error))
    closes = _closes(budget, now=now) if active else None
    return BudgetExplanation(budget, active, allowed, next_opening(budget, now=now), closes)


def _closes(budget: Budget, *, now: datetime) -> datetime | None:
    """When the window that is open closes; windows that overlap count as one."""
    lasts = durations.parse(budget.duration)
    if budget.schedule is None or lasts is None:
        return None
    schedule = parse_schedule(budget.schedule)
    end = later(schedule.next_after(earlier(now, lasts)), lasts)
    for _ in range(_MOST_WINDOWS):
        following = schedule.next_after(earlier(end, lasts))
        if following > end:
            return end
        end = later(following, lasts)
    return None  # one window or another is always open


def pool_document(explanation: NodePoolExplanation) -> dict[str, Any]:
    """Write the explanation of a pool as plain data."""
    spec = explanation.pool.spec
    reason, detail = explanation.objection or ("", "")
    return {
        "nodePool": explanation.pool.metadata.name,
        "weight": spec.weight or 0,
        "replicas": spec.replicas,
        "usable": explanation.objection is None,
        "reason": reason,
        "detail": detail,
        "nodes": {
            "count": explanation.nodes,
            "hourly": explanation.hourly,
            "unpriced": explanation.unpriced,
            **estimate_mark(explanation.is_estimate),
        },
        "instanceTypes": {
            "possible": explanation.types,
            "excluded": [
                {"reason": each.reason, "detail": each.detail, "instanceTypes": list(each.types)}
                for each in explanation.excluded
            ],
        },
        "prices": [
            {
                "cpu": format_amount(CPU, size.cpu),
                "memory": format_amount(MEMORY, size.memory),
                "instanceTypes": size.types,
                "cheapest": launch_document(size.launch),
            }
            for size in explanation.prices
        ],
        "limits": {
            each.resource: {
                "limit": format_amount(each.resource, each.limit),
                "used": format_amount(each.resource, each.used),
                "left": format_amount(each.resource, each.left),
            }
            for each in explanation.limits
        },
        "disruption": {
            "consolidationPolicy": spec.disruption.consolidation_policy,
            "consolidateAfter": spec.disruption.consolidate_after,
            "budgets": [_budget_document(each) for each in explanation.budgets],
            "remaining": {
                reason: held.remaining for reason, held in explanation.allowances.items()
            },
        },
    }


def _budget_document(explanation: BudgetExplanation) -> dict[str, Any]:
    budget = explanation.budget
    return {
        "nodes": budget.nodes,
        "reasons": list(budget.reasons) if budget.reasons is not None else None,
        "schedule": budget.schedule,
        "duration": budget.duration,
        "active": explanation.is_active,
        "allowed": explanation.allowed,
        "opens": _moment(explanation.opens),
        "closes": _moment(explanation.closes),
        "problem": explanation.problem,
    }


def _moment(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at is not None else None
