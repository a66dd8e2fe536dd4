"""How settings, spread and limits shape the plans of PACKING=cheapest, and the checker's verdict on them.

    python -m benchmarks cheapest_settings                 all of it, a minute or two
    python -m benchmarks cheapest_settings --only "kept"   parts whose name begins so
    python -m benchmarks cheapest_settings --smoke         few pods: that everything still runs

``cheapest`` measures thirteen loads with one type kept and nodes that cost nothing beside their price; this is about
the rest, on the same pods and machines. Nothing here depends on the speed of the machine.

A node that is bought on spot may launch as any type that its claim keeps, in any zone, up to the claim's
price ceiling. So three prices are told of such a plan: that of the cheapest offering of each claim, what one of its
15 cheapest kept types costs on average in any zone where it may launch, and the same each in its cheapest zone.
"""

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from statistics import fmean
from typing import Final

from benchmarks.cheapest import COST
from benchmarks.cheapest_loads import (
    CPU_PODS,
    Load,
    bench,
    daemon_sets,
    openb_cpu,
)
from benchmarks.options import options
from benchmarks.workloads import SEED
from rich.console import Console
from rich.table import Table

from karpenter.checker.check import check_plan
from karpenter.checker.inputs import Cluster
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.scheduling.plan import Plan, PlannedClaim
from karpenter.scheduling.problem import CostOptions, Options, PackingMode, Problem
from karpenter.scheduling.solve import solve

_FEW, _MANY, _ALL = 600, 1_500, 5_000  # pods
_SMOKE_PODS: Final = 60
_MINIMUMS: Final = (1, 5, 15, 25)  # types that a claim has to keep
_LAUNCHED_FROM: Final = 15  # of the kept types, the cheapest
_MOST_AT_RANDOM: Final = 0.6  # of what Karpenter's order costs at random
_NODE_COSTS: Final = (0.0, 0.02, 0.1)
_MOST_DEARER, _FEWER_NODES = 0.002, 0.25  # at a node cost of 0.02
_LESS_WITH_SPREAD, _LESS_MIXED = 0.05, 0.5
_LIMIT: Final = {"cpu": "200"}
_ORDERS: Final = 3
_DEFAULTS: Final = CostOptions(packing=PackingMode.CHEAPEST)  # as users have it

_BENCH: Final = Load("bench", bench)
_SPOT: Final = Load("bench on spot", bench, is_spot=True)
_MIXED: Final = Load("bench mixed", bench, is_mixed=True)
_OPENB: Final = Load("openb-cpu on spot", openb_cpu, is_spot=True, trace=CPU_PODS)
_SPREAD: Final = Load("40 % spread, 32 cpu at most", bench, most_cpu=32, spread=0.4)
_SPREAD_MIXED: Final = Load("40 % spread, mixed", bench, is_mixed=True, spread=0.4)


@dataclass(frozen=True, slots=True)
class Row:
    """One plan or one comparison, with what was to be reached."""

    part: str
    load: str
    pods: int
    setting: str
    found: str
    target: str = ""
    is_met: bool = True


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many pods are taken of each load."""

    most: int | None  # none: as many as each part is about

    def of(self, load: Load, pods: int | None, limits: dict[str, str] | None = None) -> Problem:
        """A load as a problem."""
        most = pods if self.most is None else min(self.most, pods or self.most)
        return load.problem(most, limits)


def main() -> int:
    """Measure and report; the exit code says whether the targets are met."""
    arguments = _arguments()
    notes = Console(stderr=True)
    sizes = _Sizes(_SMOKE_PODS if arguments.smoke else None)
    rows: list[Row] = []
    for name, part in _PARTS.items():
        if name.startswith(arguments.only):
            with notes.status(name):
                rows.extend(part(sizes))
    if _OPENB.missing:
        notes.print(f"{_OPENB.name} is omitted: it needs {_OPENB.missing}")
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        Console(width=None if Console().is_terminal else 200).print(_table(rows))
    missed = [f"{row.part}, {row.load}, {row.setting}" for row in rows if not row.is_met]
    if missed and not arguments.smoke:
        notes.print(f"missed: {'; '.join(missed)}")
    return 0 if arguments.smoke else bool(missed)


def _arguments() -> argparse.Namespace:
    parser = options(__doc__ or "", smoke=f"{_SMOKE_PODS} pods of each load")
    parser.add_argument("--only", default="", help="parts whose name begins so")
    return parser.parse_args()


def _kept_types(sizes: _Sizes) -> Iterator[Row]:
    """More types to choose from cost more, but never as much as Karpenter's order."""
    asked: list[tuple[Load, int | None, tuple[int, ...]]] = [(_SPOT, _FEW, _MINIMUMS)]
    if not _OPENB.missing:
        asked.append((_OPENB, None, (15,)))
    for load, pods, minimums in asked:
        problem = sizes.of(load, pods)
        plain = solve(problem)
        usual = _SpotPrices.of(problem, plain)
        found = f"{usual}, {len(plain.claims)} nodes"
        yield Row("kept types", load.name, len(problem.pods), "Karpenter's order", found)
        for minimum in minimums:
            cost = replace(COST, min_types=minimum, min_spot_types=minimum)
            plan = _planned(problem, cost)
            prices = _SpotPrices.of(problem, plan)
            part = prices.any_zone / usual.any_zone
            of_cheapest = prices.cheapest_zones / usual.cheapest_zones
            yield Row(
                "kept types",
                load.name,
                len(problem.pods),
                f"minimum {minimum}",
                f"{prices}, {len(plan.claims)} nodes: {part:.2f} and {of_cheapest:.2f} of Karpenter's",
                f"cheapest at most ${usual.cheapest:.2f}, any {_MOST_AT_RANDOM:g} of Karpenter's",
                prices.cheapest <= usual.cheapest and part <= _MOST_AT_RANDOM,
            )


@dataclass(frozen=True, slots=True)
class _SpotPrices:
    """What a plan costs per hour, by what its claims launch as."""

    cheapest: float
    any_zone: float  # the mean of the cheapest kept types, in all zones
    cheapest_zones: float  # the same, each in its cheapest zone

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> "_SpotPrices":
        (pool,) = problem.pools
        types = {kind.name: kind for kind in pool.instance_types}
        sold = [_spot_prices(claim, types) for claim in plan.claims]
        return cls(
            cheapest=plan.hourly_cost,
            any_zone=math.fsum(fmean(chain.from_iterable(each)) for each in sold),
            cheapest_zones=math.fsum(fmean(map(min, each)) for each in sold),
        )

    def __str__(self) -> str:
        return (
            f"cheapest ${self.cheapest:.2f}, any ${self.any_zone:.2f},"
            f" in cheapest zones ${self.cheapest_zones:.2f}"
        )


def _spot_prices(claim: PlannedClaim, types: Mapping[str, InstanceType]) -> list[list[float]]:
    """The prices in all zones of each of the cheapest types that a claim may launch as."""
    ceiling = float(claim.annotations.get(labels.PRICE_CEILING, "inf"))
    found = []
    for name in claim.instance_types:
        prices = [
            each.price
            for each in types[name].offerings
            if each.capacity_type == labels.SPOT
            and each.price <= ceiling
            and each.requirements.intersects(claim.requirements)
        ]
        if prices:
            found.append(prices)
    return sorted(found, key=min)[:_LAUNCHED_FROM]


def _node_cost(sizes: _Sizes) -> Iterator[Row]:
    """What a node costs beside its price makes nodes fewer, and hardly dearer."""
    problem = sizes.of(_BENCH, _ALL)
    free = _planned(problem, replace(COST, node_cost=_NODE_COSTS[0]))
    for node_cost in _NODE_COSTS:
        plan = _planned(problem, replace(COST, node_cost=node_cost))
        dearer = plan.hourly_cost / free.hourly_cost - 1
        change = len(plan.claims) / len(free.claims) - 1
        is_judged = node_cost == _NODE_COSTS[1]
        yield Row(
            "node cost",
            _BENCH.name,
            len(problem.pods),
            f"{node_cost:g}",
            f"${plan.hourly_cost:.2f} ({dearer:+.2%}), {len(plan.claims)} nodes ({change:+.0%})",
            f"at most {_MOST_DEARER:.1%} dearer, {_FEWER_NODES:.0%} fewer nodes"
            if is_judged
            else "",
            not is_judged or (dearer <= _MOST_DEARER and change <= -_FEWER_NODES),
        )


def _spread(sizes: _Sizes) -> Iterator[Row]:
    """Pods that spread are packed in Karpenter's order, so only the others can be cheaper."""
    asked = ((_SPREAD, _FEW, _LESS_WITH_SPREAD), (_SPREAD_MIXED, _MANY, _LESS_MIXED))
    for load, pods, target in asked:
        problem = sizes.of(load, pods)
        plain, plan = solve(problem), _planned(problem, COST)
        less = 1 - plan.hourly_cost / plain.hourly_cost
        yield Row(
            "spread",
            load.name,
            len(problem.pods),
            "one type kept",
            f"${plain.hourly_cost:.2f} to ${plan.hourly_cost:.2f} ({-less:+.1%}),"
            f" {len(plain.claims)} to {len(plan.claims)} nodes",
            f"at least {target:.0%} less",
            less >= target and plan.names_left_out <= plain.names_left_out,
        )


def _limit(sizes: _Sizes) -> Iterator[Row]:
    """A pool's limit leaves pods out: none that Karpenter's order places."""
    for load in (_BENCH, _MIXED):
        problem = sizes.of(load, _FEW, _LIMIT)
        plain, plan = solve(problem), _planned(problem, COST)
        assert plan.packing is not None
        lost = len(plan.names_left_out - plain.names_left_out)
        count = len(problem.pods)
        yield Row(
            "limit",
            load.name,
            count,
            f"{_LIMIT['cpu']} cpu",
            f"{count - plain.left_out} placed by Karpenter's order, {count - plan.left_out} by"
            f" {plan.packing.candidate}; {lost} of the former are not",
            "none",
            not lost,
        )


def _order(sizes: _Sizes) -> Iterator[Row]:
    """The same pods in another order: the same plan, claim by claim."""
    for load in (_SPOT, _MIXED, _SPREAD):
        problem = sizes.of(load, _FEW)
        rng = random.Random(SEED)
        plan = _planned(problem, _DEFAULTS)
        others = [
            _planned(replace(problem, pods=rng.sample(problem.pods, len(problem.pods))), _DEFAULTS)
            for _ in range(_ORDERS)
        ]
        same = sum(other == plan for other in others)
        yield Row(
            "order",
            load.name,
            len(problem.pods),
            "default",
            f"{same} of {_ORDERS} are equal",
            "all",
            same == _ORDERS,
        )


def _judged(sizes: _Sizes) -> Iterator[Row]:
    """The independent checker knows none of the planner's shortcuts."""
    asked: tuple[tuple[Load, int, dict[str, str] | None], ...] = (
        (_BENCH, _FEW, None),
        (_SPOT, _FEW, None),
        (_MIXED, _FEW, None),
        (_SPREAD, _FEW, None),
        (_BENCH, _FEW, _LIMIT),
        (_SPOT, _MANY, None),
        (_SPREAD_MIXED, _MANY, None),
    )
    for load, pods, limits in asked:
        problem = sizes.of(load, pods, limits)
        plan = _planned(problem, _DEFAULTS)
        assert plan.packing is not None
        cluster = Cluster(problem.pods, (), problem.pools, problem.facts, daemon_sets=daemon_sets())
        violations = check_plan(cluster, plan)
        yield Row(
            "checker",
            load.name,
            len(problem.pods),
            f"{limits['cpu']} cpu" if limits else "default",
            f"{len(violations)} violations in {len(plan.claims)} nodes of {plan.packing.candidate}",
            "none",
            not violations,
        )


_PARTS: Final[dict[str, Callable[[_Sizes], Iterator[Row]]]] = {
    "kept types": _kept_types,
    "node cost": _node_cost,
    "spread": _spread,
    "limit": _limit,
    "order": _order,
    "checker": _judged,
}


def _planned(problem: Problem, cost: CostOptions) -> Plan:
    return solve(replace(problem, options=Options(cost=cost)))


def _table(rows: list[Row]) -> Table:
    table = Table(title="PACKING=cheapest beyond its thirteen loads", title_justify="left")
    for name in ("part", "load", "pods", "setting", "found", "target", "met"):
        table.add_column(name, justify="right" if name == "pods" else "left")
    for row in rows:
        met = ("yes" if row.is_met else "NO") if row.target else ""
        table.add_row(row.part, row.load, f"{row.pods:,}", row.setting, row.found, row.target, met)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
