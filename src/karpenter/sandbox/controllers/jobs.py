"""How far a job has come, and how it ends; pure.

Each finished pod is counted exactly once: it keeps a finalizer until the job's status mentions it,
and stays mentioned until the finalizer is gone. So nothing is lost when the program is killed
between two writes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.sandbox.backend import parse_timestamp
from karpenter.sandbox.conditions import find_condition, is_true
from karpenter.sandbox.controllers.informer import JsonObject
from karpenter.sandbox.controllers.job_policy import meaning, replaces_only_finished
from karpenter.sandbox.controllers.pods import is_active, is_leaving, phase

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
_ENVIRONMENT: Final = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True, slots=True)
class Stock:
    """The pods of a job: those at work, and those that ended."""

    active: list[JsonObject]
    ended: list[JsonObject]  # finished, and still carrying the finalizer
    successes: int  # that were not known before
    failures: int  # that were not known before
    succeeded: int  # already folded into the status
    failed: int
    uncounted: dict[str, list[str]]  # uids in the status whose finalizer is still there
    indexes: frozenset[int]  # that have succeeded, in an indexed job

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted["succeeded"])

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted["failed"])


@dataclass(frozen=True, slots=True)
class End:
    """How a job ends: the condition that says so, the one that will, and why."""

    criterion: str
    terminal: str
    reason: str
    message: str

    @property
    def is_success(self) -> bool:
        return self.terminal == "Complete"


def take_stock(job: JsonObject, pods: Sequence[JsonObject]) -> Stock:
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
    ended = [pod for pod in pods if is_tracked(pod) and _has_ended(job, pod)]
    successes = failures = 0
    for pod in ended:
        uid = pod["metadata"]["uid"]
        if uid in mentioned:
            continue
        if phase(pod) == "Succeeded":
            uncounted["succeeded"].append(uid)
            successes += 1
        elif meaning(job, pod).counts:
            uncounted["failed"].append(uid)
            failures += 1
    return Stock(
        active=[pod for pod in pods if is_active(pod)],
        ended=ended,
        successes=successes,
        failures=failures,
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        uncounted=uncounted,
        indexes=_succeeded_indexes(job, pods) if is_indexed(job) else frozenset(),
    )


def ending(job: JsonObject, pods: Sequence[JsonObject], stock: Stock, now: datetime) -> End | None:
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
    done = len(stock.indexes) if is_indexed(job) else stock.all_succeeded
    wanted = spec.get("completions")
    if not stock.active and (done >= wanted if wanted is not None else done > 0):
        text = "Reached expected number of succeeded pods"
        return End("SuccessCriteriaMet", "Complete", "CompletionsReached", text)
    return None


def wanted_active(job: JsonObject, stock: Stock) -> int:
    """How many pods should be at work now."""
    spec = job["spec"]
    parallelism: int = spec.get("parallelism", 1)
    if spec.get("completions") is None:
        return len(stock.active) if stock.all_succeeded else parallelism
    completions: int = spec["completions"]
    done = len(stock.indexes) if is_indexed(job) else stock.all_succeeded
    return max(0, min(completions - done, parallelism))


def free_indexes(job: JsonObject, pods: Sequence[JsonObject], stock: Stock) -> list[int]:
    """The indexes nobody works on, lowest first."""
    at_work = {index_of(pod) for pod in stock.active}
    if replaces_only_finished(job):
        at_work |= {index_of(pod) for pod in pods if is_leaving(pod)}
    completions = job["spec"].get("completions", 0)
    return [n for n in range(completions) if n not in at_work and n not in stock.indexes]


def with_index(template: JsonObject, job_name: str, index: int) -> JsonObject:
    """A template for the pod of one index, which finds its number in its environment."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    number = {INDEX: str(index)}
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": _ENVIRONMENT, "valueFrom": field}
    changed = {**spec, "hostname": f"{job_name}-{index}"}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            changed[part] = [_with_variable(container, variable) for container in spec[part]]
    return {
        "metadata": {
            **metadata,
            "labels": {**(metadata.get("labels") or {}), **number},
            "annotations": {**(metadata.get("annotations") or {}), **number},
        },
        "spec": changed,
    }


def is_indexed(job: JsonObject) -> bool:
    """Whether every pod works on a number of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_over(job: JsonObject) -> bool:
    """Whether a job has ended."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def is_tracked(pod: JsonObject) -> bool:
    """Whether a pod has still to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def index_of(pod: JsonObject) -> int:
    """The number a pod works on, -1 when it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def seconds_to_deadline(job: JsonObject, now: datetime) -> float | None:
    """How long a job may still go on, or None when that is not limited."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if seconds is None or started is None or job["spec"].get("suspend"):
        return None
    return (parse_timestamp(started) + timedelta(seconds=seconds) - now).total_seconds()


def interval_text(numbers: Iterable[int]) -> str:
    """Numbers as people write them: ``1,3-5,7``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(
        str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
        for first, last in runs
    )


def _interval_numbers(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _has_ended(job: JsonObject, pod: JsonObject) -> bool:
    """Whether a pod does nothing more for its job.

    One that is told to go counts as failed at once, because it may never get to say so itself.
    """
    if phase(pod) in ("Succeeded", "Failed"):
        return True
    return is_leaving(pod) and not replaces_only_finished(job)


def _succeeded_indexes(job: JsonObject, pods: Sequence[JsonObject]) -> frozenset[int]:
    known = _interval_numbers((job.get("status") or {}).get("completedIndexes", ""))
    fresh = {index_of(pod) for pod in pods if phase(pod) == "Succeeded"}
    return frozenset(n for n in known | fresh if 0 <= n < job["spec"].get("completions", 0))


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


def _with_variable(container: JsonObject, variable: JsonObject) -> JsonObject:
    known = container.get("env") or []
    if any(entry["name"] == variable["name"] for entry in known):
        return container
    return {**container, "env": [*known, variable]}
