"""On which nodes the pods of a DaemonSet belong, and how a pod is tied to one; pure."""

from typing import Final, NamedTuple

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.nodes.taints import NO_EXECUTE, NO_SCHEDULE
from karpenter_sandbox.controllers.pods import from_template
from karpenter_sandbox.controllers.workloads.controller_revisions import POD_LABEL
from karpenter_sandbox.matching import (
    any_term_holds,
    is_tolerated,
    read_node_terms,
    read_taints,
    read_tolerations,
)

# Taints from conditions must not evict daemons, which the node needs to recover
_ALWAYS_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)
_NAME_FIELD: Final = "metadata.name"
_GENERATION_LABEL: Final = "pod-template-generation"
_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"


class Verdict(NamedTuple):
    """Whether a node should get a pod, and whether one that is there may stay."""

    should_run: bool
    may_stay: bool


def verdict(daemon_set: JsonObject, node: JsonObject) -> Verdict:
    """Whether a pod of the set belongs on a node."""
    spec = daemon_set["spec"]["template"].get("spec") or {}
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = read_node_terms(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    wanted: dict[str, str] = spec.get("nodeSelector") or {}
    is_meant = (
        spec.get("nodeName", name) == name
        and wanted.items() <= labels.items()
        and any_term_holds(terms, name, labels)
    )
    if not is_meant:
        return Verdict(False, False)
    tolerations = read_tolerations(_tolerations(spec))
    refused = {
        taint.effect
        for taint in read_taints((node.get("spec") or {}).get("taints"))
        if not is_tolerated(taint, tolerations)
    }
    is_driven_out = NO_EXECUTE in refused
    return Verdict(not is_driven_out and NO_SCHEDULE not in refused, not is_driven_out)


def node_of_daemon(pod: JsonObject) -> str:
    """The node a daemon runs on or is meant for."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        name: str = spec["nodeName"]
        return name
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field["key"] == _NAME_FIELD and field["operator"] == "In":
                return str(field["values"][0])
    return ""


def daemon_pod(daemon_set: JsonObject, node: str, template: JsonObject, code: str) -> JsonObject:
    """A pod that can only go to ``node``."""
    spec = template.get("spec") or {}
    affinity = spec.get("affinity") or {}
    pinned = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": _NAME_FIELD, "operator": "In", "values": [node]}]}
        ]
    }
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": pinned,
    }
    annotations = daemon_set["metadata"].get("annotations") or {}
    labels = {POD_LABEL: code}
    if annotations.get(_GENERATION_ANNOTATION):
        labels[_GENERATION_LABEL] = annotations[_GENERATION_ANNOTATION]
    changes = {
        "affinity": {**affinity, "nodeAffinity": node_affinity},
        "tolerations": _tolerations(spec),
    }
    return from_template(template, daemon_set, labels=labels, spec=changes)


def _tolerations(spec: JsonObject) -> list[JsonObject]:
    added = [*_ALWAYS_TOLERATED, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    given = spec.get("tolerations") or []
    known = [
        (toleration.get("key"), toleration.get("effect"))
        for toleration in given
        if toleration.get("operator") == "Exists" and "tolerationSeconds" not in toleration
    ]
    return [
        *given,
        *(
            {"key": key, "operator": "Exists", "effect": effect}
            for key, effect in added
            if (key, effect) not in known
        ),
    ]
