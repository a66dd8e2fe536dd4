"""Taints that follow from the state of a node, and zones that are in trouble; pure."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.conditions import find_condition

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NO_EXECUTE: Final = "NoExecute"
NO_SCHEDULE: Final = "NoSchedule"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
# (condition, status) -> the taint it brings
_BY_CONDITION: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED: Final = frozenset({*_BY_CONDITION.values(), _UNSCHEDULABLE})
_UNHEALTHY_SHARE: Final = 0.55
_MOST_IN_SMALL_TROUBLE: Final = 2
_LARGE_ZONE: Final = 50
_RATE: Final = 0.1
_REDUCED_RATE: Final = 0.01


class ZoneState(Enum):
    """How much of a zone answers."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def readiness(node: JsonObject) -> str | None:
    """What is known about a node: True, False or Unknown, or None when it never reported."""
    condition = find_condition(node, "Ready")
    status: str | None = condition["status"] if condition is not None else None
    return status


def with_condition_taints(node: JsonObject) -> list[JsonObject]:
    """The taints of a node, with exactly the NoSchedule taints that its conditions imply."""
    wanted = [
        _BY_CONDITION[condition["type"], condition["status"]]
        for condition in (node.get("status") or {}).get("conditions") or []
        if (condition["type"], condition["status"]) in _BY_CONDITION
    ]
    if (node.get("spec") or {}).get("unschedulable"):
        wanted.append(_UNSCHEDULABLE)
    # A node without a report keeps the not-ready taint from its registration
    is_silent = readiness(node) is None
    kept = [
        taint
        for taint in _taints(node)
        if taint.get("effect") != NO_SCHEDULE
        or taint["key"] not in _MANAGED
        or taint["key"] in wanted
        or (is_silent and taint["key"] == NOT_READY)
    ]
    known = {taint["key"] for taint in kept if taint.get("effect") == NO_SCHEDULE}
    return kept + [{"key": key, "effect": NO_SCHEDULE} for key in wanted if key not in known]


def with_eviction_taint(node: JsonObject, key: str | None, now: str) -> list[JsonObject]:
    """The taints of a node, with ``key`` as the only NoExecute taint that its state implies."""
    kept = [
        taint
        for taint in _taints(node)
        if taint.get("effect") != NO_EXECUTE
        or taint["key"] not in (NOT_READY, UNREACHABLE)
        or taint["key"] == key
    ]
    if key is None or any((t["key"], t.get("effect")) == (key, NO_EXECUTE) for t in kept):
        return kept
    return [*kept, {"key": key, "effect": NO_EXECUTE, "timeAdded": now}]


def eviction_taint(node: JsonObject) -> str | None:
    """The NoExecute taint that a node has for its state now."""
    for taint in _taints(node):
        if taint.get("effect") == NO_EXECUTE and taint["key"] in (NOT_READY, UNREACHABLE):
            key: str = taint["key"]
            return key
    return None


def zone_of(node: JsonObject) -> str:
    """Region and zone of a node."""
    labels = node["metadata"].get("labels") or {}
    region = labels.get("topology.kubernetes.io/region", "")
    return f"{region}:{labels.get('topology.kubernetes.io/zone', '')}"


def zone_state(readiness_of: Sequence[str | None]) -> ZoneState:
    """How much of a zone answers, by the readiness of its nodes."""
    bad = len(readiness_of) - readiness_of.count("True")
    if bad == len(readiness_of):
        return ZoneState.FULL
    if bad > _MOST_IN_SMALL_TROUBLE and bad / len(readiness_of) >= _UNHEALTHY_SHARE:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def eviction_rate(state: ZoneState, states: Iterable[ZoneState], nodes: int) -> float:
    """How many nodes of a zone may be given up per second.

    When nothing answers anywhere, the fault is more likely in the control plane, and no pod is
    evicted.
    """
    if all(other is ZoneState.FULL for other in states):
        return 0.0
    if state is ZoneState.PARTIAL:
        return _REDUCED_RATE if nodes > _LARGE_ZONE else 0.0
    return _RATE


def _taints(node: JsonObject) -> list[JsonObject]:
    taints: list[JsonObject] = (node.get("spec") or {}).get("taints") or []
    return taints
