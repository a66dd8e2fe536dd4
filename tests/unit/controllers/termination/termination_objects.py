"""Claims, nodes, pods and budgets for tests of termination, as JSON."""

from collections.abc import Sequence
from typing import Any, Final

from helpers import manifests
from helpers.autoscaler import JsonObject
from helpers.cluster_texts import class_ref
from helpers.manifests import condition

FINALIZER: Final = "karpenter.sh/termination"


CLASS_LABEL: Final = "karpenter.kwok.sh/kwoknodeclass"


TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"


DISRUPTED: Final = "karpenter.sh/disrupted"


_LABELS: Final = {
    "karpenter.sh/nodepool": "np",
    "karpenter.sh/capacity-type": "spot",
    "topology.kubernetes.io/zone": "z1",
    CLASS_LABEL: "default",
}


def provider_id(name: str) -> str:
    """The machine of a claim or node of that name."""
    return f"fake://{name}"


def claim(
    name: str = "n",
    *,
    registered: bool = True,
    machine: str | None = None,
    period: str | None = None,
    annotations: dict[str, str] | None = None,
    finalizers: Sequence[str] = (FINALIZER,),
    reason: str = "",
) -> JsonObject:
    """A claim whose machine runs; ``machine=""`` makes one that was never launched."""
    spec: JsonObject = {
        "nodeClassRef": class_ref(),
        "requirements": [],
        "expireAfter": "Never",
    }
    if period is not None:
        spec["terminationGracePeriod"] = period
    conditions = [condition("Launched", generation=None), condition("Ready", generation=None)]
    conditions.append(condition("Registered", "True" if registered else "Unknown", generation=None))
    if reason:
        conditions.append(condition("DisruptionReason", "True", reason, generation=None))
    status: JsonObject = {"conditions": conditions, "nodeName": name}
    machine = provider_id(name) if machine is None else machine
    if machine:
        status["providerID"] = machine
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": _LABELS,
            "annotations": annotations or {},
            "finalizers": list(finalizers),
        },
        "spec": spec,
        "status": status,
    }


def node(
    name: str = "n",
    *,
    machine: str | None = None,
    ready: bool = True,
    labels: dict[str, str] | None = None,
    taints: Sequence[JsonObject] = (),
    finalizers: Sequence[str] = (FINALIZER,),
) -> JsonObject:
    """A node of ours."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _LABELS if labels is None else labels,
            "finalizers": list(finalizers),
        },
        "spec": {
            "providerID": provider_id(name) if machine is None else machine,
            "taints": list(taints),
        },
        "status": {
            "conditions": [condition("Ready", "True" if ready else "False", generation=None)]
        },
    }


def pod(
    name: str = "a",
    *,
    on: str = "n",
    grace: int = 30,
    held: str = "",
    app: str = "web",
    owners: Sequence[str] = ("ReplicaSet",),
    critical: bool = False,
    tolerations: Sequence[JsonObject] = (),
    claims: Sequence[str] = (),
    phase: str = "Running",
    started: str = "",
    **metadata: Any,
) -> JsonObject:
    """A pod that runs on a node."""
    spec: JsonObject = {
        "nodeName": on,
        "containers": [{"name": "main", "image": "registry.example/app:1"}],
        "terminationGracePeriodSeconds": grace,
        "tolerations": list(tolerations),
        "volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims],
    }
    if critical:
        spec |= {"priorityClassName": "system-node-critical", "priority": 2000001000}
    status: JsonObject = {"phase": phase, "conditions": [condition("Ready", generation=None)]}
    if started:
        status["startTime"] = started
    return manifests.pod(
        name,
        metadata={
            "labels": {"app": app},
            "annotations": {"karpenter.sh/do-not-disrupt": held} if held else {},
            "ownerReferences": [_owner(kind) for kind in owners],
            **metadata,
        },
        status=status,
        **spec,
    )


def budget(name: str = "pdb", *, allowed: int = 0, app: str = "web") -> JsonObject:
    """A disruption budget as its controller has left it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        },
    }


def bound_volume(name: str, on: str = "n") -> tuple[JsonObject, ...]:
    """A claim for storage, its volume, and the attachment of that to a node."""
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeName": f"pv-{name}",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": f"attached-{name}"},
            "spec": {
                "attacher": "csi.example.com",
                "nodeName": on,
                "source": {"persistentVolumeName": f"pv-{name}"},
            },
        },
    )


def taints_of(stored: JsonObject) -> list[JsonObject]:
    """The taints of a node but the one that admission gives every new node."""
    taints = stored["spec"].get("taints") or []
    return [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]


def _owner(kind: str) -> JsonObject:
    api_version = "v1" if kind == "Node" else "apps/v1"
    name = "n" if kind == "Node" else "owner"
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{kind}"}
