"""What a failed pod means for its job, by the rules its author wrote; pure."""

from typing import NamedTuple

from karpenter.sandbox.controllers.informer import JsonObject


class Meaning(NamedTuple):
    """Whether a failure counts, and why it ends the job, if it does."""

    counts: bool
    ends_job: str


_COUNTED = Meaning(True, "")
_IGNORED = Meaning(False, "")


def meaning(job: JsonObject, pod: JsonObject) -> Meaning:
    """What the first rule that fits a failed pod says; without one the failure counts."""
    policy = job["spec"].get("podFailurePolicy") or {}
    for index, rule in enumerate(policy.get("rules") or []):
        fact = _fact(rule, pod)
        if not fact:
            continue
        match rule["action"]:
            case "Ignore":
                return _IGNORED
            case "FailJob":
                return Meaning(True, f"{fact} matching FailJob rule at index {index}")
            case _:
                return _COUNTED
    return _COUNTED


def replaces_only_finished(job: JsonObject) -> bool:
    """Whether a pod that is still going is waited for before another takes its place."""
    default = "Failed" if job["spec"].get("podFailurePolicy") else "TerminatingOrFailed"
    return bool(job["spec"].get("podReplacementPolicy", default) == "Failed")


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
