"""What the eviction queue is to do with a pod, and what it does next; pure.

There are two kinds of orders. A node that is being removed gives a deadline after which its pods
are deleted. A node that only restarts gives one after which its pods are left alone.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from karpenter.api.pods import Pod
from karpenter.api.times import later
from karpenter.controllers.termination.deadline import JUST_AFTER, due_at, is_to_be_deleted
from karpenter.state.departing import is_evictable
from karpenter.state.pods import is_active, is_drainable


@dataclass(frozen=True, slots=True)
class Order:
    """Evict a pod, and what to do when it has not gone by the deadline; no deadline is never."""

    deadline: datetime | None = None
    is_timeout: bool = False  # give up at the deadline, rather than delete the pod


class Step(Enum):
    """What to do with a pod now."""

    DELETE = "delete"  # its time is up
    EVICT = "evict"
    WAIT = "wait"  # something holds it for now
    DROP = "drop"  # there is nothing left to do

    @property
    def acts(self) -> bool:
        """Whether the API server is asked for something."""
        return self in (Step.DELETE, Step.EVICT)


def combined(known: Order, new: Order) -> Order:
    """The order that stands when a pod is given two: the stricter one.

    Deleting outranks giving up, whichever came first; of a kind, the earlier deadline counts.
    """
    if known.is_timeout != new.is_timeout:
        return new if known.is_timeout else known
    if new.deadline is None or (known.deadline is not None and known.deadline <= new.deadline):
        return known
    return new


def next_step(pod: Pod, order: Order, *, now: datetime) -> Step:
    """Decide what to do with a pod of the queue."""
    if order.is_timeout:
        if order.deadline is not None and now > order.deadline:
            return Step.DROP
    elif is_to_be_deleted(pod, order.deadline, now=now):
        return Step.DELETE
    if not is_active(pod) or not is_drainable(pod, now=now):
        return Step.DROP
    return Step.EVICT if is_evictable(pod, now=now) else Step.WAIT


def seconds_until_due(pod: Pod, order: Order, *, now: datetime) -> float | None:
    """How long until the deadline changes what is done with the pod; None if it never does."""
    moment = due_at(pod, order.deadline)
    if order.is_timeout:
        moment = later(order.deadline, JUST_AFTER) if order.deadline is not None else None
    return max(JUST_AFTER, moment - now).total_seconds() if moment is not None else None
