"""What a recorded cluster had when a replay begins: machines of pools, and which pods were where."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter.model import labels
from karpenter.model.conditions import INITIALIZED, TRUE
from karpenter.simulate.record.kinds import controller_of
from karpenter.simulate.record.segments import Key

# Kind, namespace and name: of a workload, or of a single pod of a StatefulSet
Owner: TypeAlias = tuple[str, str, str]
_OF_CLOUD: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")


@dataclass(frozen=True, slots=True)
class StartMachine:
    """A machine of a pool that is there from the start."""

    claim: JsonObject
    node: JsonObject
    age: float  # seconds

    @property
    def name(self) -> str:
        """The name of its Node."""
        return str(self.node["metadata"]["name"])

    @property
    def pool(self) -> str:
        """The pool it belongs to."""
        return str(self.claim["metadata"]["labels"][labels.NODEPOOL])

    @property
    def offering(self) -> tuple[str, str, str]:
        """Its instance type, zone and capacity type."""
        held = self.node["metadata"]["labels"]
        keys = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
        kind, zone, capacity_type = (str(held.get(key, "")) for key in keys)
        return kind, zone, capacity_type


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """Machines of pools, and the nodes of the pods of each workload."""

    machines: tuple[StartMachine, ...]
    places: Mapping[Owner, tuple[str, ...]]


def recorded_start(objects: Mapping[Key, JsonObject], at: float) -> RecordedStart:
    """What there was at a time of day.

    Machines that were going, or not Ready for the first time yet, are not there: what replaces the
    first was, and what the second are for is asked for again.
    """
    machines = tuple(_machines(objects, at))
    places: dict[Owner, list[str]] = {}
    for key in sorted(objects):
        if key[0] == "Pod" and (node := _node_of(objects[key])):
            for owner in _owners(objects, key):
                places.setdefault(owner, []).append(node)
    return RecordedStart(machines, {owner: tuple(nodes) for owner, nodes in places.items()})


def unusable(objects: Mapping[Key, JsonObject], start: RecordedStart) -> list[str]:
    """Nodes of pools that a replay begins without."""
    known = {machine.name for machine in start.machines}
    return [
        key[2]
        for key, obj in objects.items()
        if key[0] == "Node" and labels.NODEPOOL in _labels(obj) and key[2] not in known
    ]


def _machines(objects: Mapping[Key, JsonObject], at: float) -> Iterator[StartMachine]:
    for key in sorted(key for key in objects if key[0] == "NodeClaim"):
        claim = objects[key]
        status = claim.get("status") or {}
        node = objects.get(("Node", "", status.get("nodeName", "")))
        if node is None or _is_going(claim) or _is_going(node) or not _is_up(status):
            continue
        if labels.NODEPOOL in _labels(claim):
            created = claim["metadata"].get("creationTimestamp")
            age = at - datetime.fromisoformat(created).timestamp() if created else 0.0
            yield StartMachine(_claim(claim), _node(node), max(0.0, age))


def _claim(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    spec = dict(obj.get("spec") or {})
    reference = spec.get("nodeClassRef") or {}
    # As the pools of a replay have it, whatever cloud made the machine
    spec["nodeClassRef"] = {
        "group": "karpenter.kwok.sh",
        "kind": "KWOKNodeClass",
        "name": reference.get("name", "default"),
    }
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    return {"apiVersion": obj["apiVersion"], "kind": "NodeClaim", "metadata": kept, "spec": spec}


def _node(obj: JsonObject) -> JsonObject:
    metadata, status = obj["metadata"], obj.get("status") or {}
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    taints = [
        each
        for each in (obj.get("spec") or {}).get("taints") or ()
        if not str(each.get("key", "")).startswith(_OF_CLOUD)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": kept,
        "spec": {"taints": taints} if taints else {},
        "status": {key: status[key] for key in ("capacity", "allocatable") if key in status},
    }


def _node_of(pod: JsonObject) -> str:
    """The node that a pod runs on, or will."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed") or _is_going(pod):
        return ""
    return str((pod.get("spec") or {}).get("nodeName", ""))


def _owners(objects: Mapping[Key, JsonObject], key: Key) -> Iterable[Owner]:
    """The workloads that a pod may be one of in a replay."""
    _, namespace, name = key
    owner = controller_of(objects[key]) or {}
    kind, above = owner.get("kind"), str(owner.get("name", ""))
    if kind == "ReplicaSet":
        return [_above(objects, namespace, above)]
    if kind == "Job":
        return [("Job", namespace, above)]
    if kind == "StatefulSet":
        return [("Pod", namespace, name)]
    # A pod of no owner becomes a Job where its end is known, else a ReplicaSet
    return (
        []
        if kind in ("DaemonSet", "Node")
        else [("ReplicaSet", namespace, name), ("Job", namespace, name)]
    )


def _above(objects: Mapping[Key, JsonObject], namespace: str, name: str) -> Owner:
    """The Deployment of a ReplicaSet, or the ReplicaSet if it has none."""
    known = objects.get(("ReplicaSet", namespace, name))
    owner = controller_of(known) if known is not None else None
    if owner is not None:
        return str(owner["kind"]), namespace, str(owner["name"])
    # Recordings of the first version have no ReplicaSets of Deployments
    guessed = name.rpartition("-")[0]
    if known is None and ("Deployment", namespace, guessed) in objects:
        return "Deployment", namespace, guessed
    return "ReplicaSet", namespace, name


def _is_going(obj: JsonObject) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _is_up(status: JsonObject) -> bool:
    conditions: Iterable[Any] = status.get("conditions") or ()
    return any(
        each.get("type") == INITIALIZED and each.get("status") == TRUE for each in conditions
    )


def _labels(obj: JsonObject) -> JsonObject:
    return obj["metadata"].get("labels") or {}
