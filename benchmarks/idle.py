"""What a large cluster costs while nothing happens in it.

1,000 nodes run 10,000 pods of 20 Deployments in one process, in real time, as ``karpenter sandbox``
runs them. Measured is the processor over a minute or so after the last pod has started, and the
memory that the process holds then. What remains to be done are heartbeats: leases and conditions
of nodes.
"""

import asyncio
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.clock import SystemClock
from karpenter.operator.gc_thresholds import collect_rarely
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.initial_objects import NodeShape

Json = dict[str, Any]

NODES, PODS, DEPLOYMENTS = 1000, 10_000, 20
SECONDS = 60.0
LARGEST_SHARE = 0.05  # of one core
MOST_MEMORY = 500 * 10**6  # bytes
_PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds, bytes and shares of one core."""

    nodes: int
    pods: int
    filling_seconds: float  # of the processor, until all pods run
    share: float
    memory: int

    @property
    def is_enough(self) -> bool:
        """Whether the promises are kept."""
        return self.share < LARGEST_SHARE and self.memory < MOST_MEMORY


def main() -> int:
    parser = options("Measure a cluster in which nothing happens.", smoke="a small cluster")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_args()
    size = (5, 40, 2, 1.0) if arguments.smoke else (NODES, PODS, DEPLOYMENTS, arguments.seconds)
    collect_rarely()
    figures = asyncio.run(_measure(*size))
    if arguments.json:
        print(json.dumps(asdict(figures), indent=2))
    else:
        _show(figures)
    return 0 if figures.is_enough or arguments.smoke else 1


async def _measure(nodes: int, pods: int, deployments: int, seconds: float) -> Figures:
    started = time.process_time()
    cluster = Cluster(SystemClock())
    await cluster.start()
    try:
        await cluster.add_nodes(nodes, NodeShape(cpu="16", memory="64Gi"))
        for number in range(deployments):
            await cluster.client.create(_deployment(number, pods // deployments))
        await _until_all_run(cluster, pods)
        filling = time.process_time() - started
        # follow-up work of the last pods does not count as idling
        await asyncio.sleep(min(seconds, 10.0))
        busy, wall = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        share = (time.process_time() - busy) / (time.perf_counter() - wall)
        return Figures(nodes, pods, filling, share, _memory())
    finally:
        await cluster.stop()


async def _until_all_run(cluster: Cluster, pods: int) -> None:
    async with asyncio.timeout(_PATIENCE):
        while True:
            found = cluster.store.list("", "pods")
            if sum((pod.get("status") or {}).get("phase") == "Running" for pod in found) >= pods:
                return
            await asyncio.sleep(1.0)


def _memory() -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this machine does not say how much memory a process holds")


def _deployment(number: int, replicas: int) -> Json:
    labels = {"app": f"app-{number}"}
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"app-{number}", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _show(figures: Figures) -> None:
    table = Table("what", "figure", "promise")
    size = f"{figures.nodes:,} nodes and {figures.pods:,} pods"
    table.add_row(
        f"processor, {size}",
        f"{100 * figures.share:.1f} % of a core",
        f"less than {100 * LARGEST_SHARE:.0f} %",
    )
    table.add_row(
        "memory", f"{figures.memory / 10**6:,.0f} MB", f"less than {MOST_MEMORY / 10**6:.0f} MB"
    )
    table.add_row("processor until all pods run", f"{figures.filling_seconds:.1f} s", "")
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
