"""What PACKING=cheapest saves: cost over the lower bound and processor seconds, beside Karpenter's order.

    python -m benchmarks cheapest                    every load, a few minutes
    python -m benchmarks cheapest --only bench       loads whose name begins so
    python -m benchmarks cheapest --budget 10        nominal seconds for each plan
    python -m benchmarks cheapest --smoke            few pods: that everything still runs

Loads of real pods need the traces, which are looked for beside the project; the others are made. Spot
prices are made too: 35 to 75 % below on-demand, by type and zone; ``mix`` pins a fifth of the pods to
on-demand. Claims need keep one type, and nodes cost nothing beside their price, so that figures can be
compared with others. Every load runs once, in one process; seconds are those of the processor, and are
for packing alone: the same plan in Karpenter's order is taken off.
"""

import csv
import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from benchmarks.catalogues import EC2_FACTS, cloud, ec2
from benchmarks.options import options
from benchmarks.workloads import EC2_CATALOGUE, OPENB, SEED, pod_of, pool_of
from rich.console import Console
from rich.table import Table

from karpenter.api.node_classes import ec2_labels
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.problem import (
    CostOptions,
    Options,
    PackingMode,
    PoolCatalogue,
    Problem,
)
from karpenter.scheduling.solve import solve

_CPUS: Final = (100, 250, 500, 1000, 1500)
_MEMORIES: Final = (100, 256, 512, 1024, 2048, 4096)
_COST: Final = CostOptions(
    packing=PackingMode.CHEAPEST, node_cost=0.0, min_types=1, min_spot_types=1
)


@dataclass(frozen=True, slots=True)
class Load:
    """Pods to be packed, and how their machines are sold."""

    name: str
    shapes: Callable[[int | None], list[tuple[int, int]]]  # cpu in milli, memory in Mi
    target: float  # gap in percent at the default budget
    most_cpu: int = 0  # of a machine; 0 is any
    is_spot: bool = False
    is_mixed: bool = False
    needs_traces: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured for one load."""

    load: str
    pods: int
    karpenter_hourly: float
    karpenter_nodes: int
    cheapest_hourly: float
    cheapest_nodes: int
    candidate: str
    lower_bound: float
    bound_method: str
    seconds: float
    target: float

    @property
    def gap(self) -> float:
        """By how many percent the plan is above the bound."""
        return 100 * (self.cheapest_hourly / self.lower_bound - 1)

    @property
    def karpenter_gap(self) -> float:
        """The same of Karpenter's order."""
        return 100 * (self.karpenter_hourly / self.lower_bound - 1)


def main() -> int:
    """Measure and report; the exit code says whether the targets of cost are met."""
    parser = options(__doc__ or "", smoke="200 pods of each load")
    parser.add_argument("--only", default="", help="loads whose name begins so")
    parser.add_argument("--budget", type=float, default=1.0, help="nominal seconds for each plan")
    arguments = parser.parse_args()
    notes = Console(stderr=True)
    rows = []
    for load in _LOADS:
        if not load.name.startswith(arguments.only):
            continue
        if load.needs_traces and not (OPENB.is_file() and EC2_CATALOGUE.is_file()):
            notes.print(f"{load.name} is omitted: it needs {OPENB} and {EC2_CATALOGUE}")
            continue
        with notes.status(load.name):
            rows.append(_measured(load, arguments.budget, 200 if arguments.smoke else None))
    if arguments.json:
        found = [asdict(row) | {"gap": row.gap, "karpenter_gap": row.karpenter_gap} for row in rows]
        Console(width=10_000).print_json(json.dumps(found))
    else:
        Console(width=None if Console().is_terminal else 150).print(_table(rows))
    missed = [row.load for row in rows if row.gap > row.target]
    if missed and not arguments.smoke:
        notes.print(f"above their targets: {', '.join(missed)}")
    return 0 if arguments.smoke else bool(missed)


def _measured(load: Load, budget: float, most: int | None) -> Row:
    problem = _problem(load, most)
    compiler = Compiler()
    solve(problem, compiler=compiler)  # compiles the catalogue
    plain, before = _timed(problem, compiler)
    cost = replace(_COST, budget=budget)
    cheap, after = _timed(replace(problem, options=Options(cost=cost)), compiler)
    assert cheap.packing is not None
    return Row(
        load=load.name,
        pods=len(problem.pods),
        karpenter_hourly=plain.hourly_cost,
        karpenter_nodes=len(plain.claims),
        cheapest_hourly=cheap.hourly_cost,
        cheapest_nodes=len(cheap.claims),
        candidate=cheap.packing.candidate.value,
        lower_bound=cheap.lower_bound,
        bound_method=cheap.bound.method,
        seconds=after - before,
        target=load.target,
    )


def _timed(problem: Problem, compiler: Compiler) -> tuple[Plan, float]:
    began = time.process_time()
    plan = solve(problem, compiler=compiler)
    return plan, time.process_time() - began


def _problem(load: Load, most: int | None) -> Problem:
    rng = random.Random(SEED)
    pods: list[Pod] = []
    for number, (cpu, memory) in enumerate(load.shapes(most)):
        is_pinned = load.is_mixed and rng.random() < 0.2
        selector = {"nodeSelector": {labels.CAPACITY_TYPE: labels.ON_DEMAND}} if is_pinned else {}
        pods.append(pod_of(number, {"app": "load"}, selector, cpu, memory))
    sells_spot = load.is_spot or load.is_mixed
    types = _types(with_spot=sells_spot, most_cpu=load.most_cpu)
    return Problem(pods, (), (PoolCatalogue(pool_of("general"), types),), EC2_FACTS)


def _types(*, with_spot: bool, most_cpu: int) -> tuple[InstanceType, ...]:
    if EC2_CATALOGUE.is_file():
        every = [kind for kind in ec2(EC2_CATALOGUE) if _is_general(kind)]
    else:
        every = [kind.with_offerings(_on_demand(kind)) for kind in cloud()]
    small = [kind for kind in every if not most_cpu or kind.capacity.cpu <= 1000 * most_cpu]
    return tuple(kind.with_offerings(_ways(kind)) for kind in small) if with_spot else tuple(small)


def _is_general(kind: InstanceType) -> bool:
    held = kind.requirements
    return (
        held[ec2_labels.INSTANCE_CATEGORY].any() in ("c", "m", "r")
        and int(held[ec2_labels.INSTANCE_GENERATION].any()) >= 5
        and held[labels.ARCH].has("amd64")
    )


def _on_demand(kind: InstanceType) -> tuple[Offering, ...]:
    return tuple(each for each in kind.offerings if each.capacity_type == labels.ON_DEMAND)


def _ways(kind: InstanceType) -> tuple[Offering, ...]:
    """On-demand as it is, and spot at a price of its own in each zone."""
    rng = random.Random(kind.name)
    spot = [
        Offering(
            Requirements(
                Requirement(key, False, frozenset((value,)))
                for key, value in ((labels.ZONE, each.zone), (labels.CAPACITY_TYPE, labels.SPOT))
            ),
            each.price * (1 - rng.uniform(0.35, 0.75)),
        )
        for each in kind.offerings
    ]
    return (*kind.offerings, *spot)


def _bench(most: int | None) -> list[tuple[int, int]]:
    rng = random.Random(SEED)
    return [(rng.choice(_CPUS), rng.choice(_MEMORIES)) for _ in range(most or 5000)]


def _openb(most: int | None, *, without_gpu: bool) -> list[tuple[int, int]]:
    path = OPENB.with_name("openb_pod_list_cpu250.csv") if without_gpu else OPENB
    with path.open(encoding="ascii", newline="") as file:
        rows: Iterable[dict[str, str]] = list(csv.DictReader(file))
    shapes = [
        (int(row["cpu_milli"]), int(row["memory_mib"]))
        for row in rows
        if not (without_gpu and int(row["num_gpu"]))
    ]
    return shapes[:most]


def _cpu_pods(most: int | None) -> list[tuple[int, int]]:
    return _openb(most, without_gpu=True)


def _all_pods(most: int | None) -> list[tuple[int, int]]:
    return _openb(most, without_gpu=False)


_LOADS: Final = (
    Load("bench", _bench, 1.5),
    Load("bench, 32 cpu at most", _bench, 1.0, most_cpu=32),
    Load("bench on spot", _bench, 2.0, is_spot=True),
    Load("bench mixed", _bench, 3.0, is_mixed=True),
    Load("openb-cpu", _cpu_pods, 1.5, needs_traces=True),
    Load("openb-cpu, 48 cpu at most", _cpu_pods, 0.1, most_cpu=48, needs_traces=True),
    Load("openb-cpu on spot", _cpu_pods, 4.5, is_spot=True, needs_traces=True),
    Load("openb-cpu mixed", _cpu_pods, 4.0, is_mixed=True, needs_traces=True),
    Load("openb-all", _all_pods, 5.0, needs_traces=True),
    Load("openb-all on spot", _all_pods, 9.0, is_spot=True, needs_traces=True),
)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="cost over the lower bound", title_justify="left")
    columns = "load pods|Karpenter's order|over bound|nodes|cheapest|over bound|target|nodes|kept|bound|cpu s"
    for name in columns.replace("load pods", "load|pods").split("|"):
        table.add_column(name, justify="left" if name in ("load", "kept", "bound") else "right")
    for row in rows:
        table.add_row(
            row.load,
            f"{row.pods:,}",
            f"${row.karpenter_hourly:,.2f}",
            f"{row.karpenter_gap:.1f}%",
            f"{row.karpenter_nodes:,}",
            f"${row.cheapest_hourly:,.2f}",
            f"{row.gap:.2f}%",
            f"{row.target:g}%",
            f"{row.cheapest_nodes:,}",
            row.candidate,
            row.bound_method,
            f"{row.seconds:.2f}",
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
