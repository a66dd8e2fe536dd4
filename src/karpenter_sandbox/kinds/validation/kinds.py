"""Which checks run for which of Kubernetes' own kinds."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from karpenter.admission.errors import FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.validation import others, workloads
from karpenter_sandbox.kinds.validation.crds import crd_errors
from karpenter_sandbox.kinds.validation.pods import pod_problems, template_problems
from karpenter_sandbox.kinds.validation.problems import Problems

if TYPE_CHECKING:
    from karpenter_sandbox.kinds.registry import Resource

Check = Callable[[JsonObject, JsonObject | None], Problems]


def kind_errors(
    obj: JsonObject, old: JsonObject | None, resource: "Resource", subresource: str
) -> list[FieldError]:
    """List what is wrong with an object of one of Kubernetes' own kinds."""
    # Status writes are not validated, except those of nodes: the scheduler computes with them
    if subresource and (resource.kind, subresource) != ("Node", "status"):
        return []
    return object_errors(obj, resource.group, resource.kind, old)


def object_errors(
    obj: JsonObject, group: str, kind: str, old: JsonObject | None = None
) -> list[FieldError]:
    """List what is wrong with a complete object of a kind; with ``old``, as an update of it."""
    check = _CHECKS.get((group, kind))
    return list(check(obj, old)) if check is not None else []


def kind_warnings(obj: JsonObject, resource: "Resource") -> list[str]:
    """List what a client should know although the object is stored."""
    if (resource.group, resource.kind) == ("", "Pod"):
        spec = obj.get("spec") or {}
        grace = spec.get("terminationGracePeriodSeconds", 0)
        if grace < 0:
            return ["spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid"]
    return []


def _pod_template(obj: JsonObject, _old: JsonObject | None) -> Problems:
    return template_problems(obj.get("template") or {}, ("template",))


def _definition(obj: JsonObject, old: JsonObject | None) -> Problems:
    return iter(crd_errors(obj, old))


_CHECKS: Final[Mapping[tuple[str, str], Check]] = {
    ("", "ConfigMap"): others.config_map_problems,
    ("", "Event"): others.event_problems,
    ("", "Node"): others.node_problems,
    ("", "PersistentVolume"): others.volume_problems,
    ("", "PersistentVolumeClaim"): others.claim_problems,
    ("", "Pod"): pod_problems,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): workloads.replication_controller_problems,
    ("", "Secret"): others.secret_problems,
    ("", "Service"): others.service_problems,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apps", "DaemonSet"): workloads.daemon_set_problems,
    ("apps", "Deployment"): workloads.deployment_problems,
    ("apps", "ReplicaSet"): workloads.replica_set_problems,
    ("apps", "StatefulSet"): workloads.stateful_set_problems,
    ("autoscaling", "HorizontalPodAutoscaler"): workloads.autoscaler_problems,
    ("batch", "CronJob"): workloads.cron_job_problems,
    ("batch", "Job"): workloads.job_problems,
    ("coordination.k8s.io", "Lease"): others.lease_problems,
    ("policy", "PodDisruptionBudget"): workloads.budget_problems,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): others.role_binding_problems,
    ("rbac.authorization.k8s.io", "RoleBinding"): others.role_binding_problems,
    ("scheduling.k8s.io", "PriorityClass"): others.priority_class_problems,
    ("storage.k8s.io", "StorageClass"): others.storage_class_problems,
}
