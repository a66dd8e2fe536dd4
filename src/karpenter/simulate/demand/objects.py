"""The objects that workloads are made of."""

from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model import labels
from karpenter.model.quantity import canonical
from karpenter.simulate.scenario.models import Pod, Workload

WORKLOAD: Final = "simulate.karpenter.sh/workload"  # pod annotation: whose start and end are drawn
ROLLOUT: Final = "simulate.karpenter.sh/rollout"  # template annotation: how often it was changed
ON_EVICTION: Final = "simulate.karpenter.sh/on-eviction"  # pod: "resume" keeps what it has done
WORK: Final = "simulate.karpenter.sh/work"  # pod that resumes: how long all of its work takes
RUN_DURATION: Final = "sandbox.karpenter.sh/run-duration"
METRIC_TOTAL: Final = "sandbox.karpenter.sh/metric-total"
GPU: Final = "nvidia.com/gpu"

_TOPOLOGY: Final = {"zone": labels.ZONE, "hostname": labels.HOSTNAME}
JOB_TTL: Final = 60  # seconds that finished Jobs stay, so that memory does not grow with time
_METRIC: Final = "load"
API_VERSIONS: Final = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Pod": "v1",
    "Node": "v1",
    "NodePool": "karpenter.sh/v1",
    "NodeClaim": "karpenter.sh/v1",
    "KWOKNodeClass": "karpenter.kwok.sh/v1alpha1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}


def template_of(workload: Workload, **annotations: str) -> JsonObject:
    """The template of a workload's pods."""
    if workload.template is not None:
        template = dict(workload.template)
    else:
        template = _from_few_words(workload.pod or Pod(), workload.name)
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {"app": workload.name, **(metadata.get("labels") or {})}
    metadata["annotations"] = {
        WORKLOAD: workload.name,
        **(metadata.get("annotations") or {}),
        **annotations,
    }
    return {**template, "metadata": metadata}


def scaled_object(workload: Workload, replicas: int) -> JsonObject:
    """The Deployment or StatefulSet of a workload."""
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": workload.name}},
        "template": template_of(workload),
    }
    if workload.kind == "StatefulSet":
        spec["serviceName"] = workload.name
    return _object("apps/v1", workload.kind, workload, workload.name, spec)


def job(workload: Workload, name: str, pods: int, seconds: float) -> JsonObject:
    """A Job whose pods run for so long; after an eviction all of it again, or what was left."""
    length = f"{seconds:.3f}s"
    resumes = workload.jobs is not None and workload.jobs.on_eviction == "resume"
    notes = {ON_EVICTION: "resume", WORK: length} if resumes else {RUN_DURATION: length}
    template = template_of(workload, **notes)
    return _object("batch/v1", "Job", workload, name, job_spec(template, pods))


def job_spec(template: JsonObject, pods: int) -> JsonObject:
    """The specification of a Job of pods that run beside each other."""
    return {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 100,  # pods that are evicted come again
        "ttlSecondsAfterFinished": JOB_TTL,
        "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}},
    }


def cron_job(workload: Workload, schedule: str, pods: int) -> JsonObject:
    """A CronJob; how long its pods run is drawn when they start."""
    spec = {
        "schedule": schedule,
        "jobTemplate": {"spec": job_spec(template_of(workload), pods)},
    }
    return _object("batch/v1", "CronJob", workload, workload.name, spec)


def autoscaler(workload: Workload, target: tuple[str, str]) -> JsonObject:
    """The autoscaler of a workload."""
    hpa = workload.hpa
    assert hpa is not None
    kind, name = target
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": API_VERSIONS[kind], "kind": kind, "name": name},
        "minReplicas": hpa.min,
        "maxReplicas": hpa.max,
        "metrics": [total_metric(hpa.per_pod)],
    }
    if hpa.behavior is not None:
        spec["behavior"] = hpa.behavior
    return _object("autoscaling/v2", "HorizontalPodAutoscaler", workload, workload.name, spec)


def total_metric(per_pod: float) -> JsonObject:
    """A metric of which each pod carries so much, and whose total an annotation sets."""
    return {
        "type": "Pods",
        "pods": {
            "metric": {"name": _METRIC},
            "target": {"type": "AverageValue", "averageValue": f"{per_pod:.3f}"},
        },
    }


def budget(workload: Workload) -> JsonObject:
    """The PodDisruptionBudget of a workload."""
    selector = {"selector": {"matchLabels": {"app": workload.name}}}
    spec = {**selector, **(workload.pdb or {})}
    return _object("policy/v1", "PodDisruptionBudget", workload, workload.name, spec)


def _from_few_words(pod: Pod, name: str) -> JsonObject:
    requests: dict[str, str] = {}
    if pod.cpu is not None:
        requests["cpu"] = canonical(pod.cpu)
    if pod.memory is not None:
        requests["memory"] = canonical(pod.memory)
    resources: dict[str, Any] = {"requests": requests}
    if pod.gpu:
        requests[GPU] = str(pod.gpu)
        resources["limits"] = {GPU: str(pod.gpu)}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": pod.image, "resources": resources}]
    }
    selector = {"labelSelector": {"matchLabels": {"app": name}}}
    if pod.node_selector:
        spec["nodeSelector"] = dict(pod.node_selector)
    if pod.tolerations:
        spec["tolerations"] = list(pod.tolerations)
    if pod.spread is not None:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": _TOPOLOGY[pod.spread],
                "whenUnsatisfiable": "DoNotSchedule",
                **selector,
            }
        ]
    if pod.anti_affinity is not None:
        term = {"topologyKey": _TOPOLOGY[pod.anti_affinity], **selector}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": rule}
    if pod.priority is not None:
        spec["priorityClassName"] = pod.priority
    metadata: dict[str, Any] = {"labels": dict(pod.labels)}
    if pod.do_not_disrupt:
        metadata["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    return {"metadata": metadata, "spec": spec}


def _object(
    api_version: str, kind: str, workload: Workload, name: str, spec: JsonObject
) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": workload.namespace},
        "spec": spec,
    }
