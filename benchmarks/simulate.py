"""How fast and in how much memory ``karpenter simulate`` lives through hours of a cluster with churn.

    python -m benchmarks simulate                      50, 200 and 1,000 nodes: half an hour
    python -m benchmarks simulate --smoke              20 nodes, ten minutes
    python -m benchmarks simulate --nodes 200 --minutes 120    one size for so long
    python -m benchmarks simulate --nodes 200 --idle   the same cluster without churn

So many nodes with ten pods each, and a Deployment for every ten of them; each minute a tenth of the
Deployments moves along a wave of two hours with noise, so machines are bought and consolidated all the
time. Measured is what comes after the cluster has been filled, by the clock of the processor, each
size in a process of its own. An event is a change of an object in the store.
"""

import argparse
import hashlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import ROOT, peak_memory, positive
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.operator.gc_thresholds import collect_rarely
from karpenter.simulate.observing import make_observers
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, View
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks, Progress
from karpenter.telemetry import quiet_logger
from karpenter.telemetry.logs import take_over

PODS_ON_A_NODE: Final = 10
NODES_FOR_A_DEPLOYMENT: Final = 10
WAVE_SECONDS: Final = 7200.0
WAVE, NOISE = 0.25, 0.1
MINUTES: Final = {50: 60, 200: 30, 1000: 10}  # that are measured, by nodes
SMOKE: Final = {20: 10}
# Real time divided by processor time: 7 days in 300 s, 24 h in 120 s, 1 h in 120 s
LEAST_RATIO: Final = {50: 2016.0, 200: 720.0, 1000: 30.0}
MOST_MEMORY: Final = {200: 400 * 10**6, 1000: 900 * 10**6}
_PODS_MADE_A_SECOND: Final = 20.0  # by a default control plane
_SETTLING_MINUTES: Final = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one size, in seconds of the processor and bytes."""

    nodes: int
    minutes: int
    is_idle: bool
    ratio: float  # virtual seconds for a second of the processor
    events_per_second: float
    filling_seconds: float  # until the measured part begins
    memory: int  # peak
    decisions: int  # of the controllers
    digest: str  # of all decisions; equal while only the speed changes

    @property
    def is_enough(self) -> bool:
        """Whether the targets, which are about churn, are met."""
        if self.is_idle:
            return True
        is_small = self.memory < MOST_MEMORY.get(self.nodes, math.inf)
        return is_small and self.ratio >= LEAST_RATIO.get(self.nodes, 0.0)


@dataclass(slots=True)
class _Meter:
    """An observer that reads the clock of the processor when the measured part begins and ends."""

    begin_at: float
    events: int = 0
    began: tuple[float, float, int] | None = None  # virtual time, processor, events so far
    ended: tuple[float, float, int] = field(default=(0.0, 0.0, 0))

    def changed(self, event: object) -> None:
        self.events += 1

    def look(self, progress: Progress) -> None:
        self.ended = progress.at, time.process_time(), self.events
        if self.began is None and progress.at >= self.begin_at:
            self.began = self.ended

    def begin(self, view: View) -> None:
        """Nothing to prepare."""

    def machine(self, event: MachineEvent) -> None:
        """Machines are nodes of the store, too."""

    def priced(self, change: PriceChange) -> None:
        """Prices stay."""

    def marked(self, mark: Mark) -> None:
        """The scenario has no steps."""

    def wrote(self, request: object) -> None:
        """What is written changes the store."""

    def finish(self) -> None:
        """Everything is read from outside."""


def main() -> int:
    parser = options("Measure simulations with churn.", smoke="few nodes, ten minutes")
    parser.add_argument("--nodes", type=positive, help="one size instead of all")
    parser.add_argument("--minutes", type=positive, help="virtual minutes that are measured")
    parser.add_argument("--idle", action="store_true", help="no churn")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else MINUTES
    if arguments.nodes:
        sizes = {arguments.nodes: MINUTES.get(arguments.nodes, 10)}
    if arguments.minutes:
        sizes = dict.fromkeys(sizes, arguments.minutes)
    if arguments.child:
        ((nodes, minutes),) = sizes.items()
        print(json.dumps(asdict(_measured(nodes, minutes, is_idle=arguments.idle))))
        return 0
    figures = []
    for nodes, minutes in sizes.items():
        figures.append(_in_child(nodes, minutes, is_idle=arguments.idle))
        print(f"{nodes} nodes: {figures[-1].ratio:,.0f} times real time", file=sys.stderr)
    if arguments.json:
        print(json.dumps([asdict(each) for each in figures], indent=2))
    else:
        _show(figures)
    return 0 if arguments.smoke or all(each.is_enough for each in figures) else 1


def _in_child(nodes: int, minutes: int, *, is_idle: bool) -> Figures:
    command = [sys.executable, "-m", "benchmarks.simulate", "--child"]
    command += ["--nodes", str(nodes), "--minutes", str(minutes), *(["--idle"] if is_idle else [])]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"the simulation of {nodes} nodes failed")
    return Figures(**json.loads(done.stdout))


def _measured(nodes: int, minutes: int, *, is_idle: bool) -> Figures:
    take_over(quiet_logger())
    collect_rarely()
    made = nodes * PODS_ON_A_NODE / _PODS_MADE_A_SECOND
    warmup = math.ceil(made / 60) + _SETTLING_MINUTES
    text = json.dumps(scenario(nodes, warmup + minutes, warmup, is_idle=is_idle))
    loaded = load("churn.json", text.encode(), Path.cwd(), Options(is_large=True))
    meter = _Meter(warmup * 60.0)
    hooks = Hooks(observers=[*make_observers(), meter], progress=meter.look)
    began = time.process_time()
    left = run_world(setup_of(loaded, 0), hooks)
    assert meter.began is not None, "a run is longer than its beginning"
    virtual, processor, events = (
        after - before for before, after in zip(meter.began, meter.ended, strict=True)
    )
    decided = [repr(record) for record in left.decisions]
    return Figures(
        nodes=nodes,
        minutes=minutes,
        is_idle=is_idle,
        ratio=virtual / processor,
        events_per_second=events / processor,
        filling_seconds=meter.began[1] - began,
        memory=peak_memory(),
        decisions=len(decided),
        digest=hashlib.sha256("\n".join(decided).encode()).hexdigest()[:16],
    )


def scenario(nodes: int, minutes: int, quiet: int, *, is_idle: bool = False) -> dict[str, Any]:
    """The reference load: nothing moves for the first ``quiet`` minutes."""
    count = max(nodes // NODES_FOR_A_DEPLOYMENT, 2)
    replicas = nodes * PODS_ON_A_NODE // count
    moves: Callable[[int], Sequence[dict[str, Any]]] = (
        (lambda number: []) if is_idle else lambda number: _moves(number, replicas, quiet, minutes)
    )
    return {
        "apiVersion": "simulate.karpenter.sh/v1",
        "kind": "Scenario",
        "metadata": {"name": "churn"},
        "until": f"{minutes}m",
        "warmup": f"{quiet}m",
        "objects": [_pool(nodes)],
        "workloads": [
            {
                "name": f"app-{number}",
                "pod": {"cpu": "350m", "memory": "512Mi"},
                "steps": [{"at": "0s", "replicas": replicas}, *moves(number)],
            }
            for number in range(count)
        ],
    }


def _moves(number: int, replicas: int, first: int, last: int) -> list[dict[str, Any]]:
    """Where a Deployment moves, once in ten minutes."""
    found = []
    for minute in range(first, last):
        if (minute + number) % 10 == 0:
            angle = 2 * math.pi * 60 * minute / WAVE_SECONDS
            noise = int(hashlib.sha256(f"{number}/{minute}".encode()).hexdigest()[:8], 16) / 2**32
            shift = WAVE * math.sin(angle + number) + NOISE * (2 * noise - 1)
            found.append({"at": f"{minute}m", "replicas": round(replicas * (1 + shift))})
    return found


def _pool(nodes: int) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.kwok.sh",
                        "kind": "KWOKNodeClass",
                        "name": "default",
                    },
                    "expireAfter": "Never",
                    "requirements": [
                        {
                            "key": "karpenter.kwok.sh/instance-cpu",
                            "operator": "In",
                            "values": ["4"],
                        }
                    ],
                }
            },
            "disruption": {
                "consolidateAfter": "1m",
                "budgets": [{"nodes": str(max(nodes // 10, 2))}],
            },
        },
    }


def _show(figures: Sequence[Figures]) -> None:
    table = Table("nodes", "minutes", "times real time", "events/s", "filling", "memory", "target")
    for each in figures:
        target = [f"{LEAST_RATIO[each.nodes]:,.0f} times"] if each.nodes in LEAST_RATIO else []
        if each.nodes in MOST_MEMORY:
            target.append(f"{MOST_MEMORY[each.nodes] / 10**6:,.0f} MB")
        table.add_row(
            f"{each.nodes:,}{' idle' if each.is_idle else ''}",
            str(each.minutes),
            f"{each.ratio:,.0f}",
            f"{each.events_per_second:,.0f}",
            f"{each.filling_seconds:,.1f} s",
            f"{each.memory / 10**6:,.0f} MB",
            "" if each.is_idle else ", ".join(target),
        )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
