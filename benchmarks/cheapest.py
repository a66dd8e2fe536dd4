"""What PACKING=cheapest saves: cost over the lower bound, beside Karpenter's order on the same pods.

    python -m benchmarks cheapest                     every load, a few minutes
    python -m benchmarks cheapest --only bench        loads whose name begins so
    python -m benchmarks cheapest --budget 10         nominal seconds for each plan
    python -m benchmarks cheapest --beside            Karpenter's own scheduler, from its Go module, too
    python -m benchmarks cheapest --before CHECKOUT   PACKING=karpenter beside another version
    python -m benchmarks cheapest --smoke             few pods: that everything still runs

Claims need keep one type, and nodes cost nothing beside their price, so that figures can be compared with others
(``cheapest_settings`` measures the other settings, ``cheapest_loads`` says what the loads are). Every load runs once,
in a process of its own: the compiled catalogue first, then a plan in Karpenter's order, then the plan by
price, then its bound. Seconds are those of the processor for packing by price alone: the same plan in
Karpenter's order is taken off. Memory is by how much the peak of the process rose after the plan in
Karpenter's order, the solver and its bound included.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from benchmarks.cheapest_loads import LOADS, Load
from benchmarks.measuring import ROOT, peak_memory
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.problem import CostOptions, Options, PackingMode, Problem
from karpenter.scheduling.solve import solve

COST: Final = CostOptions(
    packing=PackingMode.CHEAPEST, node_cost=0.0, min_types=1, min_spot_types=1
)
MOST_MEMORY: Final = 64  # MB above PACKING=karpenter
_SMOKE_PODS: Final = 200
_LONG_BUDGET: Final = 10
_ROUNDS: Final = 3
_BEFORE: Final = (("a", 5_000), ("b", 20_000))  # workloads of ``solver``


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
    bound_seconds: float
    megabytes: float
    target: float
    peer: dict[str, Any] | None = None  # what Karpenter's own scheduler buys

    @property
    def gap(self) -> float:
        """By how many percent the plan is above the bound."""
        return 100 * (self.cheapest_hourly / self.lower_bound - 1)

    @property
    def karpenter_gap(self) -> float:
        """The same of Karpenter's order."""
        return 100 * (self.karpenter_hourly / self.lower_bound - 1)

    @property
    def missed(self) -> bool:
        """Whether a target is missed."""
        return self.gap > self.target or self.megabytes > MOST_MEMORY


def main() -> int:
    """Measure and report; the exit code says whether the targets are met."""
    arguments = _arguments()
    notes = Console(stderr=True)
    if arguments.row:
        (load,) = (each for each in LOADS if each.name == arguments.row)
        print(json.dumps(asdict(_measured(load, arguments))))
        return 0
    rows = []
    for load in LOADS:
        if not load.name.startswith(arguments.only):
            continue
        if load.missing:
            notes.print(f"{load.name} is omitted: it needs {load.missing}")
            continue
        with notes.status(load.name):
            rows.append(_in_child(load, arguments))
    speeds = _beside_before(arguments.before, notes) if arguments.before else []
    if arguments.json:
        found = [asdict(row) | {"gap": row.gap, "karpenter_gap": row.karpenter_gap} for row in rows]
        print(json.dumps({"loads": found, "before": speeds}, indent=2))
    else:
        console = Console(width=None if Console().is_terminal else 220)
        console.print(_table(rows, with_peer=arguments.beside))
        for each in speeds:
            console.print(
                f"PACKING=karpenter, workload {each['workload']}, {each['pods']:,} pods:"
                f" {each['now']:.3f} s, before {each['before']:.3f} s ({each['ratio']:.2f} times)"
            )
    missed = [row.load for row in rows if row.missed]
    if missed and not arguments.smoke:
        notes.print(f"above their targets: {', '.join(missed)}")
    return 0 if arguments.smoke else bool(missed)


def _arguments() -> argparse.Namespace:
    parser = options(__doc__ or "", smoke=f"{_SMOKE_PODS} pods of each load")
    parser.add_argument("--only", default="", help="loads whose name begins so")
    parser.add_argument("--budget", type=float, default=1.0, help="nominal seconds for each plan")
    parser.add_argument(
        "--beside", action="store_true", help="ask Karpenter's own scheduler as well; needs Go"
    )
    parser.add_argument(
        "--before", metavar="CHECKOUT", default="", help="another version, for PACKING=karpenter"
    )
    parser.add_argument("--row", default="", help=argparse.SUPPRESS)  # measure one, in this process
    return parser.parse_args()


def _in_child(load: Load, arguments: argparse.Namespace) -> Row:
    command = [sys.executable, "-m", "benchmarks.cheapest", "--row", load.name]
    command += ["--budget", str(arguments.budget)]
    command += [flag for flag in ("--smoke", "--beside") if getattr(arguments, flag[2:])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{load.name} failed:\n{done.stderr}")
    return Row(**json.loads(done.stdout))


def _measured(load: Load, arguments: argparse.Namespace) -> Row:
    problem = load.problem(_SMOKE_PODS if arguments.smoke else None)
    compiler = Compiler()
    solve(problem, compiler=compiler)  # compiles the catalogue
    plain, before = timed(problem, compiler)
    memory = peak_memory()
    cost = replace(COST, budget=arguments.budget)
    cheap, after = timed(replace(problem, options=Options(cost=cost)), compiler)
    assert cheap.packing is not None
    began = time.process_time()
    bound = cheap.bound
    bound_seconds = time.process_time() - began
    is_long = arguments.budget >= _LONG_BUDGET
    row = Row(
        load=load.name,
        pods=len(problem.pods),
        karpenter_hourly=plain.hourly_cost,
        karpenter_nodes=len(plain.claims),
        cheapest_hourly=cheap.hourly_cost,
        cheapest_nodes=len(cheap.claims),
        candidate=cheap.packing.candidate.value,
        lower_bound=bound.hourly,
        bound_method=bound.method,
        seconds=after - before,
        bound_seconds=bound_seconds,
        megabytes=(peak_memory() - memory) / 1e6,
        target=load.target_of_ten if is_long else load.target,
    )
    return replace(row, peer=_peer(problem)) if arguments.beside else row


def _peer(problem: Problem) -> dict[str, Any]:
    from benchmarks.cheapest_peer import asked, obstacle

    reason = obstacle()
    if reason:
        raise SystemExit(f"Karpenter's scheduler cannot be asked: {reason}")
    return asdict(asked(problem))


def timed(problem: Problem, compiler: Compiler) -> tuple[Plan, float]:
    """A plan, and the seconds of the processor that it takes."""
    began = time.process_time()
    plan = solve(problem, compiler=compiler)
    return plan, time.process_time() - began


def _beside_before(checkout: str, notes: Console) -> list[dict[str, Any]]:
    """Workloads of ``solver`` in Karpenter's order, by this version and another, in turns."""
    found = []
    for letter, pods in _BEFORE:
        times: dict[str, list[float]] = {checkout: [], str(ROOT): []}
        with notes.status(f"workload {letter}, both versions in turns"):
            for _ in range(_ROUNDS):
                for folder, seconds in times.items():
                    seconds.append(_seconds(folder, letter, pods))
        now, before = min(times[str(ROOT)]), min(times[checkout])
        found.append(
            {"workload": letter, "pods": pods, "now": now, "before": before, "ratio": now / before}
        )
    return found


def _seconds(folder: str, letter: str, pods: int) -> float:
    command = [sys.executable, "-m", "benchmarks.measuring", letter, str(pods), "1"]
    environment = {"PYTHONPATH": f"{folder}/src", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env=environment
    )
    if done.returncode:
        raise SystemExit(f"{folder} failed:\n{done.stderr}")
    return float(json.loads(done.stdout)["processor_seconds"])


def _table(rows: Sequence[Row], *, with_peer: bool) -> Table:
    table = Table(title="cost over the lower bound", title_justify="left")
    columns = ["load", "pods"]
    columns += ["Karpenter in Go", "nodes", "cpu s"] if with_peer else []
    columns += ["Karpenter's order", "over bound", "nodes", "cheapest", "over bound", "target"]
    columns += ["nodes", "kept", "bound", "by", "cpu s", "bound s", "MB"]
    for name in columns:
        is_text = name in ("load", "kept", "by")
        table.add_column(name, justify="left" if is_text else "right")
    for row in rows:
        table.add_row(*_cells(row, with_peer=with_peer))
    return table


def _cells(row: Row, *, with_peer: bool) -> list[str]:
    cells = [row.load, f"{row.pods:,}"]
    if with_peer and row.peer is not None:
        left = f" ({row.peer['left_out']:,} left out)" if row.peer["left_out"] else ""
        cells += [f"${row.peer['hourly']:,.2f}{left}", f"{row.peer['nodes']:,}"]
        cells.append(f"{row.peer['seconds']:.1f}")
    return [
        *cells,
        f"${row.karpenter_hourly:,.2f}",
        f"{row.karpenter_gap:.1f}%",
        f"{row.karpenter_nodes:,}",
        f"${row.cheapest_hourly:,.2f}",
        f"{row.gap:.2f}%",
        f"{row.target:g}%",
        f"{row.cheapest_nodes:,}",
        row.candidate,
        f"${row.lower_bound:,.2f}",
        row.bound_method,
        f"{row.seconds:.2f}",
        f"{row.bound_seconds:.2f}",
        f"{row.megabytes:.0f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
