"""Node repair as it was before it became a method of disruption: forceful, and without budgets.

An unhealthy machine is deleted at once, with the deadline of its drain set to now. A circuit
breaker deletes nothing while too many machines of the pool (of the cluster, for a claim without a
pool) are unhealthy.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from karpenter.api.meta import Condition
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.cloud.provider import REPLACE_NODE, RepairPolicy
from karpenter.model import labels

_MOST_UNHEALTHY: Final = 0.2


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with a node, and from when on it is repaired."""

    condition: Condition
    due: datetime


def diagnosis(node: Node, policies: Iterable[RepairPolicy]) -> Diagnosis | None:
    """The condition of a node that is due first, or None for a healthy one."""
    found = [
        Diagnosis(condition, later(condition.last_transition_time, policy.toleration))
        for policy in policies
        for condition in node.status.conditions
        if _matches(policy, condition) and condition.last_transition_time is not None
    ]
    return min(found, key=lambda each: (each.due, each.condition.type), default=None)


def too_many_fail(node: Node, others: Sequence[Node], policies: Sequence[RepairPolicy]) -> str:
    """Why the circuit breaker blocks the repair of a node that is due; empty if it does not."""
    pool = node.metadata.labels.get(labels.NODEPOOL, "")
    kin = [each for each in others if not pool or each.metadata.labels.get(labels.NODEPOOL) == pool]
    failing = sum(_is_failing(each, policies) for each in kin)
    most = math.ceil(len(kin) * _MOST_UNHEALTHY)
    if failing <= most:
        return ""
    where = f"NodePool {pool}" if pool else "the cluster"
    # Karpenter's wording and spelling, since users search for it
    said = f"more than {_MOST_UNHEALTHY:.0%} nodes are unhealthy in the nodepool"
    if not pool:
        said = f"more then {_MOST_UNHEALTHY:.0%} nodes are unhealthy in the cluster"
    return f"{said}: {failing} of {len(kin)} nodes of {where} are unhealthy, more than {most}"


def deadline(stated: str | None, *, now: datetime) -> datetime:
    """The drain deadline of an unhealthy machine: now, or the stated one if that is earlier."""
    try:
        moment = datetime.fromisoformat(stated) if stated else now
    except ValueError:
        return now
    return min(moment if moment.tzinfo else moment.replace(tzinfo=UTC), now)


def _is_failing(node: Node, policies: Sequence[RepairPolicy]) -> bool:
    return any(_matches(p, condition) for p in policies for condition in node.status.conditions)


def _matches(policy: RepairPolicy, condition: Condition) -> bool:
    return (
        policy.action == REPLACE_NODE
        and policy.condition_type == condition.type
        and policy.condition_status == condition.status
        and re.search(policy.reason_regex, condition.reason) is not None
    )
