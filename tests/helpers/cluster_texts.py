"""Small clusters as manifests, and plans for them as data."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from helpers.commands import run
from karpenter.report.provisioning import plan_schema

# A pool of simulated machines as text; its requirements, indented by six, are the test's to add
POOL_TEXT = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
"""
SCHEMA = jsonschema_rs.Draft202012Validator(json.loads(plan_schema()))


def class_ref() -> dict[str, str]:
    """A reference to the node class of simulated machines; each one may be changed by its test."""
    return {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


def pool(name: str = "general", **spec: Any) -> dict[str, Any]:
    """The smallest pool; ``spec`` is that of its template, but for what is the pool's own."""
    keys = ("limits", "weight", "replicas", "disruption")
    own = {key: spec.pop(key) for key in keys if key in spec}
    template = {"nodeClassRef": class_ref(), "requirements": [], **spec}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {**own, "template": {"spec": template}},
    }


def pod(name: str = "web", cpu: Any = "1", **spec: Any) -> dict[str, Any]:
    """A pod that waits."""
    namespace = spec.pop("namespace", "default")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], **spec},
    }


def node(name: str = "n1", cpu: str = "4") -> dict[str, Any]:
    """A Node without a NodeClaim."""
    size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": size, "allocatable": size},
    }


def machine(
    name: str = "n1",
    kind: str = "c-4x-amd64-linux",
    *,
    zone: str = "test-zone-a",
    way: str = "on-demand",
    node_pool: str = "general",
    created: str = "2026-08-01T00:00:00Z",
    **parts: Any,
) -> list[dict[str, Any]]:
    """A machine of ours as a cluster has it: a NodeClaim and its Node, of a size to go with it.

    ``claim`` and ``node`` are merged into the metadata, ``status`` and ``spec`` into the claim's.
    """
    labels = {
        "karpenter.sh/nodepool": node_pool,
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/capacity-type": way,
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": zone,
    }
    cpu = kind.partition("-")[2].partition("x")[0]
    size = {"cpu": cpu, "memory": f"{2 * int(cpu)}Gi", "pods": "110"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"claim-{name}",
            "labels": {k: v for k, v in labels.items() if "hostname" not in k},
            "creationTimestamp": created,
            **parts.get("claim", {}),
        },
        "spec": {
            "nodeClassRef": class_ref(),
            "requirements": [],
            "expireAfter": "Never",
            **parts.get("spec", {}),
        },
        "status": {"providerID": f"kwok://{name}", "nodeName": name, **parts.get("status", {})},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "creationTimestamp": created,
            **parts.get("node", {}),
        },
        "spec": {"providerID": f"kwok://{name}"},
        "status": {"capacity": size, "allocatable": size},
    }
    return [claim, node]


def running(name: str, on: str, cpu: Any = "1", **spec: Any) -> dict[str, Any]:
    """A pod that runs on a machine."""
    metadata = spec.pop("metadata", {})
    made = pod(name, cpu, nodeName=on, **spec)
    made["metadata"] = {**made["metadata"], "labels": {"app": name}, **metadata}
    made["status"] = {"phase": "Running"}
    return made


def pdb(name: str, selector: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A disruption budget; without a ``status`` unless one is given."""
    status = {"status": parts.pop("status")} if "status" in parts else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **parts},
        **status,
    }


def text_of(*objects: dict[str, Any]) -> str:
    """Objects as one manifest."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def put(name: str, *objects: dict[str, Any]) -> str:
    """Write objects to a file in the present folder."""
    Path(name).write_text(text_of(*objects), "utf-8")
    return name


def instance_type(name: str = "big", cpu: str = "8", **offering: Any) -> dict[str, Any]:
    """An entry of an instance-types file with one offering."""
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
        "offerings": [
            {"zone": "z1", "capacityType": "on-demand", "price": 0.5, "available": True, **offering}
        ],
    }


def planned(*args: str, stdin: str | None = None) -> dict[str, Any]:
    """The provisioning part of a plan, validated against the schema."""
    part: dict[str, Any] = document(*args, stdin=stdin)["provisioning"]
    return part


def removed(*args: str, stdin: str | None = None) -> dict[str, Any]:
    """The disruption part of a plan, validated against the schema."""
    part: dict[str, Any] = document(*args, "--only", "disruption", stdin=stdin)["disruption"]
    return part


def document(*args: str, stdin: str | None = None) -> dict[str, Any]:
    """A plan as data, validated against the schema."""
    ran = run("plan", *args, "-o", "json", stdin=stdin)
    assert ran.code == 0, ran.err
    made: dict[str, Any] = json.loads(ran.out)
    SCHEMA.validate(made)
    return made


def everyone(plan: dict[str, Any]) -> list[str]:
    """Every pod a plan accounts for."""
    return sorted(
        [
            *(name for claim in plan["nodeClaims"] for name in claim["pods"]),
            *(name for names in plan["existing"].values() for name in names),
            *(entry["pod"] for key in ("unplaced", "ignored", "deferred") for entry in plan[key]),
        ]
    )


def reasons(plan: dict[str, Any]) -> dict[str, list[str]]:
    """Why each pod that fits nowhere does so, by pod."""
    return {
        entry["pod"]: [reason["reason"] for reason in entry["reasons"]]
        for entry in plan["unplaced"]
    }


def deployment(replicas: int) -> dict[str, Any]:
    """A Deployment ``web`` of small pods."""
    chosen = {"app": "web"}
    template = {"metadata": {"labels": chosen}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": chosen}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
