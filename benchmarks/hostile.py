"""What one pod that was made to do harm costs everybody else.

    python -m benchmarks hostile                    every kind of harm, a few minutes
    python -m benchmarks hostile --only spreads     some of them
    python -m benchmarks hostile --smoke            tiny sizes: that everything still runs
    python -m benchmarks hostile --json             figures for programs

Ordinary pods of 250 deployments wait beside machines that are in use, and one pass is made for
them: once by themselves, once with a pod that lists thousands of something, once more by
themselves, and so on. The figures are how many times as long the pass takes with that pod in it,
from the best of several rounds that take turns in one process, by the clock of the process, since
others keep the machine busy; and the peak of memory, which is why every kind runs in a process of
its own.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from benchmarks.catalogues import FACTS
from benchmarks.measuring import ROOT, peak_memory, positive
from benchmarks.options import options
from benchmarks.workloads import busy_cluster
from rich.console import Console
from rich.table import Table

from karpenter.api.codec import convert
from karpenter.api.meta import Condition
from karpenter.api.pods import Pod, PodStatus
from karpenter.api.policy import PodDisruptionBudget
from karpenter.model import labels
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.provisioning import PassSettings, ProvisioningPlan, plan_provisioning
from karpenter.state.snapshot import Snapshot

Json = dict[str, Any]

ENTRIES: Final = 6_000  # limited by the largest object an API server accepts
ORDINARY: Final = 500
NAMESPACES: Final = 500  # fewer: users who may create pods rarely may create namespaces
# The promise is at most twice the wait for a node; a pass is the only part that gets slower
MOST_SECONDS_MORE: Final = 1.0
MOST_MEMORY_MORE: Final = 100_000_000  # bytes
_ROUNDS: Final = 3
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds of the processor and bytes."""

    harm: str
    entries: int
    ordinary_seconds: float  # a pass for the ordinary pods by themselves
    seconds: float  # the same with the hostile pod
    claims: int  # for ordinary pods
    served: bool  # whether every ordinary pod has a place
    memory: int  # peak, before the hostile pod came
    memory_more: int  # by how much it rose then

    @property
    def ratio(self) -> float:
        """How many times as long the pass takes."""
        return self.seconds / self.ordinary_seconds

    @property
    def is_enough(self) -> bool:
        """Whether ordinary pods hardly notice."""
        more = self.seconds - self.ordinary_seconds
        return self.served and more < MOST_SECONDS_MORE and self.memory_more < MOST_MEMORY_MORE


def _selector(number: int) -> Json:
    """A selector that matches every pod, and equals no other, so that none can be interned."""
    expression = {"key": "nobody-has-this", "operator": "NotIn", "values": [f"v{number}"]}
    return {"matchExpressions": [expression]}


def _term(number: int, key: str = "") -> Json:
    return {"topologyKey": key or f"example.com/k{number}", "labelSelector": _selector(number)}


def _spread(number: int, when: str, key: str = "") -> Json:
    return _term(number, key) | {"maxSkew": 1, "whenUnsatisfiable": when}


def _node_term(number: int) -> Json:
    expression = {"key": f"example.com/k{number}", "operator": "In", "values": ["v"]}
    return {"matchExpressions": [expression]}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(kind: str, how: str, terms: list[Any]) -> Json:
    return {"affinity": {kind: {how: terms}}}


def _weighted(kind: str, terms: list[Json]) -> Json:
    weighted = [{"weight": 1 + n % 100, "podAffinityTerm": t} for n, t in enumerate(terms)]
    return _affinity(kind, _PREFERRED, weighted)


def _alternatives(count: int) -> Json:
    terms = {"nodeSelectorTerms": [_node_term(n) for n in range(count)]}
    return {"affinity": {"nodeAffinity": {_REQUIRED: terms}}}


def _preferring_nodes(count: int) -> Json:
    weighted = [{"weight": 1 + n % 100, "preference": _node_term(n)} for n in range(count)]
    return _affinity("nodeAffinity", _PREFERRED, weighted)


def _containers(count: int, ports: bool = False) -> list[Json]:
    return [
        {
            "name": f"c{n}",
            "resources": {"requests": {"cpu": "1n"}},
            "ports": [{"containerPort": 1 + n, "hostPort": 1 + n}] if ports else [],
        }
        for n in range(count)
    ]


def _values(count: int) -> Json:
    expression = {
        "key": labels.INSTANCE_TYPE,
        "operator": "NotIn",
        "values": [f"v{n}" for n in range(count)],
    }
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {_REQUIRED: term}}}


def _both(count: int) -> Json:
    """Node affinity alternatives with preferences: relaxation tries each with every preference."""
    node = _alternatives(count // 2)["affinity"]
    apart = _weighted("podAntiAffinity", [_term(n, labels.HOSTNAME) for n in range(count // 2)])
    return {"affinity": node | apart["affinity"]}


# harm -> the part of a pod's spec that causes it, with so many entries
HARMS: Final[dict[str, Callable[[int], Json]]] = {
    "spreads": lambda n: {
        "topologySpreadConstraints": [_spread(i, "ScheduleAnyway") for i in range(n)]
    },
    "spreads-zone": lambda n: {
        "topologySpreadConstraints": [_spread(i, "ScheduleAnyway", labels.ZONE) for i in range(n)]
    },
    "prefers-pods": lambda n: _weighted("podAffinity", [_term(i) for i in range(n)]),
    "prefers-pods-zone": lambda n: _weighted(
        "podAffinity", [_term(i, labels.ZONE) for i in range(n)]
    ),
    "prefers-apart": lambda n: _weighted("podAntiAffinity", [_term(i) for i in range(n)]),
    "prefers-apart-host": lambda n: _weighted(
        "podAntiAffinity", [_term(i, labels.HOSTNAME) for i in range(n)]
    ),
    "prefers-nodes": _preferring_nodes,
    "alternatives": _alternatives,
    "alternatives-wishes": _both,
    "needs-spreads": lambda n: {
        "topologySpreadConstraints": [_spread(i, "DoNotSchedule", labels.ZONE) for i in range(n)]
    },
    "needs-pods": lambda n: _affinity(
        "podAffinity", _REQUIRED, [_term(i, labels.ZONE) for i in range(n)]
    ),
    "needs-apart": lambda n: _affinity(
        "podAntiAffinity", _REQUIRED, [_term(i, labels.HOSTNAME) for i in range(n)]
    ),
    "tolerations": lambda n: {
        "tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]
    },
    "node-selector": lambda n: {"nodeSelector": {f"example.com/k{i}": "v" for i in range(n)}},
    "values": _values,
    "containers": lambda n: {"containers": _containers(n)},
    "init-containers": lambda n: {"initContainers": _containers(n)},
    "host-ports": lambda n: {"containers": _containers(n, ports=True)},
    "volumes": lambda n: {"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(n)]},
    "claims": lambda n: {
        "volumes": [
            {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(n)
        ]
    },
    # each with a namespace selector of its own
    "namespaces": lambda n: _weighted(
        "podAffinity",
        [_term(i, labels.ZONE) | {"namespaceSelector": _selector(i)} for i in range(n)],
    ),
    "needs-namespaces": lambda n: _affinity(
        "podAntiAffinity",
        _REQUIRED,
        [_term(i, labels.ZONE) | {"namespaceSelector": _selector(i)} for i in range(n)],
    ),
    "nothing": lambda n: {},
    "classes": lambda n: {},
    "budgets": lambda n: {},
}


def main() -> int:
    """Measure and report; the exit code says whether the promises are kept."""
    parser = options("Measure what one hostile pod costs others.", smoke="few entries")
    parser.add_argument("--only", default="", help="which kinds of harm, all of them if none")
    parser.add_argument("--entries", type=positive, default=ENTRIES)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name] or list(HARMS)
    unknown = [name for name in wanted if name not in HARMS]
    if unknown:
        raise SystemExit(f"there is no harm {', '.join(unknown)}; choose among {', '.join(HARMS)}")
    if arguments.here:
        print(json.dumps(asdict(_measured(wanted[0], arguments.entries, arguments.smoke))))
        return 0
    entries = 20 if arguments.smoke else arguments.entries
    figures = [_in_a_child(name, entries, is_smoke=arguments.smoke) for name in wanted]
    if arguments.json:
        print(json.dumps([asdict(f) | {"ratio": f.ratio} for f in figures], indent=2))
    else:
        _show(figures)
    return 0 if arguments.smoke or all(found.is_enough for found in figures) else 1


def _in_a_child(name: str, entries: int, *, is_smoke: bool) -> Figures:
    command = [sys.executable, "-m", "benchmarks.hostile", "--here", "--only", name]
    command += ["--entries", str(entries), *(["--smoke"] if is_smoke else [])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"harm {name} with {entries} entries failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout))


def _measured(name: str, entries: int, is_smoke: bool) -> Figures:
    problem = busy_cluster(50 if is_smoke else ORDINARY)
    (pool,) = problem.pools
    ready = Condition(type="Ready", status="True")
    node_pool = msgspec.structs.replace(
        pool.node_pool, status=msgspec.structs.replace(pool.node_pool.status, conditions=(ready,))
    )
    ordinary = {_key(pod): _waiting(pod) for pod in problem.pods}
    compilers = Compiler(), Compiler()

    def planned(hostile: bool) -> tuple[float, ProvisioningPlan]:
        pods = ordinary | (harmful if hostile else {})
        snapshot = Snapshot(
            nodes=tuple(problem.nodes),
            pods=pods,
            unbound_pods=pods,
            node_pools={"general": node_pool},
            pdbs=budgets if hostile else {},
            **(around if hostile else {}),
        )
        gc.collect()
        began = time.process_time()
        outcome = plan_provisioning(
            snapshot,
            lambda _: pool.instance_types,
            FACTS,
            PassSettings(),
            now=_NOW,
            compiler=compilers[hostile],
        )
        return time.process_time() - began, outcome

    harmful: dict[str, Pod] = {}
    budgets: dict[str, PodDisruptionBudget] = {}
    around: dict[str, Any] = {}
    planned(False)
    planned(True)
    before = peak_memory()
    harmful.update(_harmful(name, entries))
    if name == "budgets":
        budgets.update(_budgets(entries))
    around.update(_around(name, entries))
    rounds = [(planned(False), planned(True)) for _ in range(1 if is_smoke else _ROUNDS)]
    plan = rounds[-1][1][1].plan
    placed = {pod for claim in plan.claims for pod in claim.pods}
    placed |= {pod for pods in plan.existing.values() for pod in pods}
    return Figures(
        harm=name,
        entries=entries,
        ordinary_seconds=min(alone[0] for alone, _ in rounds),
        seconds=min(beside[0] for _, beside in rounds),
        claims=len(plan.claims),
        served=placed >= ordinary.keys(),
        memory=before,
        memory_more=peak_memory() - before,
    )


def _harmful(name: str, entries: int) -> dict[str, Pod]:
    count = entries if name == "classes" else 1
    spec = {"containers": _containers(1)} | HARMS[name](entries)
    found = {}
    for number in range(count):
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"harm-{number}",
                "namespace": "default",
                "uid": f"uid-harm-{number}",
                "labels": {"app": "harm", "number": str(number)},
            },
            "spec": spec,
        }
        pod = convert(manifest)
        assert isinstance(pod, Pod)
        found[_key(pod)] = _waiting(pod)
    return found


def _budgets(entries: int) -> dict[str, PodDisruptionBudget]:
    found = {}
    for number in range(entries):
        manifest = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"b{number}", "namespace": "default"},
            "spec": {"selector": {}, "maxUnavailable": 1},
        }
        budget = convert(manifest)
        assert isinstance(budget, PodDisruptionBudget)
        found[f"default/b{number}"] = budget
    return found


def _around(name: str, entries: int) -> Json:
    """The objects that the pod refers to: namespaces to select, or its claims."""
    if name in ("namespaces", "needs-namespaces"):
        names = [f"n{number}" for number in range(min(entries, NAMESPACES))]
        return {"namespaces": {name: convert(_object("v1", "Namespace", name)) for name in names}}
    if name != "claims":
        return {}
    late = _object("storage.k8s.io/v1", "StorageClass", "late") | {
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claims = {}
    for name in (f"c{number}" for number in range(entries)):
        claim = _object("v1", "PersistentVolumeClaim", name, namespace="default")
        claims[f"default/{name}"] = convert(claim | {"spec": {"storageClassName": "late"}})
    return {"pvcs": claims, "storage_classes": {"late": convert(late)}}


def _object(api_version: str, kind: str, name: str, **metadata: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def _waiting(pod: Pod) -> Pod:
    refused = Condition(type="PodScheduled", status="False", reason="Unschedulable")
    return msgspec.structs.replace(pod, status=PodStatus(phase="Pending", conditions=(refused,)))


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _show(figures: list[Figures]) -> None:
    table = Table(title=f"{ORDINARY} ordinary pods beside one hostile pod", title_justify="left")
    for heading in ("harm", "entries", "without it", "with it", "ratio", "memory", "more"):
        table.add_column(heading, justify="left" if heading == "harm" else "right")
    table.add_column("")
    for found in figures:
        table.add_row(
            found.harm,
            f"{found.entries:,}",
            f"{found.ordinary_seconds * 1e3:,.0f} ms",
            f"{found.seconds * 1e3:,.0f} ms",
            f"{found.ratio:.2f}x",
            f"{found.memory / 1e6:,.0f} MB",
            f"{found.memory_more / 1e6:,.1f} MB",
            "" if found.is_enough else "[red]too much[/red]",
        )
    Console(width=None if Console().is_terminal else 120).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
