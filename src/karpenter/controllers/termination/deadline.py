"""The deadline after which the drain of a node no longer waits for its pods; pure.

A claim with a termination grace period gets a deadline when it is deleted, in an annotation, so
that it survives a restart. A pod is deleted, whatever protects it, once its own grace period would
otherwise end after the deadline.
"""

from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.api.times import earlier, in_seconds, later
from karpenter.model import durations
from karpenter.model.conditions import moment_of, timestamp
from karpenter.model.labels import TERMINATION_TIMESTAMP

# Zero would remove the pod from the API server before the kubelet stops its containers
_SHORTEST_GRACE: Final = 1
# "After" is strict, so a pod is due a little after its deadline at the earliest
JUST_AFTER: Final = timedelta(milliseconds=1)


class DeadlineError(ValueError):
    """The deadline written on a claim cannot be read; the text is one sentence."""


def deadline_of(claim: NodeClaim | None) -> datetime | None:
    """The deadline of a claim, None when it has none.

    Raises:
        DeadlineError: what is written there is no time.
    """
    text = claim.metadata.annotations.get(TERMINATION_TIMESTAMP) if claim else None
    if text is None:
        return None
    moment = moment_of(text)
    if moment is None:
        name = claim.metadata.name if claim else ""
        raise DeadlineError(
            f"annotation {TERMINATION_TIMESTAMP} of NodeClaim {name} is {text!r};"
            " write a time such as 2030-01-31T12:00:00Z, or remove it"
        )
    return moment


def first_deadline(claim: NodeClaim) -> str | None:
    """The deadline to write on a claim that is being deleted, None when it stays as it is.

    An existing deadline is kept: an earlier one may have been set on purpose.
    """
    period, deleted = claim.spec.termination_grace_period, claim.metadata.deletion_timestamp
    if period is None or deleted is None or TERMINATION_TIMESTAMP in claim.metadata.annotations:
        return None
    length = durations.parse(period)
    return timestamp(later(deleted, length)) if length is not None else None


def tightened(claim: NodeClaim, moment: datetime) -> str | None:
    """The deadline to write so that it is ``moment`` at the latest, None when it stands as it is.

    One that cannot be read is replaced.
    """
    text = claim.metadata.annotations.get(TERMINATION_TIMESTAMP)
    known = moment_of(text) if text is not None else None
    return None if known is not None and known <= moment else timestamp(moment)


def is_overdue(pod: Pod, deadline: datetime | None, *, now: datetime) -> bool:
    """Whether the pod, left to itself, would still be there after the deadline."""
    if deadline is None:
        return False
    if pod.metadata.deletion_timestamp is not None:
        return pod.metadata.deletion_timestamp > deadline
    grace = pod.spec.termination_grace_period_seconds
    return grace is not None and now > earlier(deadline, in_seconds(grace))


def is_to_be_deleted(pod: Pod, deadline: datetime | None, *, now: datetime) -> bool:
    """Whether deleting the pod now would end it earlier than its present grace period does.

    A pod that is being deleted with the same or a shorter grace period is not deleted again.
    """
    if deadline is None or not is_overdue(pod, deadline, now=now):
        return False
    granted = pod.metadata.deletion_grace_period_seconds
    if pod.metadata.deletion_timestamp is None or granted is None:
        return True
    return granted > grace_left(deadline, now=now)


def due_at(pod: Pod, deadline: datetime | None) -> datetime | None:
    """When a pod that is not going yet will be overdue; never without a deadline."""
    grace = pod.spec.termination_grace_period_seconds
    if deadline is None or grace is None:
        return None
    return later(earlier(deadline, in_seconds(grace)), JUST_AFTER)


def grace_left(deadline: datetime, *, now: datetime) -> int:
    """The grace period, in seconds, of a pod that is deleted because of the deadline."""
    return max(_SHORTEST_GRACE, (deadline - now) // timedelta(seconds=1))
