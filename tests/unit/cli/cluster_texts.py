"""Small clusters as manifests, and plans for them as data."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from karpenter.report.schema import plan_schema
from unit.cli.commands import run

SCHEMA = jsonschema_rs.Draft202012Validator(json.loads(plan_schema()))
CLASS_REF = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


def pool(name: str = "general", **spec: Any) -> dict[str, Any]:
    """The smallest pool; ``spec`` is that of its template, but for what is the pool's own."""
    own = {key: spec.pop(key) for key in ("limits", "weight", "replicas") if key in spec}
    template = {"nodeClassRef": CLASS_REF, "requirements": [], **spec}
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
    """Somebody else's machine."""
    size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": size, "allocatable": size},
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
    """The provisioning part of a plan, held against the schema."""
    ran = run("plan", *args, "-o", "json", stdin=stdin)
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    SCHEMA.validate(document)
    part: dict[str, Any] = document["provisioning"]
    return part


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
