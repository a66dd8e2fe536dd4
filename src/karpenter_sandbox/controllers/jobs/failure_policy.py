"""What a failed pod means for its job, by the job's ``podFailurePolicy``; pure."""

from typing import NamedTuple

from karpenter.api.meta import JsonObject
from karpenter_sandbox.controllers.pods import is_finished, is_leaving


class FailureVerdict(NamedTuple):
    """Whether a failure counts, and why it ends the job, if it does."""

    counts: bool
    ends_job: str


_COUNTED = FailureVerdict(True, "")
_IGNORED = FailureVerdict(False, "")


def meaning(job: JsonObject, pod: JsonObject) -> FailureVerdict:
    """The verdict of the first rule that matches a failed pod; without one the failure counts."""
    found = _first_rule(job, pod)
    match found.action:
        case "Ignore":
            return _IGNORED
        case "FailJob":
            return FailureVerdict(
                True, f"{found.fact} matching FailJob rule at index {found.place}"
            )
        case _:
            return _COUNTED


def fails_index(job: JsonObject, pod: JsonObject) -> bool:
    """Whether the completion index of a failed pod is not retried."""
    return _first_rule(job, pod).action == "FailIndex"


def has_ended(job: JsonObject, pod: JsonObject) -> bool:
    """Whether a pod does nothing more for its job.

    One that is being deleted counts as failed at once, because it may never report a phase.
    """
    return is_finished(pod) or (is_leaving(pod) and not replaces_only_finished(job))


def replaces_only_finished(job: JsonObject) -> bool:
    """Whether a terminating pod is replaced only once it has finished."""
    default = "Failed" if job["spec"].get("podFailurePolicy") else "TerminatingOrFailed"
    return bool(job["spec"].get("podReplacementPolicy", default) == "Failed")


class _Rule(NamedTuple):
    place: int
    action: str
    fact: str


def _first_rule(job: JsonObject, pod: JsonObject) -> _Rule:
    """The first rule that fits a failed pod, and what about the pod fits."""
    policy = job["spec"].get("podFailurePolicy") or {}
    for place, rule in enumerate(policy.get("rules") or []):
        if fact := _fact(rule, pod):
            return _Rule(place, rule["action"], fact)
    return _Rule(-1, "Count", "")


def _fact(rule: JsonObject, pod: JsonObject) -> str:
    """What about the pod fits the rule, in words; empty when nothing does."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    if rule.get("onExitCodes"):
        found = _container(rule["onExitCodes"], status)
        if found is None:
            return ""
        code = found["state"]["terminated"]["exitCode"]
        return f"Container {found['name']} for pod {name} failed with exit code {code}"
    for pattern in rule.get("onPodConditions") or []:
        for condition in status.get("conditions") or []:
            if (condition["type"], condition["status"]) == (
                pattern["type"],
                pattern.get("status", "True"),
            ):
                return f"Pod {name} has condition {condition['type']}"
    return ""


def _container(requirement: JsonObject, status: JsonObject) -> JsonObject | None:
    wanted = requirement.get("containerName")
    values, is_in = requirement.get("values") or [], requirement.get("operator") == "In"
    for part in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(part) or []:
            ended = (container.get("state") or {}).get("terminated")
            if not ended or not ended.get("exitCode") or wanted not in (None, container["name"]):
                continue
            if (ended["exitCode"] in values) == is_in:
                found: JsonObject = container
                return found
    return None
