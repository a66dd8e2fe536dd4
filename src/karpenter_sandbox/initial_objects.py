"""The initial objects of a cluster: namespaces, priority and storage classes, nodes; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.cluster.service_accounts import first_account, root_certificate
from karpenter_sandbox.kubelet.faults import SIMULATED
from karpenter_sandbox.kubelet.status import DEFAULT_REGION

STORAGE_CLASS: Final = "standard"
PROVISIONER: Final = "csi.sandbox.karpenter.sh"
NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES: Final = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "For what the cluster cannot do without, but can move to another node.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "For what a node cannot do without; nothing is more important.",
    ),
)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """How large simulated nodes are, where they stand, and what else is written on them."""

    cpu: str = "4"
    memory: str = "16Gi"
    pods: str = "110"
    instance_type: str = "sandbox-4x16"
    region: str = DEFAULT_REGION
    zones: tuple[str, ...] = ("sandbox-a", "sandbox-b", "sandbox-c")
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def first_objects() -> Iterator[JsonObject]:
    """The objects a cluster begins with, in the order in which they can be created."""
    for name in NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        # A controller would create them as well, but not before the first pods come
        yield first_account(name)
        yield root_certificate(name)
    for name, value, description in _PRIORITIES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }


def new_node(number: int, shape: NodeShape) -> JsonObject:
    """The simulated node of a number; nodes are dealt out to the zones in turn."""
    name = f"node-{number}"
    amounts = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods}
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": shape.instance_type,
        "topology.kubernetes.io/region": shape.region,
        "topology.kubernetes.io/zone": shape.zones[(number - 1) % len(shape.zones)],
        **shape.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {SIMULATED: "fake", **shape.annotations},
        },
        "spec": {"providerID": f"sandbox://{name}"},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
