"""What is wrong with the kinds that run pods."""

import re
from typing import Any, Final

from karpenter.admission.errors import Path
from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.validation import grammar
from karpenter_sandbox.kinds.validation.pods import restart_problems, template_problems
from karpenter_sandbox.kinds.validation.problems import (
    Problems,
    forbidden,
    immutable,
    not_negative,
    one_of,
    required,
    unsupported,
    wrong,
)
from karpenter_sandbox.kinds.validation.selecting import selector_problems
from karpenter_sandbox.matching import read_selector

_SPEC: Final[Path] = ("spec",)
_TEMPLATE: Final[Path] = ("spec", "template")
_STATEFUL_CHANGES: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
# Kinds that can be scaled and are not of the core group
_GROUPED_KINDS: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
_JOB_FIXED: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def deployment_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a Deployment."""
    spec = obj["spec"]
    yield from not_negative(_SPEC, spec, "replicas")
    yield from _selector_problems(spec, "deployment")
    yield from _template_problems(spec, "ReplicaSet")
    yield from _strategy_problems(spec.get("strategy") or {}, (*_SPEC, "strategy"))
    yield from not_negative(
        _SPEC, spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        yield wrong((*_SPEC, "progressDeadlineSeconds"), deadline, detail)
    if old is not None:
        yield from immutable(_SPEC, spec, old["spec"], "selector")


def replica_set_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a ReplicaSet."""
    spec = obj["spec"]
    yield from not_negative(_SPEC, spec, "replicas", "minReadySeconds")
    yield from _selector_problems(spec, "replicaset")
    yield from _template_problems(spec, "ReplicaSet")
    if old is not None:
        yield from immutable(_SPEC, spec, old["spec"], "selector")


def replication_controller_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with a ReplicationController."""
    spec = obj["spec"]
    yield from not_negative(_SPEC, spec, "replicas", "minReadySeconds")
    if not spec.get("selector"):
        yield required((*_SPEC, "selector"))
    yield from _template_problems(
        {**spec, "selector": {"matchLabels": spec.get("selector") or {}}}, "ReplicaSet"
    )


def stateful_set_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a StatefulSet."""
    spec = obj["spec"]
    policy = spec.get("podManagementPolicy", "")
    if policy not in {"OrderedReady", "Parallel"}:
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield wrong((*_SPEC, "podManagementPolicy"), policy, detail)
    strategy = spec.get("updateStrategy") or {}
    place = (*_SPEC, "updateStrategy")
    if strategy.get("type") not in {"RollingUpdate", "OnDelete"}:
        detail = "must be 'RollingUpdate' or 'OnDelete'"
        yield wrong(place, _shown_strategy(strategy), detail)
    yield from not_negative(
        (*place, "rollingUpdate"), strategy.get("rollingUpdate") or {}, "partition"
    )
    yield from not_negative(_SPEC, spec, "replicas", "minReadySeconds")
    yield from _selector_problems(spec, "statefulset")
    yield from _template_problems(_with_claimed_volumes(spec), "StatefulSet")
    if old is None:
        for problem in grammar.dns_label(obj["metadata"].get("name", "")):
            yield wrong(("metadata", "name"), obj["metadata"].get("name"), problem)
        return
    names = (spec.keys() | old["spec"].keys()) - set(_STATEFUL_CHANGES)
    if any(spec.get(name) != old["spec"].get(name) for name in names):
        listed = ", ".join(f"'{name}'" for name in _STATEFUL_CHANGES[:-1])
        detail = (
            f"updates to statefulset spec for fields other than {listed}"
            f" and '{_STATEFUL_CHANGES[-1]}' are forbidden"
        )
        yield forbidden(_SPEC, detail)


def daemon_set_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a DaemonSet."""
    spec = obj["spec"]
    yield from _selector_problems(spec, "daemonset")
    yield from _template_problems(spec, "DaemonSet")
    yield from not_negative(_SPEC, spec, "minReadySeconds", "revisionHistoryLimit")
    strategy, place = spec.get("updateStrategy") or {}, (*_SPEC, "updateStrategy")
    if strategy.get("type") not in {"RollingUpdate", "OnDelete"}:
        yield unsupported(place, _shown_strategy(strategy), ("RollingUpdate", "OnDelete"))
    rolling = strategy.get("rollingUpdate") or {}
    for name in ("maxUnavailable", "maxSurge"):
        yield from count_problems(rolling.get(name), (*place, "rollingUpdate", name))
    if old is not None:
        yield from immutable(_SPEC, spec, old["spec"], "selector")


def job_problems(obj: JsonObject, old: JsonObject | None) -> Problems:
    """What is wrong with a Job."""
    spec = obj["spec"]
    yield from _job_spec_problems(spec, _SPEC)
    yield from _match_problems(spec, _TEMPLATE)
    if old is None:
        return
    yield from immutable(_SPEC, spec, old["spec"], *_JOB_FIXED)
    was_suspended = old["spec"].get("suspend") is True
    if not was_suspended:
        yield from immutable(_SPEC, spec, old["spec"], "template")
    if spec.get("completionMode") != "Indexed":
        yield from immutable(_SPEC, spec, old["spec"], "completions")


def cron_job_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with a CronJob."""
    spec = obj["spec"]
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required((*_SPEC, "schedule"))
    elif len(schedule.split()) != 5 and not schedule.startswith("@"):
        found = len(schedule.split())
        detail = f"expected exactly 5 fields, found {found}: [{schedule}]"
        yield wrong((*_SPEC, "schedule"), schedule, detail)
    yield from one_of(_SPEC, spec, "concurrencyPolicy", "Allow", "Forbid", "Replace")
    yield from not_negative(
        _SPEC,
        spec,
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    )
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from _job_spec_problems(inner, (*_SPEC, "jobTemplate", "spec"))


def autoscaler_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with a HorizontalPodAutoscaler."""
    spec = obj["spec"]
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        detail = "must be greater than or equal to 1"
        yield wrong((*_SPEC, "minReplicas"), least, detail)
    if most < 1:
        yield wrong((*_SPEC, "maxReplicas"), most, "must be greater than 0")
    if least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        yield wrong((*_SPEC, "maxReplicas"), most, detail)
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        if not target.get(name):
            yield required((*_SPEC, "scaleTargetRef", name))
    if target.get("kind") in _GROUPED_KINDS and not target.get("apiVersion"):
        detail = "apiVersion must specify API group"
        yield wrong((*_SPEC, "scaleTargetRef", "apiVersion"), "", detail)


def budget_problems(obj: JsonObject, _old: JsonObject | None) -> Problems:
    """What is wrong with a PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield wrong(_SPEC, shown, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        yield from count_problems(spec.get(name), (*_SPEC, name))
    yield from selector_problems(spec.get("selector"), (*_SPEC, "selector"))
    allowed = ("AlwaysAllow", "IfHealthyBudget")
    yield from one_of(_SPEC, spec, "unhealthyPodEvictionPolicy", *allowed)


def count_problems(value: Any, path: Path) -> Problems:
    """What is wrong with a number that may be a share instead."""
    if isinstance(value, str):
        if not re.fullmatch("[0-9]+%", value):
            detail = (
                "a valid percent string must be a numeric string followed by an ending '%'"
                " (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            yield wrong(path, value, detail)
        elif int(value[:-1]) > 100:
            yield wrong(path, value, "must not be greater than 100%")
    elif value is not None and value < 0:
        yield wrong(path, value, "must be greater than or equal to 0")


def _selector_problems(spec: JsonObject, owner: str) -> Problems:
    selector, path = spec.get("selector"), (*_SPEC, "selector")
    if selector is None:
        yield required(path)
        return
    yield from selector_problems(selector, path)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield wrong(path, selector, f"empty selector is invalid for {owner}")


def _template_problems(spec: JsonObject, owner: str) -> Problems:
    template = spec.get("template") or {}
    yield from _match_problems(spec, _TEMPLATE)
    yield from template_problems(template, _TEMPLATE)
    yield from restart_problems(template, _TEMPLATE, owner)


def _with_claimed_volumes(spec: JsonObject) -> JsonObject:
    """The set with the volumes that its pods will have; those of claims come first and win."""
    claims = spec.get("volumeClaimTemplates") or []
    names = {(claim.get("metadata") or {}).get("name", ""): None for claim in claims}
    if not names:
        return spec
    template = spec.get("template") or {}
    inner = template.get("spec") or {}
    claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    others = [each for each in inner.get("volumes") or [] if each.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**inner, "volumes": [*claimed, *others]}}}


def _match_problems(spec: JsonObject, path: Path) -> Problems:
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    selector = spec.get("selector")
    if selector is None or not read_selector(selector).matches(labels or {}):
        detail = "`selector` does not match template `labels`"
        yield wrong((*path, "metadata", "labels"), labels, detail)


def _strategy_problems(strategy: JsonObject, path: Path) -> Problems:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "Recreate":
            if rolling is not None:
                detail = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden((*path, "rollingUpdate"), detail)
        case "RollingUpdate":
            place = (*path, "rollingUpdate")
            unavailable, surge = (
                (rolling or {}).get("maxUnavailable"),
                (rolling or {}).get("maxSurge"),
            )
            yield from count_problems(unavailable, (*place, "maxUnavailable"))
            if not (isinstance(surge, str) and re.fullmatch("[0-9]+%", surge)):
                yield from count_problems(surge, (*place, "maxSurge"))
            if unavailable in {0, "0%"} and surge in {0, "0%"}:
                detail = "may not be 0 when `maxSurge` is 0"
                yield wrong((*place, "maxUnavailable"), unavailable, detail)
        case _:
            yield unsupported(path, _shown_strategy(strategy), ("Recreate", "RollingUpdate"))


def _shown_strategy(strategy: JsonObject) -> JsonObject:
    """A strategy as messages show it: under the names it has inside the server."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def _job_spec_problems(spec: JsonObject, path: Path) -> Problems:
    yield from not_negative(
        path,
        spec,
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    )
    yield from one_of(path, spec, "completionMode", "NonIndexed", "Indexed")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield required((*path, "completions"), "when completion mode is Indexed")
    template = spec.get("template") or {}
    place = (*path, "template")
    yield from template_problems(template, place)
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in {None, "", "Always"}:
        detail = 'valid values: "OnFailure", "Never"'
        yield required((*place, "spec", "restartPolicy"), detail)
