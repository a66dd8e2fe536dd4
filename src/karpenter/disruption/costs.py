"""What a machine costs, and what moving its pods would cost their owners."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from karpenter.admission.durations import go_duration
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.state.departing import is_reschedulable
from karpenter.state.eviction import eviction_cost
from karpenter.state.nodes import StateNode

# What disrupting a machine costs even when nobody is on it
BASE_COST: Final = 1.0
_NANOSECONDS: Final = 10**9


def reschedule_cost(pods: Iterable[Pod], *, deletion_cost_is_ours: bool = False) -> float:
    """What moving all pods of a machine costs; one that is glad to go takes nothing off."""
    return BASE_COST + sum(
        max(0.0, eviction_cost(pod, deletion_cost_is_ours=deletion_cost_is_ours))
        for pod in pods
        if is_reschedulable(pod)
    )


def lifetime_cost(machine: StateNode, *, now: datetime, deletion_cost_is_ours: bool) -> float:
    """What evicting everybody costs, the less the sooner the machine expires anyway."""
    cost = sum(
        eviction_cost(pod, deletion_cost_is_ours=deletion_cost_is_ours) for pod in machine.pods
    )
    return cost * _lifetime_left(machine, now)


def price_of(machine: StateNode, types: Mapping[str, InstanceType]) -> float | None:
    """What a machine costs an hour, sold out or not; None when nobody can tell."""
    offering = offering_of(machine, types)
    return None if offering is None else offering.price


def offering_of(machine: StateNode, types: Mapping[str, InstanceType]) -> Offering | None:
    """The priced offering a machine was bought as, sold out or not; None when nobody can tell."""
    kind = types.get(machine.labels.get(labels.INSTANCE_TYPE, ""))
    if kind is None:
        return None
    zone = machine.labels.get(labels.ZONE, "")
    capacity_type = machine.labels.get(labels.CAPACITY_TYPE, "")
    for offering in kind.offerings:
        if offering.zone == zone and offering.capacity_type == capacity_type:
            return None if math.isnan(offering.price) else offering
    return None


def _lifetime_left(machine: StateNode, now: datetime) -> float:
    """The part of its life a machine has before it, from one when new to zero at its end."""
    claim = machine.node_claim
    length = go_duration(claim.spec.expire_after) if claim is not None else None
    created = claim.metadata.creation_timestamp if claim is not None else None
    if not length or created is None:
        return 1.0
    age = (now - created).total_seconds()
    return max(0.0, min(1.0, 1 - age * _NANOSECONDS / length))
