"""How far a job has come, and how it ends; pure.

Each finished pod is counted exactly once: it keeps a finalizer until the job's status mentions it,
and stays mentioned until the finalizer is gone. So nothing is lost when the program is killed
between two writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import duration, parse_timestamp
from karpenter_sandbox.conditions import find_condition, is_true
from karpenter_sandbox.controllers.jobs.failure_policy import has_ended, meaning
from karpenter_sandbox.controllers.jobs.indexes import (
    failed_indexes,
    is_indexed,
    matched_success,
    succeeded_indexes,
)
from karpenter_sandbox.controllers.pods import is_active, phase

TRACKING: Final = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True, slots=True)
class JobPods:
    """The pods of a job: those at work, and those that ended."""

    active: list[JsonObject]
    ended: list[JsonObject]  # finished, and still carrying the finalizer
    successes: int  # that were not known before
    failures: list[JsonObject]  # that were not known before
    succeeded: int  # already counted in the status
    failed: int
    uncounted: dict[str, list[str]]  # uids in the status whose finalizer is still there
    indexes: frozenset[int]  # that have succeeded, in an indexed job
    failed_indexes: frozenset[int]  # that have failed for good

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted["succeeded"])

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted["failed"])

    @property
    def over(self) -> frozenset[int]:
        return self.indexes | self.failed_indexes


@dataclass(frozen=True, slots=True)
class End:
    """How a job ends: the criterion condition set first, the terminal one set last, and why."""

    criterion: str
    terminal: str
    reason: str
    message: str

    @property
    def is_success(self) -> bool:
        return self.terminal == "Complete"


def take_stock(job: JsonObject, pods: Sequence[JsonObject]) -> JobPods:
    """Count the pods of a job."""
    status = job.get("status") or {}
    known = status.get("uncountedTerminatedPods") or {}
    held = {pod["metadata"]["uid"] for pod in pods if is_tracked(pod)}
    uncounted = {}
    counts = {}
    for kind in ("succeeded", "failed"):
        listed = known.get(kind) or []
        uncounted[kind] = [uid for uid in listed if uid in held]
        counts[kind] = status.get(kind, 0) + len(listed) - len(uncounted[kind])
    mentioned = {uid for uids in uncounted.values() for uid in uids}
    ended = [pod for pod in pods if is_tracked(pod) and has_ended(job, pod)]
    successes = 0
    failures: list[JsonObject] = []
    for pod in ended:
        uid = pod["metadata"]["uid"]
        if uid in mentioned:
            continue
        if phase(pod) == "Succeeded":
            uncounted["succeeded"].append(uid)
            successes += 1
        elif meaning(job, pod).counts:
            uncounted["failed"].append(uid)
            failures.append(pod)
    return JobPods(
        active=[pod for pod in pods if is_active(pod)],
        ended=ended,
        successes=successes,
        failures=failures,
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        uncounted=uncounted,
        indexes=succeeded_indexes(job, pods),
        failed_indexes=failed_indexes(job, pods),
    )


def ending(
    job: JsonObject, pods: Sequence[JsonObject], stock: JobPods, now: datetime
) -> End | None:
    """How the job ends, or None while it goes on."""
    spec = job["spec"]
    for criterion, terminal in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
        if is_true(job, criterion):
            known = find_condition(job, criterion) or {}
            return End(criterion, terminal, known.get("reason", ""), known.get("message", ""))
    for pod in pods:
        why = meaning(job, pod).ends_job if phase(pod) == "Failed" else ""
        if why:
            return _failed("PodFailurePolicy", why)
    if stock.all_failed > spec.get("backoffLimit", 6) or _restarted_too_often(job, pods):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = seconds_to_deadline(job, now)
    if left is not None and left <= 0:
        return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
    return _failed_indexes(job, stock) or _success(job, stock)


def _failed_indexes(job: JsonObject, stock: JobPods) -> End | None:
    """How a job ends because of failed indexes."""
    failed, spec = len(stock.failed_indexes), job["spec"]
    if failed > spec.get("maxFailedIndexes", failed):
        text = "Job has exceeded the specified maximal number of failed indexes"
        return _failed("MaxFailedIndexesExceeded", text)
    if failed and len(stock.over) >= spec.get("completions", 0):
        return _failed("FailedIndexes", "Job has failed indexes")
    return None


def _success(job: JsonObject, stock: JobPods) -> End | None:
    """How a job ends because enough is done."""
    if matched := matched_success(job, stock.indexes) if is_indexed(job) else "":
        return End("SuccessCriteriaMet", "Complete", "SuccessPolicy", matched)
    done = len(stock.indexes) if is_indexed(job) else stock.all_succeeded
    wanted = job["spec"].get("completions")
    if not stock.active and (done >= wanted if wanted is not None else done > 0):
        text = "Reached expected number of succeeded pods"
        return End("SuccessCriteriaMet", "Complete", "CompletionsReached", text)
    return None


def wanted_active(job: JsonObject, stock: JobPods) -> int:
    """How many pods should be at work now."""
    spec = job["spec"]
    parallelism: int = spec.get("parallelism", 1)
    if spec.get("completions") is None:
        return len(stock.active) if stock.all_succeeded else parallelism
    completions: int = spec["completions"]
    done = len(stock.over) if is_indexed(job) else stock.all_succeeded
    return max(0, min(completions - done, parallelism))


def is_over(job: JsonObject) -> bool:
    """Whether a job has ended."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def is_tracked(pod: JsonObject) -> bool:
    """Whether a pod has still to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def seconds_to_deadline(job: JsonObject, now: datetime) -> float | None:
    """How long a job may still go on, or None when that is not limited."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if seconds is None or started is None or job["spec"].get("suspend"):
        return None
    return (parse_timestamp(started) + duration(seconds) - now).total_seconds()


def _restarted_too_often(job: JsonObject, pods: Sequence[JsonObject]) -> bool:
    spec = job["spec"]
    if (spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        container.get("restartCount", 0)
        for pod in pods
        if phase(pod) in ("Running", "Pending")
        for part in ("initContainerStatuses", "containerStatuses")
        for container in (pod.get("status") or {}).get(part) or []
    )
    limit = spec.get("backoffLimit", 6)
    return bool(restarts >= limit if limit else restarts > 0)


def _failed(reason: str, message: str) -> End:
    return End("FailureTarget", "Failed", reason, message)
