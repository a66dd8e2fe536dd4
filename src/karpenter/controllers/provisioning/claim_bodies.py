"""NodeClaims as they are written: what was planned, and nothing the planner did not say.

A claim has its finalizer from the start: whoever launches it would have to add it first. Its name
is drawn here and not by the API server, so that a claim whose creation got lost on the way can be
asked for again without becoming two.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from karpenter.api.karpenter import NodeClassReference, NodePool, NodeRequirement
from karpenter.api.meta import OwnerReference
from karpenter.api.nodes import Taint
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.result import NOT_ON_CLAIMS, claim_labels
from karpenter.scheduling.templates import template_requirements
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes draws names
_SUFFIX_LENGTH: Final = 5
_LONGEST_PREFIX: Final = 63 - _SUFFIX_LENGTH
_LEGACY_OWNER: Final = "Provisioner"


def claim_body(claim: PlannedClaim, pool: NodePool, name: str) -> dict[str, Any]:
    """The NodeClaim that a plan asks for."""
    spec: dict[str, Any] = {
        "nodeClassRef": _reference(claim.node_class_ref),
        "requirements": [_requirement(entry) for entry in claim.requirements.to_wire()],
        "resources": {"requests": claim.requests.to_wire()},
        "expireAfter": claim.expire_after,
        **_taints("taints", claim.taints),
        **_taints("startupTaints", claim.startup_taints),
    }
    if claim.termination_grace_period is not None:
        spec["terminationGracePeriod"] = claim.termination_grace_period
    return {"metadata": _metadata(pool, name, claim.labels, claim.annotations), "spec": spec}


def static_claim_body(pool: NodePool, facts: ProviderFacts, name: str) -> dict[str, Any]:
    """A NodeClaim of a static pool: all that the pool allows, for no pod in particular."""
    template = pool.spec.template
    held = template_requirements(pool)
    grace_period = template.spec.termination_grace_period or facts.default_termination_grace_period
    spec: dict[str, Any] = {
        "nodeClassRef": _reference(template.spec.node_class_ref),
        "requirements": [
            _requirement(entry) for entry in held.to_wire() if entry.key not in NOT_ON_CLAIMS
        ],
        "expireAfter": template.spec.expire_after,
        **_taints("taints", template.spec.taints),
        **_taints("startupTaints", template.spec.startup_taints),
    }
    if grace_period is not None:
        spec["terminationGracePeriod"] = grace_period
    annotations = {
        **template.metadata.annotations,
        labels.NODEPOOL_HASH: node_pool_hash(pool),
        labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION,
    }
    return {
        "metadata": _metadata(pool, name, claim_labels(pool, held, facts), annotations),
        "spec": spec,
    }


def draw_name(pool: str, rng: random.Random) -> str:
    """A name for a claim of a pool, as ``generateName`` would give it."""
    suffix = "".join(rng.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
    return f"{pool}-"[:_LONGEST_PREFIX] + suffix


def legacy_owner(pool: NodePool) -> OwnerReference | None:
    """The Provisioner that a pool stands for, if it stands for one."""
    for owner in pool.metadata.owner_references:
        if owner.kind == _LEGACY_OWNER and owner.api_version.startswith("karpenter.sh/"):
            return owner
    return None


def _metadata(
    pool: NodePool, name: str, held: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    legacy = legacy_owner(pool)
    # Old node selectors go on matching, because nodes get the labels of their claims
    also = {labels.PROVISIONER_NAME: legacy.name} if legacy is not None else {}
    return {
        "name": name,
        "generateName": f"{pool.metadata.name}-",
        "labels": {**held, **also},
        "annotations": dict(annotations),
        "finalizers": [labels.TERMINATION],
        "ownerReferences": [
            {
                "apiVersion": pool.api_version,
                "kind": pool.kind,
                "name": pool.metadata.name,
                "uid": pool.metadata.uid,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _reference(reference: NodeClassReference) -> dict[str, str]:
    return {"group": reference.group, "kind": reference.kind, "name": reference.name}


def _requirement(entry: NodeRequirement) -> dict[str, Any]:
    written: dict[str, Any] = {"key": entry.key, "operator": str(entry.operator)}
    if entry.values:
        written["values"] = list(entry.values)
    if entry.min_values is not None:
        written["minValues"] = entry.min_values
    return written


def _taints(field: str, taints: Iterable[Taint]) -> dict[str, Any]:
    written = [
        {
            "key": taint.key,
            "effect": taint.effect,
            **({"value": taint.value} if taint.value else {}),
        }
        for taint in taints
    ]
    return {field: written} if written else {}
