"""What ``karpenter plan`` of a large dump takes, JSON and YAML, mostly for reading and checking it.

A dump is what ``kubectl get … -o json`` prints of a cluster: two in three objects are pods of
Deployments with a status, the others Nodes with their NodeClaims, Deployments and ReplicaSets. The
command runs as a person would run it, in a process of its own, so that two versions of the program can be
compared in one run: ``--beside SRC`` names the ``src`` folder of another checkout. Plain decoding of the
same text, by the libraries alone, tells how fast the machine is.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parent.parent
JSON_OBJECTS: Final = 62_000
YAML_OBJECTS: Final = 6_000
SMOKE_OBJECTS: Final = 300
_PODS_ON_A_NODE: Final = 30
_RUNS: Final = 3
_CREATED: Final = "2026-03-02T08:15:30Z"
# Shortly after _CREATED: a month later all nodes would have expired
_NOW: Final = "2026-03-02T09:00:00Z"
# ru_maxrss of a child includes the memory of its parent before exec; VmHWM does not
_PROGRAM: Final = """
import atexit, os, shutil
atexit.register(shutil.copyfile, "/proc/self/status", os.environ["PEAK"])
from karpenter.cli.app import main
main()
"""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of the command takes."""

    seconds: float  # of the processor
    megabytes: float  # of memory, at most


@dataclass(frozen=True, slots=True)
class Figures:
    """What one dump takes."""

    form: str
    objects: int
    megabytes: float
    plain_decoding: float  # seconds of the processor
    plan: Cost
    plan_beside: Cost | None


def main() -> int:
    parser = options("Measure plans of large dumps.", smoke=f"{SMOKE_OBJECTS} objects")
    parser.add_argument("--beside", metavar="SRC", help="the src folder of another checkout")
    arguments = parser.parse_args()
    sizes = {"json": JSON_OBJECTS, "yaml": YAML_OBJECTS}
    if arguments.smoke:
        sizes = dict.fromkeys(sizes, SMOKE_OBJECTS)
    with tempfile.TemporaryDirectory() as folder:
        figures = [
            _measured(Path(folder), form, count, arguments.beside) for form, count in sizes.items()
        ]
    if arguments.json:
        print(json.dumps([asdict(found) for found in figures], indent=2))
    else:
        _show(figures)
    return 0


def _measured(folder: Path, form: str, count: int, beside: str | None) -> Figures:
    file = folder / f"dump.{form}"
    listed = {"apiVersion": "v1", "kind": "List", "items": list(_objects(count))}
    text = json.dumps(listed, indent=4) if form == "json" else yaml.dump(listed, Dumper=_dumper())
    file.write_text(text, "utf-8")
    decode: Callable[[str], object] = json.loads
    if form == "yaml":
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        decode = lambda text: yaml.load(text, Loader=loader)  # noqa: E731 a safe loader
    before = time.process_time()
    decode(text)
    decoding = time.process_time() - before
    return Figures(
        form=form,
        objects=count,
        megabytes=len(text) / 1e6,
        plain_decoding=decoding,
        plan=_plan(file, ROOT / "src"),
        plan_beside=_plan(file, Path(beside)) if beside else None,
    )


def _dumper() -> Any:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    return Plain


def _plan(file: Path, source: Path) -> Cost:
    """The cheapest of some runs: others were only slowed down by a busy machine."""
    runs = [_run(file, source) for _ in range(_RUNS)]
    return Cost(min(run.seconds for run in runs), min(run.megabytes for run in runs))


def _run(file: Path, source: Path) -> Cost:
    peak = file.with_name("peak")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plan = ("plan", "--only", "provisioning", "-o", "json", "--now", _NOW, str(file))
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, *plan],
        env={**os.environ, "PYTHONPATH": str(source.resolve()), "PEAK": str(peak)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (line,) = [line for line in peak.read_text().splitlines() if line.startswith("VmHWM:")]
    return Cost(seconds, int(line.split()[1]) / 1000)


def _objects(count: int) -> Iterator[Json]:
    """A cluster of so many objects; everything follows from their numbers."""
    yield _node_pool()
    pods = count * 2 // 3
    nodes = max(1, pods // _PODS_ON_A_NODE)
    made = 1
    for number in range(nodes):
        yield _node(number)
        yield _claim(number)
        made += 2
    for number in range(pods):
        yield _pod(number, nodes)
        made += 1
    for number in range(max(0, count - made)):
        yield _deployment(number)


def _metadata(kind: str, number: int, **more: Any) -> Json:
    return {
        "name": f"{kind.lower()}-{number}",
        "uid": f"{kind}-{number}",
        "resourceVersion": str(number + 1),
        "creationTimestamp": _CREATED,
        "managedFields": [
            {
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}},
                "manager": "kube-controller-manager",
                "operation": "Update",
                "time": _CREATED,
            }
        ],
        **more,
    }


def _node_pool() -> Json:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }


def _labels(number: int) -> Json:
    return {
        "karpenter.sh/nodepool": "general",
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/hostname": f"node-{number}",
        "node.kubernetes.io/instance-type": "c-16x-amd64-linux",
        "topology.kubernetes.io/zone": f"test-zone-{'abc'[number % 3]}",
    }


def _node(number: int) -> Json:
    amounts = {"cpu": "16", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _CREATED}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata("Node", number, labels=_labels(number)),
        "spec": {"providerID": f"kwok://node-{number}"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _claim(number: int) -> Json:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    kinds = ("Launched", "Registered", "Initialized", "Ready")
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": _metadata("NodeClaim", number, labels=_labels(number)),
        "spec": {"nodeClassRef": reference, "requirements": []},
        "status": {
            "nodeName": f"node-{number}",
            "providerID": f"kwok://node-{number}",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": kind,
                    "message": "",
                    "lastTransitionTime": _CREATED,
                }
                for kind in kinds
            ],
        },
    }


def _pod(number: int, nodes: int) -> Json:
    app = f"app-{number % 400}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": app,
        "uid": app,
        "controller": True,
    }
    waiting = number % 50 == 0
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "env": [{"name": f"KEY_{each}", "value": str(each)} for each in range(5)],
            }
        ],
        **({} if waiting else {"nodeName": f"node-{number % nodes}"}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(
            "Pod", number, namespace="default", labels={"app": app}, ownerReferences=[owner]
        ),
        "spec": spec,
        "status": {"phase": "Pending" if waiting else "Running"},
    }


def _deployment(number: int) -> Json:
    labels = {"app": f"web-{number}"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata("Deployment", number, namespace="default"),
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def _show(figures: list[Figures]) -> None:
    table = Table(title="karpenter plan of a dump: seconds of the processor, and peak memory")
    for column in ("form", "objects", "MB", "plain decoding", "plan", "beside"):
        table.add_column(column, justify="right")
    for found in figures:
        table.add_row(
            found.form,
            f"{found.objects:,}",
            f"{found.megabytes:.0f}",
            f"{found.plain_decoding:.2f} s",
            _shown(found.plan),
            "" if found.plan_beside is None else _shown(found.plan_beside),
        )
    Console().print(table)


def _shown(cost: Cost) -> str:
    return f"{cost.seconds:.2f} s, {cost.megabytes:.0f} MB"


if __name__ == "__main__":
    raise SystemExit(main())
