"""How fast consolidation looks at every node of a cluster, and how much memory it takes.

    python -m benchmarks consolidation            1,000 and 5,000 nodes, a minute or two
    python -m benchmarks consolidation --smoke    a small cluster: that everything still runs
    python -m benchmarks consolidation --json     figures for programs

There are ten pods of 250 deployments to a node and 800 types to choose from. In a *tight* cluster
every node is of the cheapest type that holds its pods, and full: every what-if finds nothing, and
has to consider all nodes, all types and all prices. Timed is a whole pass, from reading the cluster
to the last what-if. In a *loose* one half of the pods are gone, and the search for nodes that can
go together is timed. A what-if is one question: where would the pods of this node go, and what
would that cost. Every cluster is measured in a process of its
own, whose peak resident memory is shown, interpreter and cluster included.
"""

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from benchmarks.catalogues import FACTS, NODE_CLASS_GROUP, NODE_CLASS_KIND, ZONES, cloud
from benchmarks.measuring import ROOT, peak_memory, positive
from benchmarks.options import options
from benchmarks.workloads import SEED, deployment, replica
from rich.console import Console
from rich.table import Table

from karpenter.api.codec import convert
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.disruption.commands import SINGLE
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.methods.multi_node import find_multi
from karpenter.disruption.plan import Search
from karpenter.model import labels
from karpenter.model.resources import total
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.requests import pod_requests
from karpenter.state.snapshot import Snapshot

Json = dict[str, Any]

NOW: Final = datetime(2026, 8, 1, 12, tzinfo=UTC)
SIZES: Final = (250, 500, 1_000, 2_000, 5_000)  # in nodes
SMOKE_SIZES: Final = (20, 40)
DEPLOYMENTS: Final = 250
PODS_ON_EACH: Final = 10
TOGETHER: Final = 100

MOST_SECONDS: Final = {1_000: 10.0, 5_000: 60.0}  # for a full pass
MOST_MEDIAN: Final = 0.005
MOST_P99: Final = 0.020
MOST_MULTI: Final = 2.0
MOST_MEMORY: Final = 1_000_000_000
MOST_GROWTH: Final = 8.0  # in time, from 250 to 2,000 nodes


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds and bytes."""

    nodes: int
    pods: int
    candidates: int
    reading: float  # candidates, budgets, and the cluster compiled
    asking: float  # every candidate, one after the other
    processor: float  # both on the clock of the process, which others do not disturb
    median: float  # of one what-if
    p99: float
    longest: float
    moves: int  # candidates that could go or be replaced
    multi: float  # the search for nodes that go together, in a loose cluster
    together: int  # how many it found
    peak_memory: int

    @property
    def full_pass(self) -> float:
        """Everything a pass over all nodes takes."""
        return self.reading + self.asking


def main() -> int:
    """Measure and report; the exit code says whether the targets are met."""
    arguments = _arguments()
    if arguments.here:
        print(json.dumps(asdict(_measured(arguments.here))))
        return 0
    sizes = SMOKE_SIZES if arguments.smoke else SIZES
    notes = Console(stderr=True)
    figures = []
    for nodes in sizes:
        with notes.status(f"{nodes:,} nodes"):
            figures.append(_in_a_child(nodes))
    targets = [] if arguments.smoke else list(_targets(figures))
    if arguments.json:
        print(json.dumps({"figures": [asdict(each) for each in figures], "targets": targets}))
    else:
        console = Console(width=None if Console().is_terminal else 160)
        console.print(_table(figures))
        for what, wanted, found, is_met in targets:
            console.print(f"{'met   ' if is_met else 'MISSED'} {what}: {found} (wanted {wanted})")
    return 0 if all(is_met for *_, is_met in targets) else 1


def cluster(
    nodes: int, *, is_loose: bool, pods_on_each: int = PODS_ON_EACH
) -> tuple[Snapshot, tuple[InstanceType, ...]]:
    """A cluster of so many settled nodes, the same on every run; loose, half of its pods are gone."""
    rng = random.Random(SEED)
    types = cloud()
    usable = sorted(
        (each for each in types if each.requirements[labels.ARCH].has("amd64")),
        key=lambda each: (_price(each), each.name),
    )
    deployments = [deployment(number, rng) for number in range(DEPLOYMENTS)]
    machines = tuple(
        _machine(number, deployments, usable, rng, is_loose=is_loose, pods=pods_on_each)
        for number in range(nodes)
    )
    pods = {key_of(pod): pod for machine in machines for pod in machine.pods}
    pool = _pool()
    return Snapshot(nodes=machines, pods=pods, node_pools={pool.metadata.name: pool}), types


def _measured(nodes: int) -> Figures:
    snapshot, types = cluster(nodes, is_loose=False)
    gc.collect()
    begin, busy = time.perf_counter(), time.process_time()
    consolidation = Search(_look(snapshot, types)).consolidation
    consolidation.command(SINGLE, consolidation.candidates[:1])  # what compiles the cluster
    reading = time.perf_counter() - begin
    times = []
    moves = 0
    for candidate in consolidation.candidates:
        start = time.perf_counter()
        found = consolidation.command(SINGLE, [candidate])
        times.append(time.perf_counter() - start)
        moves += hasattr(found, "decision")
    processor = time.process_time() - busy
    ordered = sorted(times)
    pods = len(snapshot.pods)
    candidates = len(consolidation.candidates)
    del consolidation, snapshot
    loose, types = cluster(min(nodes, 1_000), is_loose=True)
    gc.collect()
    begin = time.perf_counter()
    several = find_multi(Search(_look(loose, types)).consolidation)
    multi = time.perf_counter() - begin
    return Figures(
        nodes=nodes,
        pods=pods,
        candidates=candidates,
        reading=reading,
        asking=sum(times),
        processor=processor,
        median=statistics.median(ordered),
        p99=ordered[int(len(ordered) * 0.99)],
        longest=ordered[-1],
        moves=moves,
        multi=multi,
        together=sum(len(command.candidates) for command in several.commands),
        peak_memory=peak_memory(),
    )


def _look(snapshot: Snapshot, types: tuple[InstanceType, ...]) -> DisruptionContext:
    settings = DisruptionSettings()
    return DisruptionContext(snapshot, lambda pool: types, FACTS, settings, now=NOW)


def _in_a_child(nodes: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.consolidation", "--here", str(nodes)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{nodes} nodes failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout))


def _arguments() -> argparse.Namespace:
    parser = options("Measure consolidation.", smoke="a small cluster")
    parser.add_argument("--here", type=positive, metavar="NODES", help="measure in this process")
    return parser.parse_args()


def _targets(figures: Sequence[Figures]) -> Iterable[tuple[str, str, str, bool]]:
    by_size = {each.nodes: each for each in figures}
    for nodes, most in MOST_SECONDS.items():
        found = by_size[nodes].full_pass
        yield f"full pass, {nodes:,} nodes", f"{most:.0f} s", f"{found:.2f} s", found < most
    thousand = by_size[1_000]
    for what, value, most in (
        ("median what-if", thousand.median, MOST_MEDIAN),
        ("p99 what-if", thousand.p99, MOST_P99),
    ):
        yield what, f"{most * 1e3:.0f} ms", f"{value * 1e3:.2f} ms", value <= most
    yield (
        f"search among {TOGETHER} nodes",
        f"{MOST_MULTI:.0f} s",
        f"{thousand.multi:.2f} s",
        thousand.multi < MOST_MULTI,
    )
    memory = by_size[5_000].peak_memory
    yield "memory, 5,000 nodes", "1 GB", f"{memory / 1e6:.0f} MB", memory < MOST_MEMORY
    growth = by_size[2_000].processor / by_size[250].processor
    yield "time from 250 to 2,000 nodes", "8x", f"{growth:.1f}x", growth <= MOST_GROWTH


def _table(figures: Iterable[Figures]) -> Table:
    table = Table(title="consolidation, 10 pods to a node, 800 types")
    for name in ("nodes", "full pass", "reading", "median", "p99", "longest", "moves"):
        table.add_column(name, justify="right")
    for name in ("search", "together", "memory"):
        table.add_column(name, justify="right")
    for each in figures:
        table.add_row(
            f"{each.nodes:,}",
            f"{each.full_pass:.2f} s",
            f"{each.reading:.2f} s",
            *(f"{t * 1e3:.2f} ms" for t in (each.median, each.p99, each.longest)),
            f"{each.moves:,}",
            f"{each.multi:.2f} s",
            str(each.together),
            f"{each.peak_memory / 1e6:.0f} MB",
        )
    return table


def _machine(
    number: int,
    deployments: Sequence[Json],
    types: Sequence[InstanceType],
    rng: random.Random,
    *,
    is_loose: bool,
    pods: int,
) -> StateNode:
    name = f"node-{number:05}"
    chosen = rng.sample(range(DEPLOYMENTS), pods)
    running = [replica(deployments[which], f"{name}-{which}", node=name) for which in chosen]
    zone = ZONES[number % len(ZONES)]
    kind = _cheapest(running, types)
    kept = running[::2] if is_loose else running
    held = {
        labels.ZONE: zone,
        labels.CAPACITY_TYPE: labels.ON_DEMAND,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.NODEPOOL: "general",
        labels.INSTANCE_TYPE: kind.name,
    }
    started = {labels.REGISTERED: "true", labels.INITIALIZED: "true", labels.HOSTNAME: name}
    room = kind.allocatable if is_loose else total(map(pod_requests, kept))
    size = {"capacity": kind.capacity.to_wire(), "allocatable": room.to_wire()}
    node = convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": held | started},
            "spec": {"providerID": f"bench://{name}"},
            "status": {**size, "conditions": [_true("Ready")]},
        }
    )
    claim = convert(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": held},
            "spec": {"nodeClassRef": _reference(), "requirements": []},
            "status": {
                **size,
                "providerID": f"bench://{name}",
                "conditions": [_true("Launched"), _true("Initialized"), _true("Consolidatable")],
            },
        }
    )
    assert isinstance(node, Node)
    assert isinstance(claim, NodeClaim)
    return StateNode(node=node, node_claim=claim, pods=tuple(kept))


def _cheapest(pods: Iterable[Pod], types: Sequence[InstanceType]) -> InstanceType:
    wanted = total(map(pod_requests, pods))
    return next(each for each in types if wanted.fits(each.allocatable))


def _price(kind: InstanceType) -> float:
    ways = [way for way in kind.offerings if way.capacity_type == labels.ON_DEMAND]
    return min(way.price for way in ways)


def _pool() -> NodePool:
    pool = convert(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "general"},
            "spec": {
                "template": {
                    "spec": {
                        "nodeClassRef": _reference(),
                        "requirements": [
                            {
                                "key": labels.CAPACITY_TYPE,
                                "operator": "In",
                                "values": [labels.ON_DEMAND],
                            },
                            {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
                        ],
                    }
                },
                "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
            },
            "status": {"conditions": [_true("Ready")]},
        }
    )
    assert isinstance(pool, NodePool)
    return pool


def _reference() -> Json:
    return {"group": NODE_CLASS_GROUP, "kind": NODE_CLASS_KIND, "name": "default"}


def _true(kind: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-08-01T00:00:00Z"}


if __name__ == "__main__":
    raise SystemExit(main())
