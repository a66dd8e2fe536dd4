"""How fast, how small and how good the solver is, on four workloads.

    python -m benchmarks solver                 all of them, a few minutes
    python -m benchmarks solver --only a,c      some of them
    python -m benchmarks solver --smoke         tiny sizes: that everything still runs
    python -m benchmarks solver --json          figures for programs

A solve is a problem in, a plan out: pods are sorted into classes, packed, and every claim written
out. The universe of offerings is compiled once and kept, as a controller does; what that costs is
shown beside it, and so is the first solve of all, which has nothing to build on. Times are the best
of several rounds with the garbage collector on. Growth is in seconds of the processor, since
the two sizes are not measured at the same moment and a busy machine may favour either. Every size
runs in a process of its own, whose peak resident memory is shown, interpreter and pods included.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.measuring import Figures, measure, positive
from benchmarks.options import options
from benchmarks.workloads import WORKLOADS, Workload
from rich.console import Console
from rich.table import Table

MOST_GROWTH: Final = 10.0  # in time, from one to eight times the pods
MOST_MEMORY: Final = 300_000_000  # bytes, for 20,000 pods
MOST_COMPILING: Final = 0.1  # seconds, for 800 types
LEAST_PODS_PER_SECOND: Final = 50_000  # on workload b

_SMOKE_SIZES: Final = {"a": (1, 25, 200), "b": (25, 200), "c": (25, 200), "d": (25, 200)}


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to reach, and whether it was."""

    what: str
    wanted: str
    found: str
    is_met: bool


def main() -> int:
    """Measure and report; the exit code says whether the targets are met."""
    arguments = _arguments()
    notes = Console(stderr=True)
    console = Console(width=None if Console().is_terminal else 160)
    figures: list[Figures] = []
    for workload in _chosen(arguments.only):
        if workload.missing:
            absent = ", ".join(str(path) for path in workload.missing)
            notes.print(f"workload {workload.letter} is left out, because {absent} is not there")
            continue
        sizes = _SMOKE_SIZES[workload.letter] if arguments.smoke else workload.sizes
        with notes.status(f"workload {workload.letter}: {workload.title}"):
            found = [measure(workload.letter, pods, arguments.rounds) for pods in sizes]
        figures += found
        if not arguments.json:
            console.print(_table(workload, found))
    targets = [] if arguments.smoke else list(_targets(figures))
    if arguments.json:
        print(json.dumps(_report(figures, targets), indent=2))
    elif targets:
        console.print(_targets_table(targets))
    return 0 if all(target.is_met for target in targets) else 1


def _arguments() -> argparse.Namespace:
    parser = options("Measure the solver.", smoke="tiny sizes")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="which ones (%(default)s)")
    parser.add_argument(
        "--rounds", type=positive, default=5, help="the best of how many (%(default)s)"
    )
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds = 1
    return arguments


def _chosen(letters: str) -> list[Workload]:
    wanted = [letter.strip() for letter in letters.split(",") if letter.strip()]
    unknown = [letter for letter in wanted if letter not in WORKLOADS]
    if unknown:
        known = ", ".join(WORKLOADS)
        raise SystemExit(f"there is no workload {', '.join(unknown)}; choose among {known}")
    return [WORKLOADS[letter] for letter in wanted]


def growth(figures: Iterable[Figures], workload: Workload) -> float | None:
    """How much longer eight times the pods keep the processor busy, or None without both sizes."""
    seconds = {
        found.pods: found.processor_seconds
        for found in figures
        if found.workload == workload.letter
    }
    small, large = workload.growth
    return seconds[large] / seconds[small] if small in seconds and large in seconds else None


def _targets(figures: Sequence[Figures]) -> Iterable[Target]:
    for letter, workload in WORKLOADS.items():
        factor = growth(figures, workload)
        if factor is not None:
            small, large = workload.growth
            what = f"({letter}) time from {small:,} to {large:,} pods"
            met = factor <= MOST_GROWTH
            yield Target(what, f"at most {MOST_GROWTH:.0f}x", f"{factor:.1f}x", met)
    for found in figures:
        if found.pods == 20_000:
            what = f"({found.workload}) peak memory for 20,000 pods"
            megabytes = f"{found.peak_memory / 1e6:.0f} MB"
            met = found.peak_memory < MOST_MEMORY
            yield Target(what, f"less than {MOST_MEMORY / 1e6:.0f} MB", megabytes, met)
        if found.workload == "b" and found.pods == 20_000:
            speed, compiling = found.pods_per_second, found.compile_seconds
            yield Target(
                "(b) pods per second",
                f"at least {LEAST_PODS_PER_SECOND:,}",
                f"{speed:,.0f}",
                speed >= LEAST_PODS_PER_SECOND,
            )
            yield Target(
                "(b) compiling 800 types",
                f"at most {MOST_COMPILING * 1e3:.0f} ms",
                f"{compiling * 1e3:.0f} ms",
                compiling <= MOST_COMPILING,
            )


def _table(workload: Workload, figures: Sequence[Figures]) -> Table:
    table = Table(title=f"({workload.letter}) {workload.title}", title_justify="left")
    for heading in ("pods", "solve", "pods/s", "first solve", "compile", "new nodes"):
        table.add_column(heading, justify="right")
    for heading in ("on existing", "left over", "per hour", "lower bound", "peak memory"):
        table.add_column(heading, justify="right")
    for found in figures:
        table.add_row(
            f"{found.pods:,}",
            f"{found.seconds * 1e3:,.1f} ms",
            f"{found.pods_per_second:,.0f}",
            f"{found.first_seconds * 1e3:,.1f} ms",
            f"{found.compile_seconds * 1e3:,.1f} ms",
            f"{found.nodes:,}",
            f"{found.on_existing:,}",
            f"{found.left_over:,}",
            f"${found.hourly_cost:,.2f}",
            f"${found.lower_bound:,.2f}",
            f"{found.peak_memory / 1e6:,.0f} MB",
        )
    factor = growth(figures, workload)
    if factor is not None:
        small, large = workload.growth
        table.caption = f"{large:,} pods take {factor:.1f} times as long as {small:,}"
        table.caption_justify = "left"
    return table


def _targets_table(targets: Iterable[Target]) -> Table:
    table = Table(title="targets", title_justify="left")
    for heading in ("what", "target", "found", ""):
        table.add_column(heading)
    for target in targets:
        verdict = "[green]met[/green]" if target.is_met else "[red]missed[/red]"
        table.add_row(target.what, target.wanted, target.found, verdict)
    return table


def _report(figures: Iterable[Figures], targets: Iterable[Target]) -> dict[str, object]:
    return {
        "figures": [
            asdict(found) | {"pods_per_second": found.pods_per_second} for found in figures
        ],
        "targets": [asdict(target) for target in targets],
    }


if __name__ == "__main__":
    raise SystemExit(main())
