"""What surrounds pods and machines: storage, services, budgets, overlays and buffers."""

from parity import parts as k
from parity.parts import Parts
from parity.problems import ZONES, Json


def namespace(name: str, labels: Json) -> Json:
    """A namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "uid": f"uid-ns-{name}", "labels": labels},
    }


def storage_classes(make: Parts) -> list[Json]:
    """A class that allows every zone, and one that does not."""
    made = []
    for name in ("standard", "narrow"):
        found: Json = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "uid": f"uid-sc-{name}"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        if name == "narrow":
            expressions = [{"key": k.ZONE, "values": make.some(ZONES)}]
            found["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
        made.append(found)
    return made


def claim_of_volume(make: Parts, name: str) -> list[Json]:
    """A claim, perhaps with the volume that it is bound to."""
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": make.one(("standard", "narrow")),
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    if make.chance(0.5):
        return [claim]
    claim["spec"]["volumeName"] = f"pv-{name}"
    claim["status"] = {"phase": "Bound"}
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}", "uid": f"uid-pv-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": claim["spec"]["storageClassName"],
            "csi": {"driver": "csi.example.com", "volumeHandle": f"vol-{name}"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [make.expression(k.ZONE, "In", make.one(ZONES))]}
                        for _ in range(make.one((1, 1, 2)))
                    ]
                }
            },
        },
    }
    return [claim, volume]


def mounts(names: list[str]) -> list[Json]:
    """The volumes of a pod that uses claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def csi_node(make: Parts, node: Json) -> Json:
    """How many volumes a node can attach."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node["metadata"]["name"], "uid": f"csi-{node['metadata']['name']}"},
        "spec": {
            "drivers": [
                {
                    "name": "csi.example.com",
                    "nodeID": node["metadata"]["name"],
                    "topologyKeys": None,
                    "allocatable": {"count": make.random.randint(0, 2)},
                }
            ]
        },
    }


def service(app: str) -> Json:
    """A service of an app."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": app, "namespace": "default", "uid": f"uid-svc-{app}"},
        "spec": {"selector": {"app": app}},
    }


def replica_set(app: str) -> Json:
    """A ReplicaSet of an app."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": app, "namespace": "default", "uid": f"uid-ReplicaSet-{app}"},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "main", "image": "x"}]},
            },
        },
    }


def overlay(make: Parts, name: str) -> Json:
    """An overlay that changes a price or adds a resource."""
    spec: Json = {
        "requirements": [
            make.expression("size", "In", make.one(("small", "large")))
            if make.chance(0.5)
            else make.expression(k.WAY, "In", make.one((k.SPOT, k.ON_DEMAND)))
        ]
    }
    if make.chance(0.8):
        spec["weight"] = make.random.randint(1, 100)
    match make.one(("price", "adjust", "percent", "capacity")):
        case "price":
            spec["price"] = f"{make.random.uniform(0.01, 2):.4f}"
        case "adjust":
            spec["priceAdjustment"] = make.one(("+0.05", "-0.02"))
        case "percent":
            spec["priceAdjustment"] = make.one(("+40%", "-30%"))
        case _:
            spec["capacity"] = {"example.com/slots": str(make.random.randint(1, 4))}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name, "uid": f"uid-overlay-{name}", "generation": 1},
        "spec": spec,
    }


def buffer(make: Parts) -> list[Json]:
    """A buffer and the template of its pods."""
    requests = {"cpu": f"{make.one((500, 1000, 2000))}m", "memory": "512Mi"}
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "spare", "namespace": "default", "uid": "uid-template"},
        "template": {
            "metadata": {"labels": {"app": "spare"}},
            "spec": {
                "containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]
            },
        },
    }
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default", "uid": "uid-buffer", "generation": 1},
        "spec": {
            "podTemplateRef": {"name": "spare"},
            "replicas": make.random.randint(1, 4),
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        },
    }
    return [template, buffer]


def pdb(make: Parts) -> Json:
    """A budget of pods that allows one more eviction, or none."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default", "uid": "uid-pdb", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": make.one(k.APPS)}},
            "maxUnavailable": 1,
        },
        "status": {
            "disruptionsAllowed": make.one((0, 1)),
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
            "observedGeneration": 1,
        },
    }
