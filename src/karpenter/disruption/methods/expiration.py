"""Expiration: a claim goes when its time is over, whatever state it is in and whatever stands by."""

from datetime import datetime

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import LAST, in_nanoseconds, later


def expires_at(claim: NodeClaim) -> datetime | None:
    """When the time of a claim is over; ``Never`` and what is no length of time never end."""
    lifetime = go_duration(claim.spec.expire_after)
    born = claim.metadata.creation_timestamp
    if lifetime is None or lifetime < 0 or born is None:
        return None
    end = later(born, in_nanoseconds(lifetime))
    return None if end == LAST else end


def has_expired(claim: NodeClaim, *, now: datetime) -> bool:
    """Whether a claim is to be deleted now, unless it is being deleted already."""
    end = expires_at(claim)
    return end is not None and end <= now and claim.metadata.deletion_timestamp is None
