"""The conditions Drifted and Consolidatable of a NodeClaim, which disruption starts from.

A claim has drifted when it differs from what its pool would create now. It is consolidatable when
no pod event has happened on it for the pool's ``consolidateAfter``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.times import later
from karpenter.cloud.types import InstanceType
from karpenter.model import durations, labels
from karpenter.model.conditions import INITIALIZED, LAUNCHED, find, is_true
from karpenter.model.requirement import RequirementError
from karpenter.model.requirements import Requirements

NODE_POOL_DRIFTED: Final = "NodePoolDrifted"
REQUIREMENTS_DRIFTED: Final = "RequirementsDrifted"
TYPE_NOT_FOUND: Final = "InstanceTypeNotFound"

# Catalogues are eventually consistent: a new type may not be listed everywhere yet
YOUNGEST_STALE: Final = timedelta(hours=1)
CLOCK_SKEW: Final = timedelta(minutes=1)  # tolerated between two clocks


@dataclass(frozen=True, slots=True)
class Consolidatable:
    """Whether ``consolidateAfter`` has passed for a claim, and when it does."""

    is_over: bool
    until: datetime | None = None


def drift_reason(
    claim: NodeClaim,
    pool: NodePool,
    types: Mapping[str, InstanceType],
    *,
    now: datetime,
    provider_reason: str = "",
    is_type_known: bool = False,
    has_launched: bool | None = None,
) -> str:
    """Why a claim has drifted from its pool; nothing when it has not, or has not launched.

    Args:
        types: the types of its pool, by name.
        provider_reason: the drift reason that the provider reports for its instance.
        is_type_known: its type was found in the catalogue recently, so the lookup is skipped.
        has_launched: whether the claim has launched; its condition decides when None.
    """
    if has_launched is None:
        has_launched = is_true(claim.status.conditions, LAUNCHED)
    if not has_launched:
        return ""
    if _is_of_another_template(claim, pool):
        return NODE_POOL_DRIFTED
    if not _meets(claim.metadata.labels, pool):
        return REQUIREMENTS_DRIFTED
    if not is_type_known and is_old_enough(claim, now=now) and not is_on_sale(claim, types):
        return TYPE_NOT_FOUND
    return provider_reason


def patience(
    claim: NodeClaim, pool: NodePool, *, now: datetime, is_initialized: bool = True
) -> Consolidatable | None:
    """Whether ``consolidateAfter`` has passed for a claim; None when it never will."""
    length = durations.period(pool.spec.disruption.consolidate_after)
    if not is_initialized or pool.spec.replicas is not None:
        return None
    if length is None:
        return None  # ``Never``, or not a duration
    if not length:
        return Consolidatable(is_over=True)
    since = quiet_since(claim)
    if since is None:
        return Consolidatable(is_over=True)
    until = later(since, length)
    return Consolidatable(is_over=until <= now, until=until)


def quiet_since(claim: NodeClaim) -> datetime | None:
    """The last pod event of a claim, or else when it was initialized or created."""
    initialized = find(claim.status.conditions, INITIALIZED)
    return (
        claim.status.last_pod_event_time
        or (initialized.last_transition_time if initialized else None)
        or claim.metadata.creation_timestamp
    )


def is_old_enough(claim: NodeClaim, *, now: datetime) -> bool:
    """Whether a claim is old enough for the check that its type is in the catalogue."""
    born = claim.metadata.creation_timestamp
    return born is not None and now - born > YOUNGEST_STALE


def is_on_sale(claim: NodeClaim, types: Mapping[str, InstanceType]) -> bool:
    """Whether the catalogue still lists an offering of a claim, sold out or not.

    A machine whose reservation has ended goes on at the on-demand price.
    """
    held = claim.metadata.labels
    kind = types.get(held.get(labels.INSTANCE_TYPE, ""))
    if kind is None:
        return False
    wanted = [Requirements.from_labels(held)]
    if held.get(labels.CAPACITY_TYPE) == labels.RESERVED:
        place = {labels.ZONE: held[labels.ZONE]} if labels.ZONE in held else {}
        wanted = [
            Requirements.from_labels(place | {labels.CAPACITY_TYPE: way})
            for way in (labels.RESERVED, labels.ON_DEMAND)
        ]
    return any(
        offering.requirements.intersects(way) for offering in kind.offerings for way in wanted
    )


def _is_of_another_template(claim: NodeClaim, pool: NodePool) -> bool:
    made, wanted = claim.metadata.annotations, pool.metadata.annotations
    keys = (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION)
    if not all(key in made and key in wanted for key in keys):
        return False
    if made[labels.NODEPOOL_HASH_VERSION] != wanted[labels.NODEPOOL_HASH_VERSION]:
        return False
    return made[labels.NODEPOOL_HASH] != wanted[labels.NODEPOOL_HASH]


def _meets(held: Mapping[str, str], pool: NodePool) -> bool:
    try:
        wanted = Requirements.from_wire(pool.spec.template.spec.requirements)
    except RequirementError:
        return True  # such a pool is invalid and creates no machines
    return all(
        entry.has(held[entry.key]) if entry.key in held else entry.allows_absence
        for entry in wanted
    )
