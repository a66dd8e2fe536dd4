"""Expiration: a claim is deleted when ``expireAfter`` has passed, whatever state it is in."""

from datetime import datetime

from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import LAST, later
from karpenter.model import durations


def expires_at(claim: NodeClaim) -> datetime | None:
    """When a claim expires; None for ``Never`` or an invalid duration."""
    lifetime = durations.period(claim.spec.expire_after)
    born = claim.metadata.creation_timestamp
    if lifetime is None or born is None:
        return None
    end = later(born, lifetime)
    return None if end == LAST else end


def has_expired(claim: NodeClaim, *, now: datetime) -> bool:
    """Whether a claim is to be deleted now, unless it is being deleted already."""
    end = expires_at(claim)
    return end is not None and end <= now and claim.metadata.deletion_timestamp is None
