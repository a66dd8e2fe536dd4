"""Several passes: what the passes before have planned is on its way or up, and more pods come."""

from copy import deepcopy
from typing import Final

from parity import provisioning
from parity.deciding import decide
from parity.parts import Parts
from parity.problems import Json, Problem

# Mixes whose claims can be carried out from what is compared of a decision alone
_FIRST: Final = (
    provisioning.plain,
    provisioning.taints,
    provisioning.resources,
    provisioning.spread,
    provisioning.pod_affinity,
    provisioning.default_spread,
)
_STAGES: Final = ("initialized", "initialized", "registered", "launched")


def several_passes(make: Parts, problem: Problem) -> None:
    """The pass after one or two others, whose decisions were carried out in part."""
    make.one(_FIRST)(make, problem)
    for number in range(make.one((1, 1, 2))):
        decision = decide(problem)
        _bind(problem, decision["existing"])
        for position, claim in enumerate(decision["claims"]):
            _launch(make, problem, claim, f"m{number}-{position}")
        patterns = [
            each for each in problem.of_kind("Pod") if "ownerReferences" in each["metadata"]
        ]
        problem.objects += [
            _another(make, make.one(patterns)) for _ in range(make.random.randint(1, 5))
        ]


def _launch(make: Parts, problem: Problem, claim: Json, name: str) -> None:
    """Let a planned claim become a machine, as the cheapest that it could be launched as."""
    ways = [
        (way["price"], kind["name"], way["zone"], position, kind, way)
        for kind in problem.instance_types[""]
        if kind["name"] in claim["types"]
        for position, way in enumerate(kind["offerings"])
        if way["available"]
        and way["zone"] in claim["zones"]
        and way["capacityType"] in claim["ways"]
    ]
    *_, kind, way = min(ways, key=lambda each: each[:4])
    pool = next(
        each for each in problem.of_kind("NodePool") if each["metadata"]["name"] == claim["pool"]
    )
    stage = make.one(_STAGES)
    problem.objects += make.machine(name, pool, kind, offering=way, stage=stage)
    if stage == "initialized":
        _bind(problem, {name: claim["pods"]})


def _bind(problem: Problem, placed: dict[str, list[str]]) -> None:
    """Let pods run where they were placed, on nodes that are there."""
    nodes = {
        each["metadata"]["name"]
        for each in problem.of_kind("Node")
        if each["metadata"]["labels"].get("karpenter.sh/initialized", "true") == "true"
    }
    homes = {pod: node for node, pods in placed.items() if node in nodes for pod in pods}
    for pod in problem.of_kind("Pod"):
        metadata = pod["metadata"]
        home = homes.get(f"{metadata['namespace']}/{metadata['name']}")
        if home is not None:
            pod["spec"]["nodeName"] = home
            since = metadata["creationTimestamp"]
            pod["status"] = {
                "phase": "Running",
                "startTime": since,
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": since}
                    for kind in ("PodScheduled", "Ready")
                ],
            }


def _another(make: Parts, pattern: Json) -> Json:
    """A pod like another one, which waits."""
    made = make.pod()
    spec = deepcopy(pattern["spec"])
    spec.pop("nodeName", None)
    made["spec"] = spec
    made["metadata"]["labels"] = dict(pattern["metadata"]["labels"])
    made["metadata"]["ownerReferences"] = deepcopy(pattern["metadata"]["ownerReferences"])
    return made
