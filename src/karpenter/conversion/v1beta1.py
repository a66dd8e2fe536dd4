"""NodePool, NodeClaim and EC2NodeClass between v1beta1 and v1, both ways.

What v1 cannot express is kept in annotations, so a round trip from v1beta1 through v1 is lossless.
What v1beta1 cannot express is lost in ``down``, or becomes a value that v1beta1 refuses, so that an
old client cannot write a wrong value back.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter.api.node_classes import ec2_labels
from karpenter.conversion.draft import Origins
from karpenter.conversion.v1beta1_ec2 import node_class_down, node_class_origins, node_class_up
from karpenter.conversion.values import (
    compact_json,
    edited,
    items,
    less,
    section,
    with_annotations,
    without,
)
from karpenter.model import labels
from karpenter.model.durations import NEVER

CORE_V1: Final = "karpenter.sh/v1"
CORE_V1BETA1: Final = "karpenter.sh/v1beta1"
AWS_V1: Final = "karpenter.k8s.aws/v1"
AWS_V1BETA1: Final = "karpenter.k8s.aws/v1beta1"
NODE_CLASS_KIND: Final = "EC2NodeClass"
DEFAULT_EXPIRY: Final = "720h"

PoolExpiry: TypeAlias = Callable[[str], str | None]
"""Pool name -> its ``expireAfter``; None when the pool is gone or does not say."""

_UNDERUTILIZED: Final = {"WhenUnderutilized": "WhenEmptyOrUnderutilized"}
_TEMPLATE: Final = ("spec", "template", "spec")


def up(obj: Mapping[str, Any], pool_expiry: PoolExpiry = lambda _: None) -> JsonObject:
    """Convert a v1beta1 object to v1; ``pool_expiry`` is called for a NodeClaim."""
    match obj.get("kind"):
        case "NodePool":
            return node_pool_up(obj)
        case "NodeClaim":
            return node_claim_up(obj, pool_expiry)
        case "EC2NodeClass":
            return {**node_class_up(obj), "apiVersion": AWS_V1}
        case kind:
            raise ValueError(f"kind {kind} has no v1beta1 version")


def down(obj: Mapping[str, Any]) -> JsonObject:
    """Convert a v1 object to v1beta1."""
    unmarked = with_annotations(obj, {labels.STORED_VERSION_MIGRATED: None})
    match obj.get("kind"):
        case "NodePool":
            return node_pool_down(unmarked)
        case "NodeClaim":
            return node_claim_down(unmarked)
        case "EC2NodeClass":
            return {**node_class_down(unmarked), "apiVersion": AWS_V1BETA1}
        case kind:
            raise ValueError(f"kind {kind} has no v1beta1 version")


def origins_of(obj: Mapping[str, Any]) -> Origins:
    """The origins of the parts of ``up(obj)``."""
    match obj.get("kind"):
        case "NodePool":
            return Origins.moved(
                {
                    (*_TEMPLATE, "expireAfter"): ("spec", "disruption", "expireAfter"),
                    (*_TEMPLATE, "nodeClassRef", "group"): (
                        *_TEMPLATE,
                        "nodeClassRef",
                        "apiVersion",
                    ),
                    ("metadata", "annotations", labels.KEPT_KUBELET): (*_TEMPLATE, "kubelet"),
                }
            )
        case "NodeClaim":
            return Origins.moved(
                {
                    ("spec", "nodeClassRef", "group"): ("spec", "nodeClassRef", "apiVersion"),
                    ("metadata", "annotations", labels.KEPT_KUBELET): ("spec", "kubelet"),
                }
            )
        case _:
            return node_class_origins(obj)


def node_pool_up(pool: Mapping[str, Any]) -> JsonObject:
    """Convert a NodePool to v1."""
    node, kept = _node_spec_up(section(pool, *_TEMPLATE))
    disruption = section(pool, "spec", "disruption")
    expiry = disruption.get("expireAfter")
    if expiry is not None:
        node["expireAfter"] = expiry
    result = edited(pool, ("spec", "disruption"), _disruption_up)
    if _has_template(pool):
        template = {**section(pool, "spec", "template"), "spec": node}
        result = edited(result, ("spec", "template"), lambda _: template)
    return {**with_annotations(result, kept), "apiVersion": CORE_V1}


def node_pool_down(pool: Mapping[str, Any]) -> JsonObject:
    """Convert a NodePool to v1beta1."""
    node = _node_spec_down(section(pool, *_TEMPLATE), section(pool, "metadata", "annotations"))
    expiry = node.pop("expireAfter", None)
    spec = without(section(pool, "spec"), "replicas")
    if spec.get("disruption") is not None or expiry is not None:
        spec["disruption"] = _disruption_down(section(spec, "disruption"), expiry)
    if _has_template(pool):
        spec["template"] = {**section(spec, "template"), "spec": node}
    result = {**with_annotations(pool, _FORGOTTEN), "apiVersion": CORE_V1BETA1}
    if pool.get("spec") is not None:
        result["spec"] = spec
    return dict(less(result, ("status",), "nodes", "nodeClassObservedGeneration"))


def node_claim_up(claim: Mapping[str, Any], pool_expiry: PoolExpiry) -> JsonObject:
    """Convert a NodeClaim to v1, with the ``expireAfter`` of its NodePool."""
    node, kept = _node_spec_up(section(claim, "spec"), resources_too=False)
    pool = section(claim, "metadata", "labels").get(labels.NODEPOOL)
    known = pool_expiry(pool) if isinstance(pool, str) else None
    node.setdefault("expireAfter", known or DEFAULT_EXPIRY)
    result = with_annotations(claim, kept)
    if claim.get("spec") is not None:
        result["spec"] = node
    return {**result, "apiVersion": CORE_V1}


def node_claim_down(claim: Mapping[str, Any]) -> JsonObject:
    """Convert a NodeClaim to v1beta1."""
    node = _node_spec_down(section(claim, "spec"), section(claim, "metadata", "annotations"))
    result = {**with_annotations(claim, _FORGOTTEN), "apiVersion": CORE_V1BETA1}
    if claim.get("spec") is not None:
        result["spec"] = without(node, "expireAfter")
    return dict(less(result, ("status",), "lastPodEventTime"))


_FORGOTTEN: Final[Mapping[str, str | None]] = {
    labels.KEPT_KUBELET: None,
    labels.KEPT_NODE_CLASS_REF: None,
}


def _has_template(pool: Mapping[str, Any]) -> bool:
    return isinstance(section(pool, "spec").get("template"), Mapping)


def _node_spec_up(
    spec: Mapping[str, Any], *, resources_too: bool = True
) -> tuple[JsonObject, dict[str, str | None]]:
    """Return what pools and claims have in common in v1, and the annotations that keep the rest."""
    node = without(spec, "kubelet", *(("resources",) if resources_too else ()))
    kept: dict[str, str | None] = dict(_FORGOTTEN)
    if spec.get("kubelet") is not None:
        kept[labels.KEPT_KUBELET] = compact_json(spec["kubelet"])
    reference = spec.get("nodeClassRef")
    if isinstance(reference, Mapping):
        kept[labels.KEPT_NODE_CLASS_REF] = compact_json(reference)
        node["nodeClassRef"] = _reference_up(reference)
    return node, kept


def _node_spec_down(spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> JsonObject:
    node = without(spec, "terminationGracePeriod")
    kubelet = _json_object(annotations.get(labels.KEPT_KUBELET))
    if kubelet is not None:
        node["kubelet"] = kubelet
    reference = spec.get("nodeClassRef")
    if isinstance(reference, Mapping):
        original = _json_object(annotations.get(labels.KEPT_NODE_CLASS_REF))
        # If the reference was edited since, the annotation is outdated and ignored.
        is_current = original is not None and _reference_up(original) == reference
        node["nodeClassRef"] = original if is_current else without(reference, "group")
    return node


def _reference_up(reference: Mapping[str, Any]) -> JsonObject:
    api_version = reference.get("apiVersion")
    group = str(api_version).partition("/")[0] if api_version else ec2_labels.DOMAIN
    result = {"group": group, "kind": reference.get("kind") or NODE_CLASS_KIND}
    if "name" in reference:
        result["name"] = reference["name"]
    return result


def _disruption_up(disruption: Any) -> Any:
    if not isinstance(disruption, Mapping):
        return disruption
    result = without(disruption, "expireAfter")
    policy = disruption.get("consolidationPolicy")
    if isinstance(policy, str):
        result["consolidationPolicy"] = _UNDERUTILIZED.get(policy, policy)
    if disruption.get("consolidateAfter") is None:
        # Some v1 schemas require it in a disruption block.
        result["consolidateAfter"] = "0s"
    return result


def _disruption_down(disruption: Mapping[str, Any], expiry: object) -> JsonObject:
    result = dict(disruption)
    policy = disruption.get("consolidationPolicy")
    if policy in (None, "WhenEmptyOrUnderutilized"):
        if policy is not None:
            result["consolidationPolicy"] = "WhenUnderutilized"
        # v1beta1 accepts only "Never" with this policy.
        if disruption.get("consolidateAfter") != NEVER:
            result.pop("consolidateAfter", None)
    if isinstance(disruption.get("budgets"), list):
        result["budgets"] = [
            without(budget, "reasons") if isinstance(budget, Mapping) else budget
            for budget in items(disruption, "budgets")
        ]
    if expiry is not None:
        result["expireAfter"] = expiry
    return result


def _json_object(text: object) -> JsonObject | None:
    """Decode the JSON of an annotation; an invalid one counts as absent."""
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
