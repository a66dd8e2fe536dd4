"""A scheduler's view of a cluster without an API, and objects to fill it with.

bench = Bench(node("a", cpu="4"), node("b", taints=[taint("gpu")]))
bench.run(pod("one", cpu="3"), on="a")
bench.decide(pod("two", cpu="2"))  # the node's name, or the message
"""

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from karpenter_sandbox.matching import Selector, exact_selector
from karpenter_sandbox.scheduling.cluster import Cluster
from karpenter_sandbox.scheduling.nodes import read_node
from karpenter_sandbox.scheduling.placement import Chosen, Decision, Placement
from karpenter_sandbox.scheduling.preemption import read_budget
from karpenter_sandbox.scheduling.rules import Classes
from karpenter_sandbox.scheduling.shapes import PodInfo, Shapes
from karpenter_sandbox.scheduling.volumes import Storage, volume_limits

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    unschedulable: bool = False,
    more: Mapping[str, str] | None = None,
) -> Json:
    known = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **(labels or {})}
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}
    spec: Json = {"taints": list(taints)} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": known},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Json:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    amounts = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    amounts |= requests or {}
    container = {"name": "main", "image": "app", "resources": {"requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": {"containers": [container], "priority": priority, **spec},
        "status": dict(status or {}),
    }


class LaunchOptions:
    """Claims, volumes and storage classes that a test puts there."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], Json] = {}
        self.kept: dict[str, Json] = {}
        self.classes: dict[str, Json] = {}
        self.users: dict[tuple[str, str], int] = {}

    def claim(self, namespace: str, name: str) -> Json | None:
        return self.claims.get((namespace, name))

    def volume(self, name: str) -> Json | None:
        return self.kept.get(name)

    def volumes(self) -> list[Json]:
        return list(self.kept.values())

    def storage_class(self, name: str) -> Json | None:
        return self.classes.get(name)

    def pods_using(self, namespace: str, claim: str) -> int:
        return self.users.get((namespace, claim), 0)


class Services:
    """Selectors of services, by namespace."""

    def __init__(self) -> None:
        self.selectors: dict[str, Mapping[str, str]] = {}

    def selector_of(self, pod: PodInfo) -> Selector | None:
        selector = self.selectors.get(pod.key[0])
        if selector is None or not exact_selector(selector).matches(pod.labels):
            return None
        return exact_selector(selector)


class Bench:
    """A cluster to place pods in."""

    def __init__(self, *nodes: Json, seed: int = 1) -> None:
        self.shelf = LaunchOptions()
        self.services = Services()
        self.budgets: list[Json] = []
        self.storage = Storage(self.shelf)
        self.cluster = Cluster(self.storage.attached)
        self.shapes = Shapes()
        self.classes = Classes(self.cluster, self.storage, self.services, Random(seed))
        self.placement = Placement(self.cluster, self.classes, self._budgets, Random(seed))
        for obj in nodes:
            self.cluster.set_node(read_node(obj))

    def set_node(self, obj: Json) -> None:
        self.cluster.set_node(read_node(obj))

    def set_limits(self, csi_node: Json) -> None:
        self.cluster.set_limits(csi_node["metadata"]["name"], volume_limits(csi_node))

    def run(self, *pods: Json, on: str) -> None:
        """Put pods on a node, whether or not they fit."""
        for obj in pods:
            info = self.shapes.read(obj)
            self.cluster.set_pod(dataclasses.replace(info, node_name=on))

    def remove(self, obj: Json) -> None:
        self.cluster.remove_pod(obj["metadata"]["uid"])

    def decision(self, obj: Json) -> Decision:
        return self.placement.decide(self.shapes.read(obj))

    def decide(self, obj: Json) -> str:
        """The name of the node a pod would go to, or why it goes nowhere."""
        decision = self.decision(obj)
        return decision.node if isinstance(decision, Chosen) else decision.message

    def place(self, obj: Json) -> str:
        """Decide, and put the pod where it goes."""
        decision = self.decision(obj)
        if not isinstance(decision, Chosen):
            return decision.message
        self.run(obj, on=decision.node)
        return decision.node

    def _budgets(self) -> list[Any]:
        return [read_budget(budget) for budget in self.budgets]
