"""The price of a machine per hour, and the cost of evicting its pods."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model import labels
from karpenter.state.departing_pods import is_reschedulable
from karpenter.state.eviction_cost import eviction_cost
from karpenter.state.nodes import StateNode

# The disruption cost of a machine without pods, so that ratios stay finite
BASE_COST: Final = 1.0


def reschedule_cost(pods: Iterable[Pod], *, deletion_cost_is_ours: bool = False) -> float:
    """The cost of moving all pods of a machine; a negative cost of a pod counts as zero."""
    return BASE_COST + sum(
        max(0.0, eviction_cost(pod, deletion_cost_is_ours=deletion_cost_is_ours))
        for pod in pods
        if is_reschedulable(pod)
    )


def lifetime_cost(machine: StateNode, *, now: datetime, deletion_cost_is_ours: bool) -> float:
    """The eviction cost of all pods, scaled by the lifetime left: an expiring machine is cheap."""
    cost = sum(
        eviction_cost(pod, deletion_cost_is_ours=deletion_cost_is_ours) for pod in machine.pods
    )
    return cost * machine.lifetime_left(now)


def price_of(machine: StateNode, types: Mapping[str, InstanceType]) -> float | None:
    """The price of a machine per hour, sold out or not; None when unknown."""
    offering = offering_of(machine, types)
    return None if offering is None else offering.price


def offering_of(machine: StateNode, types: Mapping[str, InstanceType]) -> Offering | None:
    """The offering a machine was launched as, if it has a price, sold out or not; else None."""
    kind = types.get(machine.labels.get(labels.INSTANCE_TYPE, ""))
    if kind is None:
        return None
    zone = machine.labels.get(labels.ZONE, "")
    capacity_type = machine.labels.get(labels.CAPACITY_TYPE, "")
    offering = kind.offering_in(zone, capacity_type)
    return None if offering is None or math.isnan(offering.price) else offering
