"""The workloads of the solver's benchmark; the same pods, pools and machines on every run.

``diverse`` re-creates the workload of Karpenter's own scheduling benchmark. The others cover what
it omits: a cluster that is in use, pods of which no two are alike, and sizes from a real cluster.
"""

import csv
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.catalogues import (
    EC2_FACTS,
    FACTS,
    NODE_CLASS_GROUP,
    NODE_CLASS_KIND,
    ZONES,
    cloud,
    ec2,
    ladder,
)

from karpenter.api.codec import convert
from karpenter.api.karpenter import NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.model import labels
from karpenter.scheduling.problem import PoolCatalogue, Problem
from karpenter.state.nodes import StateNode

Json = dict[str, Any]

TRACES: Final = Path(__file__).parents[2] / "shared" / "traces"
OPENB: Final = TRACES / "openb" / "openb_pod_list_default.csv"
EC2_CATALOGUE: Final = TRACES / "ec2-catalogue" / "ec2-us-east-1-linux-od-2026-07-20.json"

SEED: Final = 42
_LETTERS: Final = "abcdefg"
_CPUS: Final = (100, 250, 500, 1000, 1500)
_MEMORIES: Final = (100, 256, 512, 1024, 2048, 4096)
_HUGE: Final = {"cpu": "10000000", "memory": "10000000Gi"}
_CLASSES: Final = 250
_MACHINES: Final = 2_000
_PODS_ON_EACH: Final = 10


@dataclass(frozen=True, slots=True)
class Workload:
    """Something to solve, in any size."""

    letter: str
    title: str
    sizes: tuple[int, ...]  # in pods
    growth: tuple[int, int]  # the two sizes, one and eight times, that growth is computed from
    build: Callable[[int], Problem]
    needs: tuple[Path, ...] = ()

    @property
    def missing(self) -> tuple[Path, ...]:
        """The files the workload needs and does not find."""
        return tuple(path for path in self.needs if not path.is_file())


def diverse(count: int) -> Problem:
    """A fifth each: generic, spread over zones, over hosts, drawn together by zone, kept apart."""
    rng = random.Random(SEED)
    return _on_ladder([pod_of(n, *kind, *_size(rng)) for n, kind in enumerate(_fifths(count, rng))])


def busy_cluster(count: int) -> Problem:
    """Pods of 250 deployments for a cluster whose 2,000 machines run 20,000 pods already."""
    rng = random.Random(SEED)
    deployments = [deployment(number, rng) for number in range(_CLASSES)]
    return Problem(
        pods=[replica(deployments[n % _CLASSES], f"pending-{n}") for n in range(count)],
        nodes=[_machine(number, deployments, rng) for number in range(_MACHINES)],
        pools=(PoolCatalogue(pool_of("general", limits=_HUGE), cloud()),),
        facts=FACTS,
    )


def all_different(count: int) -> Problem:
    """The pods of ``diverse``, but each with a label and a size that no other has."""
    rng = random.Random(SEED)
    pods = []
    for number, (own, spec) in enumerate(_fifths(count, rng)):
        cpu, memory = _size(rng)
        pods.append(
            pod_of(number, dict(own) | {"app-id": f"id-{number}"}, spec, cpu, memory + number)
        )
    return _on_ladder(pods)


def openb(count: int) -> Problem:
    """Evenly chosen pods of the openb trace, by cpu and memory alone, against EC2's types."""
    with OPENB.open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = [rows[n * len(rows) // count] for n in range(count)]
    pods = [
        pod_of(n, {"app": "openb"}, {}, int(row["cpu_milli"]), int(row["memory_mib"]))
        for n, row in enumerate(chosen)
    ]
    wishes = (
        (ec2_labels.INSTANCE_CATEGORY, "In", ["c", "m", "r"]),
        (ec2_labels.INSTANCE_GENERATION, "Gt", ["2"]),
        (labels.ARCH, "In", ["amd64"]),
    )
    return Problem(
        pods=pods,
        nodes=(),
        pools=(PoolCatalogue(pool_of("general", wishes), ec2(EC2_CATALOGUE)),),
        facts=EC2_FACTS,
    )


WORKLOADS: Final = {
    workload.letter: workload
    for workload in (
        Workload(
            "a",
            "diverse pods, 400 types",
            (1, 10, 100, 500, 1_000, 1_500, 2_000, 2_500, 5_000, 10_000, 20_000),
            (2_500, 20_000),
            diverse,
        ),
        Workload(
            "b",
            "250 deployments, 800 types, 2,000 nodes with 20,000 pods",
            (2_500, 20_000),
            (2_500, 20_000),
            busy_cluster,
        ),
        Workload("c", "all pods different, 400 types", (625, 5_000), (625, 5_000), all_different),
        Workload(
            "d",
            "openb trace, EC2 types",
            (1_019, 8_152),
            (1_019, 8_152),
            openb,
            (OPENB, EC2_CATALOGUE),
        ),
    )
}


def _on_ladder(pods: list[Pod]) -> Problem:
    return Problem(pods, (), (PoolCatalogue(pool_of("default", limits=_HUGE), ladder(400)),), FACTS)


def _fifths(count: int, rng: random.Random) -> Iterable[tuple[Mapping[str, str], Json]]:
    """Labels and constraints of each pod."""
    fifth = count // 5
    for _ in range(count - 4 * fifth):
        yield _letter("my-label", rng), {}
    for key in (labels.ZONE, labels.HOSTNAME):
        for _ in range(fifth):
            own = _letter("my-label", rng)
            yield own, _spread(key, _letter("my-label", rng))
    for _ in range(fifth):
        own = _letter("my-affinity", rng)
        yield own, _affinity("podAffinity", labels.ZONE, own)
    for _ in range(fifth):
        own = {"app": "nginx"}
        yield own, _affinity("podAntiAffinity", labels.HOSTNAME, own)


def deployment(number: int, rng: random.Random) -> Json:
    """A pod template; every tenth kind of constraint comes up once in ten deployments."""
    own = {"app": f"service-{number}", "tier": rng.choice(_LETTERS)}
    zone = _spread(labels.ZONE, {"app": own["app"]})
    kinds: tuple[Json, ...] = (
        {},
        {},
        {},
        {},
        zone,
        zone,
        _spread(labels.HOSTNAME, {"app": own["app"]}, when="ScheduleAnyway"),
        {"nodeSelector": {labels.ARCH: "amd64", labels.CAPACITY_TYPE: labels.ON_DEMAND}},
        _affinity("podAffinity", labels.ZONE, {"app": own["app"]}),
        _affinity("podAntiAffinity", labels.HOSTNAME, {"app": own["app"]}),
    )
    cpu, memory = _size(rng)
    return _pod_dict("", own, kinds[number % len(kinds)], cpu, memory)


def _machine(number: int, deployments: list[Json], rng: random.Random) -> StateNode:
    name = f"node-{number:04}"
    cores = rng.choice((8, 12, 16))
    # a deployment has at most one pod on a machine, so that hosts can keep its pods apart
    running = rng.sample(range(_CLASSES), _PODS_ON_EACH)
    node = convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {
                    labels.HOSTNAME: name,
                    labels.ZONE: ZONES[number % len(ZONES)],
                    labels.CAPACITY_TYPE: rng.choice((labels.SPOT, labels.ON_DEMAND)),
                    labels.ARCH: "amd64",
                    labels.OS: "linux",
                    labels.NODEPOOL: "general",
                    labels.INSTANCE_TYPE: f"f0.{cores}x",
                },
            },
            "status": {
                "allocatable": {"cpu": f"{cores}", "memory": f"{4 * cores}Gi", "pods": "110"},
                "capacity": {"cpu": f"{cores}", "memory": f"{4 * cores}Gi", "pods": "110"},
            },
        }
    )
    assert isinstance(node, Node)
    pods = tuple(
        replica(deployments[which], f"running-{number}-{which}", node=name) for which in running
    )
    return StateNode(node=node, node_claim=None, pods=pods)


def replica(template: Json, name: str, node: str = "") -> Pod:
    """A pod made from a template, on a node if one is named."""
    metadata = template["metadata"] | {"name": name, "uid": f"uid-{name}"}
    spec = template["spec"] | ({"nodeName": node} if node else {})
    status = {"phase": "Running" if node else "Pending"}
    return _converted(template | {"metadata": metadata, "spec": spec, "status": status})


def pod_of(number: int, own: Mapping[str, str], constraints: Json, cpu: int, memory: int) -> Pod:
    """A pod with labels, further fields of its spec, milli cpu and Mi of memory."""
    return _converted(_pod_dict(f"pod-{number}", own, constraints, cpu, memory))


def _pod_dict(name: str, own: Mapping[str, str], constraints: Json, cpu: int, memory: int) -> Json:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": own},
        "spec": {
            "containers": [
                {"name": "main", "image": "example/app", "resources": {"requests": requests}}
            ],
            **constraints,
        },
    }


def _converted(manifest: Json) -> Pod:
    pod = convert(manifest)
    assert isinstance(pod, Pod)
    return pod


def pool_of(
    name: str,
    requirements: Iterable[tuple[str, str, list[str]]] = (),
    limits: Mapping[str, str] | None = None,
) -> NodePool:
    """A pool of the benchmark's node class."""
    reference = {"group": NODE_CLASS_GROUP, "kind": NODE_CLASS_KIND, "name": "default"}
    template = {
        "nodeClassRef": reference,
        "requirements": [
            {"key": key, "operator": operator, "values": values}
            for key, operator, values in requirements
        ],
    }
    pool = convert(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": {"spec": template}, "limits": limits or {}},
        }
    )
    assert isinstance(pool, NodePool)
    return pool


def _spread(key: str, selected: Mapping[str, str], when: str = "DoNotSchedule") -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": selected},
    }
    return {"topologySpreadConstraints": [constraint]}


def _affinity(kind: str, key: str, selected: Mapping[str, str]) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": selected}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _letter(key: str, rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(_LETTERS)}


def _size(rng: random.Random) -> tuple[int, int]:
    return rng.choice(_CPUS), rng.choice(_MEMORIES)
