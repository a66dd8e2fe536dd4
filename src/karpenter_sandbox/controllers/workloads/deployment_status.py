"""What a Deployment reports about itself: counts, availability and progress; pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import duration, parse_timestamp, timestamp
from karpenter_sandbox.controllers.owning import nonzero
from karpenter_sandbox.controllers.workloads.rollout import available, max_unavailable, size

PROGRESSING: Final = "Progressing"
_AVAILABLE: Final = "Available"
_FAILURE: Final = "ReplicaFailure"
_COMPLETE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_PAUSED: Final = "DeploymentPaused"
# The largest int32 means that there is no deadline
_NO_DEADLINE: Final = 2**31 - 1


def counted(
    deployment: JsonObject, new: JsonObject | None, everything: Sequence[JsonObject], now: datetime
) -> JsonObject:
    """The status with fresh counts and a fresh verdict on availability."""
    known = deployment.get("status") or {}
    usable = sum(available(rs) for rs in everything)
    status = nonzero(
        {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "replicas": _total(everything, "replicas"),
            "updatedReplicas": _total([new] if new else [], "replicas"),
            "readyReplicas": _total(everything, "readyReplicas"),
            "availableReplicas": usable,
            "unavailableReplicas": max(0, sum(size(rs) for rs in everything) - usable),
            "collisionCount": known.get("collisionCount"),
        }
    )
    status["terminatingReplicas"] = _total(everything, "terminatingReplicas")
    status["conditions"] = known.get("conditions") or []
    if usable >= size(deployment) - max_unavailable(deployment):
        verdict = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        verdict = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    return with_condition(status, _AVAILABLE, *verdict, now)


def rolled_out(
    deployment: JsonObject, new: JsonObject | None, everything: Sequence[JsonObject], now: datetime
) -> JsonObject:
    """The status with counts, progress and failures."""
    status = counted(deployment, new, everything, now)
    status = _with_progress(deployment, status, new, now)
    return _with_failure(status, new, everything)


def seconds_to_deadline(deployment: JsonObject, status: JsonObject, now: datetime) -> float | None:
    """When to look again whether the rollout is stuck, or None when it cannot be."""
    condition = _condition(status, PROGRESSING)
    if not has_deadline(deployment) or condition is None:
        return None
    if is_complete(deployment, status) or condition.get("reason") == _TIMED_OUT:
        return None
    return max(0.0, (_deadline(deployment, condition) - now).total_seconds()) + 1


def paused_or_resumed(deployment: JsonObject, now: datetime) -> JsonObject | None:
    """The status with a condition for a pause or its end, or None when it is there already.

    Without it, a pause longer than the deadline would be reported as a rollout without progress.
    """
    status = deployment.get("status") or {}
    condition = _condition(status, PROGRESSING)
    reason = condition.get("reason") if condition else None
    if not has_deadline(deployment) or reason == _TIMED_OUT:
        return None
    is_paused = bool(deployment["spec"].get("paused"))
    if is_paused == (reason == _PAUSED):
        return None
    if is_paused:
        note = ("Unknown", _PAUSED, "Deployment is paused")
    else:
        note = ("Unknown", "DeploymentResumed", "Deployment is resumed")
    return with_condition(status, PROGRESSING, *note, now)


def has_deadline(deployment: JsonObject) -> bool:
    """Whether a rollout without progress is reported."""
    return bool(deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE)


def is_complete(deployment: JsonObject, status: JsonObject) -> bool:
    """Whether every pod is new and available, and no old one is left."""
    wanted = size(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(name, 0) == wanted for name in counts) and status.get(
        "observedGeneration", 0
    ) >= deployment["metadata"].get("generation", 0)


def with_condition(
    status: JsonObject, kind: str, value: str, reason: str, message: str, now: datetime
) -> JsonObject:
    """The status with a condition; one with the same reason stays as it is."""
    known = _condition(status, kind)
    if known and (known["status"], known.get("reason")) == (value, reason):
        return status
    return _renewed(status, kind, value, reason, message, now)


def _renewed(
    status: JsonObject, kind: str, value: str, reason: str, message: str, now: datetime
) -> JsonObject:
    known = _condition(status, kind)
    moment = timestamp(now)
    is_same = known is not None and known["status"] == value
    condition = {
        "type": kind,
        "status": value,
        "lastUpdateTime": moment,
        "lastTransitionTime": known["lastTransitionTime"] if known and is_same else moment,
        "reason": reason,
        "message": message,
    }
    return {**status, "conditions": [*_others(status, kind), condition]}


def _with_progress(
    deployment: JsonObject, status: JsonObject, new: JsonObject | None, now: datetime
) -> JsonObject:
    if not has_deadline(deployment):
        return {**status, "conditions": _others(status, PROGRESSING)}
    known = _condition(status, PROGRESSING)
    is_settled = known is not None and known.get("reason") == _COMPLETE
    if is_settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return status
    subject = f'ReplicaSet "{new["metadata"]["name"]}"' if new else _named(deployment)
    if is_complete(deployment, status):
        text = f"{subject} has successfully progressed."
        return with_condition(status, PROGRESSING, "True", _COMPLETE, text, now)
    if _is_ahead(deployment.get("status") or {}, status):
        text = f"{subject} is progressing."
        # Progress moves the deadline even when nothing else about the condition changes
        return _renewed(status, PROGRESSING, "True", "ReplicaSetUpdated", text, now)
    if known is not None and _is_overdue(deployment, known, now):
        text = f"{subject} has timed out progressing."
        return with_condition(status, PROGRESSING, "False", _TIMED_OUT, text, now)
    return status


def _with_failure(
    status: JsonObject, new: JsonObject | None, everything: Sequence[JsonObject]
) -> JsonObject:
    """Show why pods cannot be created, first of all those of the new set."""
    for replica_set in [*([new] if new else []), *everything]:
        found = _condition(replica_set.get("status") or {}, _FAILURE)
        if found is None:
            continue
        known = _condition(status, _FAILURE)
        if known and (known["status"], known.get("reason")) == (found["status"], found["reason"]):
            return status
        condition = {**found, "lastUpdateTime": found["lastTransitionTime"]}
        return {**status, "conditions": [*_others(status, _FAILURE), condition]}
    return {**status, "conditions": _others(status, _FAILURE)}


def _is_ahead(before: JsonObject, after: JsonObject) -> bool:
    def old_pods(status: JsonObject) -> int:
        count: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
        return count

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_pods(after) < old_pods(before) or any(
        after.get(name, 0) > before.get(name, 0) for name in grown
    )


def _is_overdue(deployment: JsonObject, condition: JsonObject, now: datetime) -> bool:
    if condition.get("reason") in (_COMPLETE, _TIMED_OUT):
        return bool(condition.get("reason") == _TIMED_OUT)
    return _deadline(deployment, condition) < now


def _deadline(deployment: JsonObject, condition: JsonObject) -> datetime:
    patience = duration(deployment["spec"]["progressDeadlineSeconds"])
    return parse_timestamp(condition["lastUpdateTime"]) + patience


def _total(replica_sets: Sequence[JsonObject], field: str) -> int:
    return sum((rs.get("status") or {}).get(field, 0) for rs in replica_sets)


def _named(deployment: JsonObject) -> str:
    return f'Deployment "{deployment["metadata"]["name"]}"'


def _condition(status: JsonObject, kind: str) -> JsonObject | None:
    return next((c for c in status.get("conditions") or [] if c["type"] == kind), None)


def _others(status: JsonObject, kind: str) -> list[JsonObject]:
    return [c for c in status.get("conditions") or [] if c["type"] != kind]
