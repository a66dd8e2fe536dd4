"""The scale walk of ``examples/scale-walk``: its bed, and what can be read off it."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

from helpers.autoscaler import Autoscaler
from karpenter.clock import Clock
from karpenter.cloud.kwok.catalogue import load
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider
from karpenter.kube.client import Client
from karpenter.manifests.reader import read
from karpenter.model.quantity import millis

# The lines of the controllers' log for one node, in their order
LIFE_OF_A_CLAIM = [
    "found provisionable pod(s)",
    "computed new nodeclaim(s) to fit pod(s)",
    "created nodeclaim",
    "launched nodeclaim",
    "registered nodeclaim",
    "initialized nodeclaim",
]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "scale-walk"
FIXED = "ip-192-168-32-10.ap-northeast-1.compute.internal"


def manifests(name: str) -> list[dict[str, Any]]:
    """The objects of one file of the example."""
    return [document.data for document in read((EXAMPLE / name).read_bytes(), name)]


def walk_cloud(kube: Client, clock: Clock, _: random.Random) -> CloudProvider:
    """A cloud that sells the machines of the walk."""
    file = EXAMPLE / "instance-types.json"
    return KwokProvider(kube, clock, load(file.read_bytes(), file.name))


def node_types(run: Autoscaler) -> list[str]:
    """The types of the nodes, the oldest first."""
    nodes = sorted(run.nodes, key=lambda node: int(node["metadata"]["resourceVersion"]))
    nodes = sorted(nodes, key=lambda node: node["metadata"]["creationTimestamp"])
    return [node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes]


def placement(run: Autoscaler) -> list[int]:
    """How many pods of the app run on each node, fewest first."""
    counts = Counter(pod["spec"].get("nodeName") for pod in app_pods(run))
    return sorted(counts.values())


def app_pods(run: Autoscaler) -> list[dict[str, Any]]:
    """The pods of the app."""
    return [p for p in run.pods if p["metadata"].get("labels", {}).get("app") == "app"]


def pending(run: Autoscaler) -> int:
    """How many pods of the app have no node."""
    return sum(not pod["spec"].get("nodeName") for pod in app_pods(run))


def cpu_on(run: Autoscaler, node: str) -> int:
    """What the pods on a node ask for, in millicores."""
    return sum(
        millis(container.get("resources", {}).get("requests", {}).get("cpu", 0))
        for pod in run.pods
        if pod["spec"].get("nodeName") == node
        for container in pod["spec"]["containers"]
    )
