"""NodeClaims as they are written: exactly what was planned.

A claim is created with its finalizer, which saves the launch a write. Its name is generated here
and not by the API server: it is the idempotency token with which a creation whose response was lost
can be repeated.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.meta import OwnerReference
from karpenter.api.nodes import Taint
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.model.bodies import requirement_body, taint_body
from karpenter.model.claim_names import SUFFIX_LENGTH, SUFFIX_LETTERS, claim_name
from karpenter.scheduling.compiled.templates import template_requirements
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.result import NOT_ON_CLAIMS, claim_labels
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

_LEGACY_OWNER: Final = "Provisioner"


def claim_body(claim: PlannedClaim, pool: NodePool, name: str) -> dict[str, Any]:
    """The NodeClaim that a plan asks for."""
    spec: dict[str, Any] = {
        "nodeClassRef": _reference(claim.node_class_ref),
        "requirements": [requirement_body(entry) for entry in claim.requirements.to_wire()],
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
            requirement_body(entry) for entry in held.to_wire() if entry.key not in NOT_ON_CLAIMS
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
    return claim_name(pool, "".join(rng.choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH)))


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
    # Nodes get the labels of their claims, so selectors of the Provisioner still match
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


def _taints(field: str, taints: Iterable[Taint]) -> dict[str, Any]:
    written = [taint_body(taint) for taint in taints]
    return {field: written} if written else {}
