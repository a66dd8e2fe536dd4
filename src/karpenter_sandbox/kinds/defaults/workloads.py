"""Defaults of the kinds that run pods: deployments, sets, jobs and autoscalers."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.defaults.filling import each, filled, within
from karpenter_sandbox.kinds.defaults.pods import claim_template, template

# Counts the templates a DaemonSet has had, for old clients
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_HISTORY: Final = 10
_RETRIES: Final = 6
_UNLIMITED: Final = 2**31 - 1
_UTILIZATION: Final = 80


def _rolling(strategy: JsonObject, **limits: object) -> JsonObject:
    """A complete update strategy, a rolling one unless it says otherwise."""
    strategy = filled(strategy, type="RollingUpdate")
    if strategy["type"] != "RollingUpdate":
        return strategy
    strategy = filled(strategy, rollingUpdate={})
    return within(strategy, "rollingUpdate", lambda step: filled(step, **limits))


def deployment(obj: JsonObject) -> JsonObject:
    """A complete Deployment."""

    def strategy(part: JsonObject) -> JsonObject:
        return _rolling(part, maxUnavailable="25%", maxSurge="25%")

    def spec(part: JsonObject) -> JsonObject:
        part = filled(
            part,
            replicas=1,
            strategy={},
            revisionHistoryLimit=_HISTORY,
            progressDeadlineSeconds=600,
        )
        return within(within(part, "strategy", strategy), "template", template)

    return within(obj, "spec", spec)


def replica_set(obj: JsonObject) -> JsonObject:
    """A complete ReplicaSet."""
    return within(obj, "spec", lambda part: within(filled(part, replicas=1), "template", template))


def replication_controller(obj: JsonObject) -> JsonObject:
    """A complete ReplicationController, which takes its labels from its template."""
    spec = obj.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec = filled(spec, selector=labels)
        metadata = obj["metadata"]
        obj = {
            **obj,
            "metadata": metadata if metadata.get("labels") else {**metadata, "labels": labels},
        }
    return replica_set({**obj, "spec": spec})


def stateful_set(obj: JsonObject) -> JsonObject:
    """A complete StatefulSet."""

    def strategy(part: JsonObject) -> JsonObject:
        if not part.get("type"):
            part = filled({**part, "type": "RollingUpdate"}, rollingUpdate={})
        if part["type"] != "RollingUpdate":
            return part
        return within(part, "rollingUpdate", lambda step: filled(step, partition=0))

    def spec(part: JsonObject) -> JsonObject:
        part = filled(
            part,
            replicas=1,
            podManagementPolicy="OrderedReady",
            updateStrategy={},
            revisionHistoryLimit=_HISTORY,
            persistentVolumeClaimRetentionPolicy={},
        )
        part = within(
            part,
            "persistentVolumeClaimRetentionPolicy",
            lambda policy: filled(policy, whenDeleted="Retain", whenScaled="Retain"),
        )
        part = each(part, "volumeClaimTemplates", _own_claim)
        return within(within(part, "updateStrategy", strategy), "template", template)

    return within(obj, "spec", spec)


def _own_claim(claim: JsonObject) -> JsonObject:
    claim = filled(claim, apiVersion="v1", kind="PersistentVolumeClaim", status={})
    claim = within(claim, "status", lambda status: filled(status, phase="Pending"))
    return claim_template(claim)


def daemon_set(obj: JsonObject) -> JsonObject:
    """A complete DaemonSet."""

    def strategy(part: JsonObject) -> JsonObject:
        return _rolling(part, maxUnavailable=1, maxSurge=0)

    def spec(part: JsonObject) -> JsonObject:
        part = filled(part, updateStrategy={}, revisionHistoryLimit=_HISTORY)
        return within(within(part, "updateStrategy", strategy), "template", template)

    metadata = obj.get("metadata") or {}
    annotations = filled(metadata.get("annotations") or {}, **{TEMPLATE_GENERATION: "1"})
    obj = {**obj, "metadata": {**metadata, "annotations": annotations}}
    return within(obj, "spec", spec)


def job(obj: JsonObject) -> JsonObject:
    """A complete Job."""

    def spec(part: JsonObject) -> JsonObject:
        if "completions" not in part and "parallelism" not in part:
            part = filled(part, completions=1)
        retries = _UNLIMITED if "backoffLimitPerIndex" in part else _RETRIES
        replaced = "Failed" if "podFailurePolicy" in part else "TerminatingOrFailed"
        part = filled(
            part,
            parallelism=1,
            backoffLimit=retries,
            completionMode="NonIndexed",
            suspend=False,
            podReplacementPolicy=replaced,
            manualSelector=False,
        )
        return within(part, "template", template)

    labels = (((obj.get("spec") or {}).get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
    return within(obj, "spec", spec)


def cron_job(obj: JsonObject) -> JsonObject:
    """A complete CronJob; the jobs it makes are completed when they are made."""

    def spec(part: JsonObject) -> JsonObject:
        part = filled(
            part,
            concurrencyPolicy="Allow",
            suspend=False,
            successfulJobsHistoryLimit=3,
            failedJobsHistoryLimit=1,
        )
        return within(
            part,
            "jobTemplate",
            lambda made: within(made, "spec", lambda inner: within(inner, "template", template)),
        )

    return within(obj, "spec", spec)


def autoscaler(obj: JsonObject) -> JsonObject:
    """A complete HorizontalPodAutoscaler."""

    def spec(part: JsonObject) -> JsonObject:
        target = {"type": "Utilization", "averageUtilization": _UTILIZATION}
        cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        part = filled(part, minReplicas=1, metrics=[cpu])
        return within(part, "behavior", _behavior)

    return within(obj, "spec", spec)


def _behavior(part: JsonObject) -> JsonObject:
    def policy(kind: str, value: int) -> JsonObject:
        return {"type": kind, "value": value, "periodSeconds": 15}

    def up(rules: JsonObject) -> JsonObject:
        return filled(
            rules,
            stabilizationWindowSeconds=0,
            selectPolicy="Max",
            policies=[policy("Pods", 4), policy("Percent", 100)],
        )

    def down(rules: JsonObject) -> JsonObject:
        return filled(rules, selectPolicy="Max", policies=[policy("Percent", 100)])

    part = filled(part, scaleUp={}, scaleDown={})
    return within(within(part, "scaleUp", up), "scaleDown", down)
