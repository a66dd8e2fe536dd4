"""Side by side with Karpenter: its own scheduling benchmark and ours, in one run, in turns.

    python -m benchmarks compare                       1,000, 5,000 and 20,000 pods, some minutes
    python -m benchmarks compare --sizes 1000 --rounds 5

Karpenter's side is the benchmark in its published Go module (``benchmarks/peer/go.mod`` says which
version), built once into the user's cache. It times ``Solve`` alone: its scheduler, the topology
and the instance types are made beforehand. Ours times the whole of ``solve`` on the same workload,
from pods to written-out claims, with the universe of offerings compiled beforehand. Each side's
best of the rounds counts.

Workload (c) has no counterpart there, so it stands beside the Go figure for as many pods.
"""

import argparse
import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.measuring import Figures, measure, positive
from benchmarks.options import options
from benchmarks.peers import BENCHMARK, built, obstacle
from rich.console import Console
from rich.table import Table

ON_REQUEST: Final = "builds Karpenter's own benchmark, which needs Go"
KARPENTERS_SIZES: Final = (1, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
SIZES: Final = (1_000, 5_000, 20_000)
LEAST_RATIO: Final = {"a": 100, "c": 20}  # our pods per second over theirs

_METRIC: Final = re.compile(r"([0-9.e+]+) (nodes|pods/sec)")
_DIFFERENT_PODS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Peer:
    """What Karpenter's benchmark reports."""

    pods_per_second: float
    nodes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload on both sides."""

    workload: str
    pods: int
    ours: Figures
    theirs: Peer

    @property
    def ratio(self) -> float:
        """How many times as many pods per second we place."""
        return self.ours.pods_per_second / self.theirs.pods_per_second

    @property
    def is_met(self) -> bool:
        """Whether the target is reached: speed, and for the same workload no more nodes."""
        fast = self.ratio >= LEAST_RATIO[self.workload]
        return fast and (self.workload != "a" or self.ours.nodes <= self.theirs.nodes)


def main() -> int:
    """Build, run both sides in turns, report; the exit code says whether the targets are met."""
    arguments = _arguments()
    notes = Console(stderr=True)
    problem = obstacle()
    if problem:
        notes.print(f"nothing is compared, because {problem}")
        return 0
    with notes.status("building Karpenter's benchmark, which takes minutes the first time"):
        program = built(BENCHMARK)
    comparisons = list(_compared(program, arguments.sizes, arguments.rounds, notes))
    if arguments.json:
        print(json.dumps([_entry(found) for found in comparisons], indent=2))
    else:
        Console(width=None if Console().is_terminal else 120).print(_table(comparisons))
    return 0 if arguments.smoke or all(found.is_met for found in comparisons) else 1


def _arguments() -> argparse.Namespace:
    parser = options("Compare the solver with Karpenter's scheduler.", smoke="few pods")
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default=SIZES,
        help="how many pods, such as 1000,5000; Karpenter knows "
        + ", ".join(str(size) for size in KARPENTERS_SIZES),
    )
    parser.add_argument(
        "--rounds", type=positive, default=2, help="the best of how many (%(default)s)"
    )
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.sizes, arguments.rounds = (100,), 1
    return arguments


def _sizes(text: str) -> tuple[int, ...]:
    known = {str(size): size for size in KARPENTERS_SIZES}
    wanted = [word.strip() for word in text.split(",")]
    for word in wanted:
        if word not in known:
            raise argparse.ArgumentTypeError(f"Karpenter's benchmark has no size {word!r}")
    return tuple(known[word] for word in wanted)


def _compared(
    program: Path, sizes: Iterable[int], rounds: int, notes: Console
) -> Iterable[Comparison]:
    for pods in sizes:
        with notes.status(f"{pods:,} pods, both sides in turns"):
            theirs, ours, different = [], [], []
            for _ in range(rounds):
                theirs.append(_theirs(program, pods))
                ours.append(measure("a", pods, rounds=5))
                if pods == _DIFFERENT_PODS:
                    different.append(measure("c", pods, rounds=5))
        peer = max(theirs, key=lambda found: found.pods_per_second)
        yield Comparison("a", pods, min(ours, key=lambda found: found.seconds), peer)
        if different:
            yield Comparison("c", pods, min(different, key=lambda found: found.seconds), peer)


def _theirs(program: Path, pods: int) -> Peer:
    command = [
        str(program),
        "-test.run=^$",
        f"-test.bench=^BenchmarkScheduling{pods}$",
        "-test.benchtime=1x",
        "-test.timeout=60m",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=program.parent)
    metrics = {name: float(number) for number, name in _METRIC.findall(done.stdout)}
    if done.returncode or "pods/sec" not in metrics:
        raise SystemExit(f"Karpenter's benchmark failed:\n{done.stdout}{done.stderr}")
    return Peer(metrics["pods/sec"], int(metrics["nodes"]))


def _table(comparisons: Iterable[Comparison]) -> Table:
    table = Table(title="Karpenter in Go, and this solver", title_justify="left")
    for heading in ("workload", "pods", "Go pods/s", "our pods/s", "ratio", "target"):
        table.add_column(heading, justify="right")
    for heading in ("Go nodes", "our nodes", ""):
        table.add_column(heading, justify="right")
    for found in comparisons:
        same = found.workload == "a"
        table.add_row(
            found.workload,
            f"{found.pods:,}",
            f"{found.theirs.pods_per_second:,.0f}",
            f"{found.ours.pods_per_second:,.0f}",
            f"{found.ratio:,.0f}x",
            f"{LEAST_RATIO[found.workload]}x",
            f"{found.theirs.nodes:,}" if same else "",
            f"{found.ours.nodes:,}",
            "[green]met[/green]" if found.is_met else "[red]missed[/red]",
        )
    return table


def _entry(found: Comparison) -> dict[str, object]:
    return asdict(found) | {"ratio": found.ratio, "is_met": found.is_met}


if __name__ == "__main__":
    raise SystemExit(main())
