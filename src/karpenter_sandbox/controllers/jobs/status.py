"""What a job reports about itself: counts, a pause, and how it ended; pure."""

from collections.abc import Sequence
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.conditions import find_condition, is_true, with_condition
from karpenter_sandbox.controllers.jobs.indexes import interval_text, is_indexed, limit_per_index
from karpenter_sandbox.controllers.jobs.progress import End, JobPods
from karpenter_sandbox.controllers.owning import nonzero
from karpenter_sandbox.controllers.pods import is_active, is_finished, is_leaving, is_ready

_SUSPENDED: Final = "Suspended"
_KEPT: Final = ("startTime", "completionTime", "conditions")


def reported(
    job: JsonObject, pods: Sequence[JsonObject], stock: JobPods, end: End | None, now: str
) -> JsonObject:
    """The status of a job.

    Args:
        job: the job as it is stored.
        pods: its pods as they are now.
        stock: the counts from before this pass created or deleted pods.
        end: how the job ends, if it does.
        now: the time, as objects write it.
    """
    active = [pod for pod in pods if is_active(pod)]
    leaving = sum(is_leaving(pod) and not is_finished(pod) for pod in pods)
    status = _counts(job, active, stock)
    status["terminating"] = leaving
    if "startTime" not in status and not job["spec"].get("suspend"):
        status["startTime"] = now
    if end is None:
        return _with_pause({**job, "status": status}, now)
    # The final condition waits until no pod of the job is active
    is_final = not (active or leaving or any(stock.uncounted.values()))
    return _with_end(job, status, end, now, is_final=is_final)


def pause(job: JsonObject) -> tuple[str, str] | None:
    """The event for a pause or its end, when it is not in the status yet."""
    if job["spec"].get("suspend"):
        return None if is_true(job, _SUSPENDED) else (_SUSPENDED, "Job suspended")
    return ("Resumed", "Job resumed") if is_true(job, _SUSPENDED) else None


def _counts(job: JsonObject, active: list[JsonObject], stock: JobPods) -> JsonObject:
    known = job.get("status") or {}
    status = {key: known[key] for key in _KEPT if key in known}
    counts: dict[str, Any] = {
        "active": len(active),
        "succeeded": len(stock.indexes) if is_indexed(job) else stock.succeeded,
        "failed": stock.failed,
        "completedIndexes": interval_text(stock.indexes),
    }
    if limit_per_index(job) is not None:
        status["failedIndexes"] = interval_text(stock.failed_indexes)
    return {
        **status,
        **nonzero(counts),
        "ready": sum(is_ready(pod) for pod in active),
        "uncountedTerminatedPods": nonzero(stock.uncounted),
    }


def _with_pause(job: JsonObject, now: str) -> JsonObject:
    event = pause(job)
    status: JsonObject = job["status"]
    if event is None:
        return status
    is_paused = event[0] == _SUSPENDED
    condition = {
        "type": _SUSPENDED,
        "status": "True" if is_paused else "False",
        "reason": "JobSuspended" if is_paused else "JobResumed",
        "message": event[1],
        "lastProbeTime": now,
    }
    changed: JsonObject = with_condition(job, condition, now)["status"]
    # activeDeadlineSeconds counts from the time of the resumption
    return changed if is_paused else {**changed, "startTime": now}


def _with_end(
    job: JsonObject, status: JsonObject, end: End, now: str, *, is_final: bool
) -> JsonObject:
    changed = {**job, "status": status}
    for kind in (end.criterion, *((end.terminal,) if is_final else ())):
        if find_condition(changed, kind) is None:
            condition = {
                "type": kind,
                "status": "True",
                "reason": end.reason,
                "message": end.message,
                "lastProbeTime": now,
            }
            changed = with_condition(changed, condition, now)
    result: JsonObject = changed["status"]
    return {**result, "completionTime": now} if is_final and end.is_success else result
