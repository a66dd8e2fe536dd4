"""The loads on which packing by price is measured: pods, machines that are for sale, and daemons.

Loads of real pods need the traces, which are looked for beside the project; the others are made. The
machines are EC2's types of the categories c, m and r from generation 5 on, amd64, at on-demand prices; without
that file they are made. Spot prices are made too: 35 to 75 % below on-demand, by type and zone. Loads
that are mixed pin a fifth of the pods to on-demand. Daemons take 250m, 400Mi and four pods of every node.

``azure`` maps requests to a language model to pods, one for each of the first 4,000 of the trace: memory holds what is
asked (256Mi, and as much more for each 512 tokens of context), cpu produces what is answered (250m, and as
much more for each 32 generated tokens, up to 4). That is our mapping, so figures of others on this trace
do not compare.
"""

import csv
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.catalogues import EC2_FACTS, cloud, ec2
from benchmarks.workloads import EC2_CATALOGUE, OPENB, SEED, TRACES, pod_of, pool_of

from karpenter.api.codec import convert
from karpenter.api.node_classes import ec2_labels
from karpenter.api.pods import Pod
from karpenter.api.workloads import DaemonSet
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.inputs.daemons import daemons_of
from karpenter.scheduling.problem import PoolCatalogue, Problem

AZURE: Final = TRACES / "azure-llm" / "AzureLLMInferenceTrace_code.csv"
CPU_PODS: Final = OPENB.with_name("openb_pod_list_cpu250.csv")
POOL: Final = "general"
DAEMONS: Final = ((100, 160), (50, 80), (50, 80), (50, 80))  # milli cpu and Mi

_CPUS: Final = (100, 250, 500, 1000, 1500)
_MEMORIES: Final = (100, 256, 512, 1024, 2048, 4096)
_PINNED: Final = 0.2  # of the pods of a mixed load
_SPREAD_OVER: Final = (labels.ZONE, labels.HOSTNAME)
_APPS: Final = 12  # that spread pods belong to


@dataclass(frozen=True, slots=True)
class Load:
    """Pods to be packed, and how their machines are sold."""

    name: str
    shapes: Callable[[int | None], list[tuple[int, int]]]  # cpu in milli, memory in Mi
    target: float = 0.0  # gap in percent at a budget of 1 s
    target_of_ten: float = 0.0  # the same at 10 s
    most_cpu: int = 0  # of a machine; 0 is any
    is_spot: bool = False
    is_mixed: bool = False
    spread: float = 0.0  # part of the pods that spread over zones or hosts
    trace: Path | None = None

    def problem(self, most: int | None = None, limits: dict[str, str] | None = None) -> Problem:
        """The load as a problem, of so many pods at most."""
        rng = random.Random(SEED)
        pods: list[Pod] = []
        for number, (cpu, memory) in enumerate(self.shapes(most)):
            spec: dict[str, Any] = {}
            if self.is_mixed and rng.random() < _PINNED:
                spec["nodeSelector"] = {labels.CAPACITY_TYPE: labels.ON_DEMAND}
            app = {"app": "load"}
            if self.spread and rng.random() < self.spread:
                app = {"app": f"spread-{number % _APPS}"}
                spec["topologySpreadConstraints"] = [_spread(number, app)]
            pods.append(pod_of(number, app, spec, cpu, memory))
        types = catalogue(with_spot=self.is_spot or self.is_mixed, most_cpu=self.most_cpu)
        pool = PoolCatalogue(pool_of(POOL, limits=limits), types)
        daemons = daemons_of(daemon_sets(), (), ignore_device_claims=True)
        return Problem(pods, (), (pool,), EC2_FACTS, daemons=daemons)

    @property
    def missing(self) -> str:
        """The files that it needs and that are not there."""
        needed = (self.trace, EC2_CATALOGUE) if self.trace is not None else ()
        return " and ".join(str(path) for path in needed if not path.is_file())


def _spread(number: int, app: dict[str, str]) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": _SPREAD_OVER[number % _APPS % len(_SPREAD_OVER)],
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": app},
    }


def daemon_sets(amounts: Iterable[tuple[int, int]] = DAEMONS) -> list[DaemonSet]:
    """A DaemonSet for every node, for each pair of milli cpu and Mi of memory."""
    found = []
    for number, (cpu, memory) in enumerate(amounts):
        labelled = {"app": f"daemon-{number}"}
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        container = {"name": "main", "image": "example/daemon", "resources": {"requests": requests}}
        made = convert(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": f"daemon-{number}", "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": labelled},
                    "template": {
                        "metadata": {"labels": labelled},
                        "spec": {"containers": [container]},
                    },
                },
            }
        )
        assert isinstance(made, DaemonSet)
        found.append(made)
    return found


def catalogue(*, with_spot: bool, most_cpu: int) -> tuple[InstanceType, ...]:
    """The machines that are for sale."""
    if EC2_CATALOGUE.is_file():
        every = [kind for kind in ec2(EC2_CATALOGUE) if _is_general(kind)]
    else:
        every = [kind.with_offerings(_on_demand(kind)) for kind in cloud()]
    small = [kind for kind in every if not most_cpu or kind.capacity.cpu <= 1000 * most_cpu]
    return tuple(kind.with_offerings(_ways(kind)) for kind in small) if with_spot else tuple(small)


def _is_general(kind: InstanceType) -> bool:
    held = kind.requirements
    return (
        held[ec2_labels.INSTANCE_CATEGORY].any() in ("c", "m", "r")
        and int(held[ec2_labels.INSTANCE_GENERATION].any()) >= 5
        and held[labels.ARCH].has("amd64")
    )


def _on_demand(kind: InstanceType) -> tuple[Offering, ...]:
    return tuple(each for each in kind.offerings if each.capacity_type == labels.ON_DEMAND)


def _ways(kind: InstanceType) -> tuple[Offering, ...]:
    """On-demand as it is, and spot at a price of its own in each zone."""
    rng = random.Random(kind.name)
    spot = [
        Offering(
            Requirements(
                Requirement(key, False, frozenset((value,)))
                for key, value in ((labels.ZONE, each.zone), (labels.CAPACITY_TYPE, labels.SPOT))
            ),
            each.price * (1 - rng.uniform(0.35, 0.75)),
        )
        for each in kind.offerings
    ]
    return (*kind.offerings, *spot)


def bench(most: int | None) -> list[tuple[int, int]]:
    """Small pods of Karpenter's own benchmark: every pair of a few amounts of cpu and memory."""
    rng = random.Random(SEED)
    return [(rng.choice(_CPUS), rng.choice(_MEMORIES)) for _ in range(most or 5000)]


def _rows(path: Path) -> Iterable[dict[str, str]]:
    with path.open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def _azure(most: int | None) -> list[tuple[int, int]]:
    found = []
    for row in list(_rows(AZURE))[: most or 4000]:
        asked, answered = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        found.append((250 * (1 + min(answered, 511) // 32), 256 * (1 + asked // 512)))
    return found


def openb_cpu(most: int | None) -> list[tuple[int, int]]:
    """The pods without GPU of a production cluster; large, of few sizes."""
    rows = [row for row in _rows(CPU_PODS) if not int(row["num_gpu"])]
    return [(int(row["cpu_milli"]), int(row["memory_mib"])) for row in rows][:most]


def _openb_all(most: int | None) -> list[tuple[int, int]]:
    return [(int(row["cpu_milli"]), int(row["memory_mib"])) for row in _rows(OPENB)][:most]


LOADS: Final = (
    Load("bench", bench, 1.5, 1.0),
    Load("bench, 32 cpu at most", bench, 1.0, 0.6, most_cpu=32),
    Load("bench on spot", bench, 2.0, 1.5, is_spot=True),
    Load("bench mixed", bench, 3.0, 2.0, is_mixed=True),
    Load("azure", _azure, 3.0, 2.0, trace=AZURE),
    Load("azure, 32 cpu at most", _azure, 5.0, 2.0, most_cpu=32, trace=AZURE),
    Load("azure on spot", _azure, 6.0, 3.0, is_spot=True, trace=AZURE),
    Load("openb-cpu", openb_cpu, 1.5, 1.2, trace=CPU_PODS),
    Load("openb-cpu, 48 cpu at most", openb_cpu, 0.1, 0.1, most_cpu=48, trace=CPU_PODS),
    Load("openb-cpu on spot", openb_cpu, 4.5, 0.2, is_spot=True, trace=CPU_PODS),
    Load("openb-cpu mixed", openb_cpu, 4.0, 1.5, is_mixed=True, trace=CPU_PODS),
    Load("openb-all", _openb_all, 5.0, 2.5, trace=OPENB),
    Load("openb-all on spot", _openb_all, 9.0, 8.0, is_spot=True, trace=OPENB),
)
