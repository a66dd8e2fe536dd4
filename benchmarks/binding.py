"""How many pods a second the sandbox's scheduler binds.

A cluster of equal nodes in three zones gets pods of a few workloads, which arrive in turns: the
worst order for a scheduler that caches results per class of pods. Each workload
has a Service, so its pods are spread by default, as most pods in real clusters are. Counted is
everything from the scheduler's first look to the last binding: reading, deciding, writing through
the API, and the ``Scheduled`` events. The kubelets do not run. The gc thresholds are those of
``karpenter sandbox``.

Seconds are those of the processor, so that a busy machine does not distort them much.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.clock import Clock, run_virtual, running_clock
from karpenter.operator.gc_thresholds import collect_rarely
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.runtime.runtime import Runtime
from karpenter_sandbox.scheduling.scheduler import Scheduler
from karpenter_sandbox.store.store import Store

Json = dict[str, Any]

TARGET = 1000.0  # pods a second
PODS = 5000
PLAIN, SPREAD, APART, TOGETHER = "plain", "spread over zones", "apart by host", "near by zone"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster and the pods that it gets."""

    nodes: int
    workloads: int
    wish: str = PLAIN


CASES = (
    Case(100, 1),
    Case(100, 20),
    Case(1000, 1),
    Case(1000, 20),
    Case(1000, 20, SPREAD),
    Case(1000, 20, APART),
    Case(1000, 20, TOGETHER),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    nodes: int
    workloads: int
    wish: str
    pods: int
    seconds: float
    fullest: int  # pods on the fullest node

    @property
    def pods_per_second(self) -> float:
        """How many pods a second was good for."""
        return self.pods / self.seconds


def main() -> int:
    parser = options("Measure the sandbox's scheduler.", smoke="few pods and nodes")
    parser.add_argument("--pods", type=int, default=PODS)
    arguments = parser.parse_args()
    cases = [Case(20, 2, wish) for wish in _WISHES] if arguments.smoke else CASES
    pods = 20 if arguments.smoke else arguments.pods
    collect_rarely()
    figures = [run_virtual(_measure(case, pods)) for case in cases]
    if arguments.json:
        print(json.dumps([asdict(found) for found in figures], indent=2))
    else:
        _show(figures)
    if arguments.smoke:
        return 0
    return 0 if all(found.pods_per_second >= TARGET for found in figures) else 1


async def _measure(case: Case, pods: int) -> Figures:
    clock = running_clock()
    client = Client(Backend(Store(), Registry(), clock, Identity(1)))
    await _fill(client, case, pods)
    runtime = Runtime(client, clock, is_strict=True)
    runtime.add(Scheduler(runtime, client))
    start = time.process_time()
    task = asyncio.create_task(runtime.run())
    await _until_bound(client, clock)
    seconds = time.process_time() - start
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    placed, _ = await client.list("v1", "pods")
    counts = Counter(pod["spec"]["nodeName"] for pod in placed)
    return Figures(
        case.nodes, case.workloads, case.wish, len(placed), seconds, max(counts.values())
    )


async def _until_bound(client: Client, clock: Clock) -> None:
    # virtual time advances only when no task has work left
    await clock.sleep(1)
    pods, _ = await client.list("v1", "pods", field_selector="spec.nodeName=")
    assert not pods, f"{len(pods)} pods were not bound"


async def _fill(client: Client, case: Case, pods: int) -> None:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    for number in range(case.workloads):
        await client.create(_service(number))
    for number in range(case.nodes):
        created = await client.create(_node(number))
        name = created["metadata"]["name"]
        # removes the not-ready taint, as no lifecycle controller runs here
        await client.patch("merge", "v1", "nodes", None, name, {"spec": {"taints": None}})
    for number in range(pods):
        await client.create(_pod(number, number % case.workloads, case.wish))


def _service(number: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"app-{number}", "namespace": "default"},
        "spec": {"selector": {"app": f"app-{number}"}, "ports": [{"port": 80}]},
    }


def _node(number: int) -> Json:
    name = f"node-{number}"
    labels = {_HOST: name, _ZONE: f"z{number % 3}"}
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _spread(selector: Json) -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": _ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return {"topologySpreadConstraints": [constraint]}


def _apart(selector: Json) -> Json:
    terms = [{"topologyKey": _HOST, "labelSelector": selector}]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAntiAffinity": rule}}


def _together(selector: Json) -> Json:
    terms = [{"topologyKey": _ZONE, "labelSelector": selector}]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAffinity": rule}}


_WISHES: dict[str, Callable[[Json], Json]] = {
    PLAIN: lambda selector: {},
    SPREAD: _spread,
    APART: _apart,
    TOGETHER: _together,
}


def _pod(number: int, workload: int, wish: str) -> Json:
    labels = {"app": f"app-{workload}"}
    requests = {"cpu": f"{100 + workload}m", "memory": "128Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "labels": labels,
        },
        "spec": {
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
            **_WISHES[wish]({"matchLabels": labels}),
        },
    }


def _show(figures: list[Figures]) -> None:
    table = Table(
        "nodes", "workloads", "pods that are", "pods", "seconds", "pods/s", "on the fullest node"
    )
    for found in figures:
        table.add_row(
            f"{found.nodes:,}",
            str(found.workloads),
            found.wish,
            f"{found.pods:,}",
            f"{found.seconds:.2f}",
            f"{found.pods_per_second:,.0f}",
            str(found.fullest),
        )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
