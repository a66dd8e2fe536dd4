"""Which defaults belong to which kind."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.defaults import others, pods, workloads
from karpenter_sandbox.kinds.defaults.filling import Change, within

if TYPE_CHECKING:
    from karpenter_sandbox.kinds.registry import Resource

_DEFAULTS: Final[Mapping[tuple[str, str], Change]] = {
    ("", "Endpoints"): others.endpoints,
    ("", "LimitRange"): others.limit_range,
    ("", "Namespace"): others.namespace,
    ("", "Node"): others.node,
    ("", "PersistentVolume"): others.volume,
    ("", "PersistentVolumeClaim"): others.claim,
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): lambda obj: within(obj, "template", pods.template),
    ("", "ReplicationController"): workloads.replication_controller,
    ("", "Secret"): others.secret,
    ("", "Service"): others.service,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): others.webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): others.webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): others.definition,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): workloads.autoscaler,
    ("batch", "CronJob"): workloads.cron_job,
    ("batch", "Job"): workloads.job,
    ("discovery.k8s.io", "EndpointSlice"): others.endpoint_slice,
    ("networking.k8s.io", "IngressClass"): others.ingress_class,
    ("networking.k8s.io", "NetworkPolicy"): others.network_policy,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): others.role_binding,
    ("rbac.authorization.k8s.io", "RoleBinding"): others.role_binding,
    ("resource.k8s.io", "ResourceClaim"): others.resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): others.resource_claim_template,
    ("scheduling.k8s.io", "PriorityClass"): others.priority_class,
    ("storage.k8s.io", "CSIDriver"): others.csi_driver,
    ("storage.k8s.io", "StorageClass"): others.storage_class,
}


def defaulted(obj: JsonObject, resource: "Resource") -> JsonObject:
    """The object with everything filled in that has a default."""
    return with_defaults(obj, resource.group, resource.kind)


def with_defaults(obj: JsonObject, group: str, kind: str) -> JsonObject:
    """The same for an object of a kind that is known by name alone."""
    complete = _DEFAULTS.get((group, kind))
    return complete(obj) if complete is not None else obj
