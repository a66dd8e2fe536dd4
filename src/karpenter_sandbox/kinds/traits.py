"""How kinds differ in what an API server does with them, as tables."""

from typing import Final

from karpenter_sandbox.kinds.registry import Resource

# (group, plural) of kinds whose generation counts the changes of their specification
_COUNTED: Final = frozenset(
    {
        ("", "pods"),
        ("", "podtemplates"),
        ("", "replicationcontrollers"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
        ("discovery.k8s.io", "endpointslices"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "ingressclasses"),
        ("networking.k8s.io", "ingresses"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceslices"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)

# Kinds an update must name the version of
_VERSION_REQUIRED: Final = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("coordination.k8s.io", "leases"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
    }
)

# Kinds an update creates when they are not there
_CREATED_BY_UPDATE: Final = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("", "limitranges"),
        ("", "services"),
        ("coordination.k8s.io", "leases"),
        ("events.k8s.io", "events"),
        ("node.k8s.io", "runtimeclasses"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
    }
)

# Kinds whose deletion is answered with the object instead of a Status
_ANSWERED_WITH_OBJECT: Final = frozenset(
    {
        ("", "namespaces"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "pods"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("resource.k8s.io", "resourceslices"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "volumeattributesclasses"),
    }
)

# Kinds that leave their dependents alone unless the deletion says otherwise
_ORPHANING: Final = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})

# Kinds the garbage collector ignores: their deletion has no propagation policy
_WITHOUT_DEPENDENTS: Final = frozenset({("", "events"), ("events.k8s.io", "events")})

# Kinds whose create keeps the status in the body
_CREATED_WITH_STATUS: Final = frozenset({("", "nodes"), ("", "services")})

# Kinds whose labels a write of the status leaves alone
_STATUS_KEEPS_LABELS: Final = frozenset(
    {("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets")}
)


def counts_generations(resource: Resource) -> bool:
    """Whether ``metadata.generation`` is kept."""
    return resource.custom is not None or _name(resource) in _COUNTED


def requires_version(resource: Resource) -> bool:
    """Whether an update must say which version it is based on."""
    return resource.custom is not None or _name(resource) in _VERSION_REQUIRED


def is_created_by_update(resource: Resource) -> bool:
    """Whether an update may create the object."""
    return _name(resource) in _CREATED_BY_UPDATE


def answers_with_object(resource: Resource) -> bool:
    """Whether a deletion is answered with the object that is gone."""
    return _name(resource) in _ANSWERED_WITH_OBJECT


def orphans_by_default(resource: Resource) -> bool:
    """Whether dependents stay unless the deletion says otherwise."""
    return _name(resource) in _ORPHANING


def has_dependents(resource: Resource) -> bool:
    """Whether the garbage collector looks after the dependents of such objects."""
    return _name(resource) not in _WITHOUT_DEPENDENTS


def is_created_with_status(resource: Resource) -> bool:
    """Whether a status in the body of a create is kept."""
    return not resource.has_status or _name(resource) in _CREATED_WITH_STATUS


def status_keeps_labels(resource: Resource) -> bool:
    """Whether a write of the status cannot change labels."""
    return _name(resource) in _STATUS_KEEPS_LABELS


def _name(resource: Resource) -> tuple[str, str]:
    return (resource.group, resource.plural)
