"""What Karpenter's own scheduler, from its published module, buys for a load of ``cheapest``.

The program that answers is the one of the parity tests, built once into the user's cache. A claim of
its answer counts at the cheapest of the offerings that it may still be launched as. Seconds are those of
the processor for the whole program, reading the question included.
"""

import json
import resource
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.cheapest_loads import DAEMONS, POOL
from benchmarks.measuring import ROOT
from benchmarks.workloads import SEED

from karpenter.api.codec import encode
from karpenter.cloud.types import InstanceType
from karpenter.model.resources import Resources
from karpenter.scheduling.problem import Problem as Asked

sys.path.insert(0, str(ROOT / "tests"))  # the peer is a helper of the parity tests
from parity import around
from parity.parts import Parts
from parity.peer import Peer, built, obstacle
from parity.problems import Problem

__all__ = ["PeerFigures", "asked", "obstacle"]


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """What Karpenter's scheduler buys."""

    hourly: float
    nodes: int
    left_out: int  # pods without a place, or not tried within the minute that it takes at most
    seconds: float  # of the processor


def asked(problem: Asked) -> PeerFigures:
    """Ask Karpenter's scheduler for a plan for the same pods and types."""
    (catalogue,) = problem.pools
    types = catalogue.instance_types
    question = Problem("benchmark", 0)
    make = Parts(str(SEED))
    question.objects = [around.namespace("default", {"kind": "apps"}), make.pool(POOL)]
    for number, (cpu, memory) in enumerate(DAEMONS):
        made = make.daemon_set(f"ds{number}")
        container = made["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}
        question.objects.append(made)
    for pod in problem.pods:
        plain = json.loads(encode(pod))
        spec = plain["spec"]
        requests = spec.pop("containers")[0]["resources"]["requests"]
        question.objects.append(
            make.pod(
                pod.metadata.name,
                cpu=requests["cpu"],
                memory=requests["memory"],
                labels=dict(pod.metadata.labels),
                **spec,
            )
        )
    question.instance_types = {"": [_told(each) for each in types]}
    built()  # takes minutes the first time
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Peer() as peer:
        (answer,) = peer.answers(question)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    by_name = {each.name: each for each in types}
    return PeerFigures(
        hourly=sum(_price(claim, by_name) for claim in answer["claims"]),
        nodes=len(answer["claims"]),
        left_out=len(problem.pods) - sum(len(claim["pods"]) for claim in answer["claims"]),
        seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def _price(claim: dict[str, Any], types: dict[str, InstanceType]) -> float:
    zones, ways = set(claim["zones"]), set(claim["ways"])
    return min(
        offering.price
        for name in claim["types"]
        for offering in types[name].offerings
        if offering.zone in zones and offering.capacity_type in ways
    )


def _told(kind: InstanceType) -> dict[str, Any]:
    own = {"node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"}
    own.add("karpenter.sh/capacity-type")
    return {
        "name": kind.name,
        "labels": {r.key: sorted(r.values) for r in kind.requirements if r.key not in own},
        "capacity": _quantities(kind.capacity),
        "overhead": _quantities(kind.overhead),
        "volumeLimits": {},
        "offerings": [
            {
                "zone": each.zone,
                "capacityType": each.capacity_type,
                "price": each.price,
                "available": each.available,
                "reservation": "",
                "left": 0,
            }
            for each in kind.offerings
        ],
    }


def _quantities(amounts: Resources) -> dict[str, str]:
    return amounts.to_wire()
