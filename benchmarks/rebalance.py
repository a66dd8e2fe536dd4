"""What moving pods would save after a scale-in, and how long it takes to find out.

    python -m benchmarks rebalance                 every load, and a cluster of 1,000 nodes
    python -m benchmarks rebalance --only bench    loads whose name begins so, without that cluster
    python -m benchmarks rebalance --smoke         few pods and nodes: that everything still runs
    python -m benchmarks rebalance --json          figures for programs

Each load arrives in batches of 30 pods that are planned in Karpenter's order, one after the other; then
40 % of the pods go, picked at random. The cost of the cluster then is compared with what consolidation
reaches, one command after the other until it finds nothing, and with the frontier of rebalancing, from
the scale-in and from where consolidation ends. Nothing is simulated but planning: no kube-scheduler, no
PDBs, no limit of moves. Claims need keep one type, and nodes cost nothing beside their price. Four
daemons of 250m and 400Mi together run on every node.

The second part times one frontier and one step of the method in a cluster of 1,000 nodes with 10,000
pods, half as many as there is room for, in a process of its own.
"""

import argparse
import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Final

import msgspec
from benchmarks import cheapest_loads, consolidation
from benchmarks.catalogues import EC2_FACTS, FACTS
from benchmarks.measuring import ROOT, peak_memory, positive
from benchmarks.options import options
from benchmarks.workloads import EC2_CATALOGUE, OPENB, SEED, pod_of, pool_of
from rich.console import Console
from rich.table import Table

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Condition
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.disruption.commands import EMPTY, MULTI, REBALANCE, SINGLE, Command
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.plan import METHODS, Search, next_commands
from karpenter.disruption.projected_state import ProjectedState
from karpenter.disruption.rebalance.preview import RebalancePreview, preview_of
from karpenter.disruption.rebalance.refusals import moved_pods
from karpenter.disruption.rebalance.settings import RebalanceMode, RebalanceSettings
from karpenter.model.conditions import CONSOLIDATABLE, FALSE, LAUNCHED, POD_SCHEDULED, TRUE
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.problem import CostOptions, Options
from karpenter.scheduling.provisioning import PassSettings, plan_provisioning
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

NOW: Final = datetime(2026, 8, 1, 12, tzinfo=UTC)
BATCH: Final = 30
GONE: Final = 0.4
PERCENTS: Final = (5.0, 10.0, 25.0, 50.0, 100.0)
MOST_SECONDS: Final = 30.0  # of the processor, for a frontier
MOST_STEP: Final = 5.0  # for one step of the method
MOST_MEMORY: Final = 300_000_000
LEAST_SAVED: Final = 0.015  # after consolidation, with a quarter of the pods moved
NODES: Final = 1_000
SMOKE_NODES: Final = 30
PODS_ON_EACH: Final = 20  # before half of them go
_MANY: Final = 1_000  # consolidation commands
_DAEMONS: Final = ((100, 100), (50, 100), (50, 100), (50, 100))  # cpu in milli, memory in Mi
_SETTINGS: Final = DisruptionSettings(
    planning=PassSettings(
        options=Options(cost=CostOptions(node_cost=0.0, min_types=1, min_spot_types=1))
    )
)


@dataclass(frozen=True, slots=True)
class Load:
    """Pods that arrive in batches, and on what they may run."""

    name: str
    shapes: Callable[[int], Sequence[tuple[int, int]]]  # cpu in milli, memory in Mi
    pods: int
    most_cpu: int = 0  # of a machine; 0 is any
    has_target: bool = False
    needs_traces: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured for one load, in dollars per hour."""

    load: str
    pods: int  # that are left
    after_scale_in: float
    consolidated: float
    consolidation_moved: int  # pods
    frontier: tuple[float, ...]  # from the scale-in, by PERCENTS
    frontier_after: tuple[float, ...]  # from where consolidation ends
    moved_after: tuple[int, ...]
    lower_bound: float
    seconds: float  # of the processor, for both frontiers
    has_target: bool

    @property
    def saved_after(self) -> float:
        """What a quarter of the pods saves after consolidation, as a part of the cost."""
        return 1 - self.frontier_after[PERCENTS.index(25.0)] / self.consolidated


@dataclass(frozen=True, slots=True)
class Speed:
    """How long a large cluster takes, in seconds of the processor and bytes."""

    nodes: int
    pods: int
    frontier: float
    frontier_memory: int
    step: float
    step_saves: float
    now_hourly: float
    cheapest_row: float
    lower_bound: float


def main() -> int:
    """Measure and report; the exit code says whether the targets are met."""
    arguments = _arguments()
    if arguments.here:
        print(json.dumps(asdict(_speed(arguments.here))))
        return 0
    notes = Console(stderr=True)
    rows = []
    for load in _LOADS:
        if not load.name.startswith(arguments.only):
            continue
        if load.needs_traces and not (OPENB.is_file() and EC2_CATALOGUE.is_file()):
            notes.print(f"{load.name} is omitted: it needs {OPENB} and {EC2_CATALOGUE}")
            continue
        with notes.status(load.name):
            rows.append(_measured(load, 90 if arguments.smoke else load.pods))
    speed = None
    if not arguments.only:
        nodes = SMOKE_NODES if arguments.smoke else NODES
        with notes.status(f"{nodes:,} nodes"):
            speed = _in_a_child(nodes)
    targets = [] if arguments.smoke else list(_targets(rows, speed))
    if arguments.json:
        found = [asdict(row) | {"saved_after": row.saved_after} for row in rows]
        print(json.dumps({"rows": found, "speed": asdict(speed) if speed else None}))
    else:
        console = Console(width=None if Console().is_terminal else 170)
        console.print(_table(rows))
        if speed is not None:
            console.print(
                f"{speed.nodes:,} nodes, {speed.pods:,} pods: frontier {speed.frontier:.1f} s of the"
                f" processor and {speed.frontier_memory / 1e6:.0f} MB, one step {speed.step:.1f} s"
            )
        for what, is_met in targets:
            console.print(f"{'met   ' if is_met else 'MISSED'} {what}")
    return 0 if all(is_met for _, is_met in targets) else 1


def _targets(rows: Iterable[Row], speed: Speed | None) -> Iterable[tuple[str, bool]]:
    for row in rows:
        if row.has_target:
            what = (
                f"{row.load}: after consolidation a quarter of the pods saves {row.saved_after:.1%}"
            )
            yield f"{what} (wanted {LEAST_SAVED:.1%})", row.saved_after >= LEAST_SAVED
    if speed is not None:
        yield (
            f"a frontier: {speed.frontier:.1f} s (wanted {MOST_SECONDS:.0f} s)",
            speed.frontier <= MOST_SECONDS,
        )
        yield (
            f"its memory: {speed.frontier_memory / 1e6:.0f} MB (wanted {MOST_MEMORY / 1e6:.0f} MB)",
            speed.frontier_memory <= MOST_MEMORY,
        )
        yield f"one step: {speed.step:.1f} s (wanted {MOST_STEP:.0f} s)", speed.step <= MOST_STEP


class _Cluster:
    """A cluster that only plans change."""

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        pool = _pool()
        daemons = cheapest_loads.daemon_sets(_DAEMONS)
        sets = {f"{each.metadata.namespace}/{each.metadata.name}": each for each in daemons}
        self._types = types
        self._state = ProjectedState(
            Snapshot(node_pools={pool.metadata.name: pool}, daemon_sets=sets),
            EC2_FACTS,
            lambda pool: types,
        )

    def add(self, pods: Sequence[Pod]) -> None:
        """Plan for pods that have just come, and carry the plan out."""
        snapshot = self._state.snapshot
        new = {key_of(pod): _waiting(pod) for pod in pods}
        self._state.snapshot = replace(
            snapshot,
            pods={**snapshot.pods, **new},
            unbound_pods={**snapshot.unbound_pods, **new},
        )
        outcome = plan_provisioning(
            self._state.snapshot, self._state.types, EC2_FACTS, _SETTINGS.planning, now=NOW
        )
        self._carry_out(outcome.plan)

    def remove(self, gone: frozenset[str]) -> None:
        """Take pods away."""
        snapshot = self._state.snapshot
        nodes = tuple(
            replace(node, pods=tuple(pod for pod in node.pods if key_of(pod) not in gone))
            for node in snapshot.nodes
        )
        pods = {key: pod for key, pod in snapshot.pods.items() if key not in gone}
        self._state.snapshot = replace(snapshot, nodes=nodes, pods=pods)

    def consolidate(self) -> int:
        """Carry out what consolidation finds until it finds nothing; return how many pods moved."""
        moved = 0
        others = frozenset(METHODS) - {EMPTY, MULTI, SINGLE}
        for _ in range(_MANY):
            found = next_commands(Search(self.view()), others).commands
            if not found:
                break
            for command in found:
                moved += moved_pods(command)
                self._begin(command)
        return moved

    def view(self) -> DisruptionContext:
        """The cluster as disruption sees it."""
        return DisruptionContext(
            self._state.snapshot, self._state.types, EC2_FACTS, _SETTINGS, now=NOW
        )

    @property
    def pods(self) -> Sequence[str]:
        """The names of all pods."""
        return sorted(self._state.snapshot.pods)

    def _begin(self, command: Command) -> None:
        going = set(command.names)
        snapshot = self._state.snapshot
        staying = tuple(node for node in snapshot.nodes if node.name not in going)
        self._state.snapshot = replace(snapshot, nodes=staying)
        self._carry_out(Plan(claims=command.replacements, existing=command.placements))

    def _carry_out(self, plan: Plan) -> None:
        self._state.carry_out(plan)
        nodes = tuple(map(_settled, self._state.snapshot.nodes))
        self._state.snapshot = replace(self._state.snapshot, nodes=nodes)


def _waiting(pod: Pod) -> Pod:
    """A pod that kube-scheduler has no node for."""
    seen = Condition(type=POD_SCHEDULED, status=FALSE, reason="Unschedulable")
    status = msgspec.structs.replace(pod.status, phase="Pending", conditions=(seen,))
    return msgspec.structs.replace(pod, status=status)


def _settled(machine: StateNode) -> StateNode:
    """A machine that may be consolidated."""
    claim = machine.node_claim
    assert claim is not None
    if machine.has_condition(CONSOLIDATABLE):
        return machine
    conditions = tuple(Condition(type=kind, status=TRUE) for kind in (LAUNCHED, CONSOLIDATABLE))
    status = msgspec.structs.replace(claim.status, conditions=conditions)
    return replace(machine, node_claim=msgspec.structs.replace(claim, status=status))


def _measured(load: Load, count: int) -> Row:
    pods = [
        pod_of(number, {"app": "load"}, {}, cpu, memory)
        for number, (cpu, memory) in enumerate(load.shapes(count))
    ]
    cluster = _Cluster(cheapest_loads.catalogue(with_spot=False, most_cpu=load.most_cpu))
    for first in range(0, len(pods), BATCH):
        cluster.add(pods[first : first + BATCH])
    names = cluster.pods
    cluster.remove(frozenset(random.Random(SEED).sample(names, int(len(names) * GONE))))
    began = time.process_time()
    before = preview_of(cluster.view(), PERCENTS)
    seconds = time.process_time() - began
    moved = cluster.consolidate()
    began = time.process_time()
    after = preview_of(cluster.view(), PERCENTS)
    seconds += time.process_time() - began
    return Row(
        load=load.name,
        pods=len(cluster.pods),
        after_scale_in=before.now_hourly,
        consolidated=after.now_hourly,
        consolidation_moved=moved,
        frontier=_hourly(before),
        frontier_after=_hourly(after),
        moved_after=tuple(row.moved_pods for row in after.frontier),
        lower_bound=max(before.lower_bound_hourly, after.lower_bound_hourly),
        seconds=seconds,
        has_target=load.has_target,
    )


def _hourly(preview: RebalancePreview) -> tuple[float, ...]:
    return tuple(row.hourly for row in preview.frontier)


def _speed(nodes: int) -> Speed:
    snapshot, types = consolidation.cluster(nodes, is_loose=True, pods_on_each=PODS_ON_EACH)
    settings = DisruptionSettings(rebalance=RebalanceSettings(mode=RebalanceMode.ON))

    def look() -> DisruptionContext:
        return DisruptionContext(snapshot, lambda pool: types, FACTS, settings, now=NOW)

    gc.collect()
    began = time.process_time()
    found = METHODS[REBALANCE](Search(look()))
    step = time.process_time() - began
    gc.collect()
    began = time.process_time()
    preview = preview_of(look())
    frontier = time.process_time() - began
    return Speed(
        nodes=nodes,
        pods=len(snapshot.pods),
        frontier=frontier,
        frontier_memory=peak_memory(),
        step=step,
        step_saves=sum(command.savings for command in found.commands),
        now_hourly=preview.now_hourly,
        cheapest_row=preview.frontier[-1].hourly,
        lower_bound=preview.lower_bound_hourly,
    )


def _in_a_child(nodes: int) -> Speed:
    command = [sys.executable, "-m", "benchmarks.rebalance", "--here", str(nodes)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{nodes} nodes failed:\n{done.stderr}")
    return Speed(**json.loads(done.stdout))


def _arguments() -> argparse.Namespace:
    parser = options(__doc__ or "", smoke="few pods and nodes")
    parser.add_argument("--only", default="", help="loads whose name begins so")
    parser.add_argument("--here", type=positive, metavar="NODES", help="time in this process")
    return parser.parse_args()


def _bench(count: int) -> Sequence[tuple[int, int]]:
    return cheapest_loads.bench(count)


def _micro(count: int) -> Sequence[tuple[int, int]]:
    """Small services, most of them a fifth of a cpu or less, and a few large ones."""
    rng = random.Random(SEED)
    sizes = (50, 100, 100, 200, 200, 500, 1000, 2000)
    return [(cpu, cpu * rng.choice((1, 2, 4))) for cpu in rng.choices(sizes, k=count)]


def _openb(count: int) -> Sequence[tuple[int, int]]:
    return cheapest_loads.openb_cpu(count)


_LOADS: Final = (
    Load("bench", _bench, 900),
    Load("bench, 32 cpu at most", _bench, 900, most_cpu=32, has_target=True),
    Load("micro, 32 cpu at most", _micro, 900, most_cpu=32, has_target=True),
    Load("openb", _openb, 300, has_target=True, needs_traces=True),
    Load("openb, 48 cpu at most", _openb, 300, most_cpu=48, has_target=True, needs_traces=True),
)


def _pool() -> NodePool:
    made = pool_of("general")
    spec = made.spec
    disruption = msgspec.structs.replace(spec.disruption, consolidate_after="0s", budgets=())
    condition = Condition(type="Ready", status=TRUE)
    return msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(spec, disruption=disruption),
        status=msgspec.structs.replace(made.status, conditions=(condition,)),
    )


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="dollars per hour after a scale-in", title_justify="left")
    shown = "/".join(f"{percent:g}" for percent in PERCENTS)
    names = ("load", "pods", "scale-in", "consolidated (pods moved)", f"frontier at {shown} %")
    for name in (*names, f"after consolidation at {shown} %", "bound", "cpu s"):
        table.add_column(name, justify="left" if name == "load" else "right")
    for row in rows:
        table.add_row(
            row.load,
            f"{row.pods:,}",
            f"{row.after_scale_in:.2f}",
            f"{row.consolidated:.2f} ({row.consolidation_moved:,})",
            " / ".join(f"{price:.2f}" for price in row.frontier),
            " / ".join(f"{price:.2f}" for price in row.frontier_after),
            f"{row.lower_bound:.2f}",
            f"{row.seconds:.1f}",
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
