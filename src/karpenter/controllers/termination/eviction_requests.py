"""What the eviction queue does with a pod, now and next; pure.

There are two kinds of requests. A node that is being removed gives a deadline after which its pods
are deleted. A node that only reboots gives one after which its pods are left alone.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from karpenter.api.pods import Pod
from karpenter.api.times import later
from karpenter.controllers.termination.deadline import JUST_AFTER, due_at, is_to_be_deleted
from karpenter.state.departing_pods import is_evictable
from karpenter.state.pods import is_active, is_drainable


@dataclass(frozen=True, slots=True)
class EvictionRequest:
    """A request to evict a pod, with what happens at the deadline, if there is one."""

    deadline: datetime | None = None
    is_timeout: bool = False  # give up at the deadline, rather than delete the pod


class EvictionStep(Enum):
    """What to do with a pod now."""

    DELETE = "delete"  # its time is up
    EVICT = "evict"
    WAIT = "wait"  # blocked for now
    DROP = "drop"  # there is nothing left to do

    @property
    def acts(self) -> bool:
        """Whether the step sends a request to the API server."""
        return self in (EvictionStep.DELETE, EvictionStep.EVICT)


def combined(known: EvictionRequest, new: EvictionRequest) -> EvictionRequest:
    """The stricter of two requests for the same pod.

    One that deletes outranks one that gives up, whichever came first; of two of the same kind the
    earlier deadline counts.
    """
    if known.is_timeout != new.is_timeout:
        return new if known.is_timeout else known
    if new.deadline is None or (known.deadline is not None and known.deadline <= new.deadline):
        return known
    return new


def next_step(pod: Pod, order: EvictionRequest, *, now: datetime) -> EvictionStep:
    """Decide what to do with a pod of the queue."""
    if order.is_timeout:
        if order.deadline is not None and now > order.deadline:
            return EvictionStep.DROP
    elif is_to_be_deleted(pod, order.deadline, now=now):
        return EvictionStep.DELETE
    if not is_active(pod) or not is_drainable(pod, now=now):
        return EvictionStep.DROP
    return EvictionStep.EVICT if is_evictable(pod, now=now) else EvictionStep.WAIT


def seconds_until_due(pod: Pod, order: EvictionRequest, *, now: datetime) -> float | None:
    """How long until the deadline changes what is done with the pod; None if it never does."""
    moment = due_at(pod, order.deadline)
    if order.is_timeout:
        moment = later(order.deadline, JUST_AFTER) if order.deadline is not None else None
    return max(JUST_AFTER, moment - now).total_seconds() if moment is not None else None
