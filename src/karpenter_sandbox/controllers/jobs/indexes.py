"""Indexed jobs: which completion indexes have succeeded, failed or are free; pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.jobs.failure_policy import (
    fails_index,
    has_ended,
    meaning,
    replaces_only_finished,
)
from karpenter_sandbox.controllers.pods import is_active, is_leaving, phase

INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_ENVIRONMENT: Final = "JOB_COMPLETION_INDEX"


def is_indexed(job: JsonObject) -> bool:
    """Whether every pod has a completion index of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def limit_per_index(job: JsonObject) -> int | None:
    """How many failures each index may have, or None when only their sum is limited."""
    limit: int | None = job["spec"].get("backoffLimitPerIndex")
    return limit if is_indexed(job) else None


def index_of(pod: JsonObject) -> int:
    """The completion index of a pod, -1 when it has none."""
    return _annotated(pod, INDEX, -1)


def succeeded_indexes(job: JsonObject, pods: Sequence[JsonObject]) -> frozenset[int]:
    """The indexes that have succeeded."""
    if not is_indexed(job):
        return frozenset()
    known = interval_numbers((job.get("status") or {}).get("completedIndexes") or "")
    fresh = {index_of(pod) for pod in pods if phase(pod) == "Succeeded"}
    return _within(job, known | fresh)


def failed_indexes(job: JsonObject, pods: Sequence[JsonObject]) -> frozenset[int]:
    """The indexes that have failed and are not retried."""
    limit = limit_per_index(job)
    if limit is None:
        return frozenset()
    known = interval_numbers((job.get("status") or {}).get("failedIndexes") or "")
    fresh = {
        index_of(pod)
        for pod in pods
        if _has_failed(job, pod) and (fails_index(job, pod) or _failures(job, pod) > limit)
    }
    return _within(job, known | fresh)


def free_indexes(
    job: JsonObject, pods: Sequence[JsonObject], over: frozenset[int], held_back: Iterable[int] = ()
) -> list[int]:
    """The indexes without an active pod, lowest first.

    Args:
        job: the job.
        pods: its pods.
        over: indexes that have succeeded or failed.
        held_back: indexes in back-off.
    """
    waits = replaces_only_finished(job)
    taken = {index_of(pod) for pod in pods if is_active(pod) or (waits and is_leaving(pod))}
    taken.update(over, held_back)
    return [number for number in range(job["spec"].get("completions", 0)) if number not in taken]


def failures_so_far(job: JsonObject, pods: Sequence[JsonObject], index: int) -> int:
    """How often the pods of an index have failed."""
    mine = (pod for pod in pods if index_of(pod) == index and _has_failed(job, pod))
    return max((_failures(job, pod) for pod in mine), default=0)


def with_index(template: JsonObject, job: JsonObject, index: int, failures: int) -> JsonObject:
    """The template for the pod of one index, with the index in metadata and environment."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    number = {INDEX: str(index)}
    marks = number
    if limit_per_index(job) is not None:
        marks = {**number, FAILURES: str(failures)}
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": _ENVIRONMENT, "valueFrom": field}
    changed = {**spec, "hostname": f"{job['metadata']['name']}-{index}"}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            changed[part] = [_with_variable(container, variable) for container in spec[part]]
    return {
        "metadata": {
            **metadata,
            "labels": {**(metadata.get("labels") or {}), **number},
            "annotations": {**(metadata.get("annotations") or {}), **marks},
        },
        "spec": changed,
    }


def matched_success(job: JsonObject, succeeded: frozenset[int]) -> str:
    """The success policy rule that is met, in words; empty when none is."""
    policy = job["spec"].get("successPolicy") or {}
    for place, rule in enumerate(policy.get("rules") or []):
        wanted = succeeded
        if rule.get("succeededIndexes"):
            wanted = _within(job, interval_numbers(rule["succeededIndexes"]))
        if len(wanted & succeeded) >= rule.get("succeededCount", len(wanted)):
            return f"Matched rules at index {place}"
    return ""


def interval_text(numbers: Iterable[int]) -> str:
    """Indexes as intervals, the form of the Job status: ``1,3-5,7``."""
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


def interval_numbers(text: str) -> frozenset[int]:
    """The indexes that ``interval_text`` wrote."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _within(job: JsonObject, numbers: Iterable[int]) -> frozenset[int]:
    return frozenset(n for n in numbers if 0 <= n < job["spec"].get("completions", 0))


def _has_failed(job: JsonObject, pod: JsonObject) -> bool:
    return has_ended(job, pod) and phase(pod) != "Succeeded"


def _failures(job: JsonObject, pod: JsonObject) -> int:
    """How often an index has failed, up to and including this pod."""
    return _annotated(pod, FAILURES, 0) + meaning(job, pod).counts


def _annotated(pod: JsonObject, name: str, default: int) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def _with_variable(container: JsonObject, variable: JsonObject) -> JsonObject:
    known = container.get("env") or []
    if any(entry["name"] == variable["name"] for entry in known):
        return container
    return {**container, "env": [*known, variable]}
