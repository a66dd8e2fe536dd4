"""Rows of nodes, namespaces, events, and of what pods use: configuration, identities, quotas."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from karpenter_sandbox.server.printing.parts import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Column,
    JsonObject,
    Printer,
    age,
    at,
    columns,
    condition_status,
    name_of,
    since,
)

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _node(obj: JsonObject, now: datetime) -> Cells:
    info = at(obj, "status", "nodeInfo")
    return [
        name_of(obj),
        _node_status(obj),
        ",".join(_roles(obj)) or NONE,
        age(obj, now),
        at(info, "kubeletVersion", default=""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        at(info, "osImage") or UNKNOWN,
        at(info, "kernelVersion") or UNKNOWN,
        at(info, "containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: JsonObject) -> str:
    ready = condition_status(obj, "Ready")
    status = {None: "Unknown", "True": "Ready"}.get(ready, "NotReady")
    return f"{status},SchedulingDisabled" if at(obj, "spec", "unschedulable") else status


def _roles(obj: JsonObject) -> list[str]:
    found = set()
    for key, value in at(obj, "metadata", "labels", default={}).items():
        role = value if key == _ROLE else None
        if key.startswith(_ROLE_PREFIX):
            role = key.removeprefix(_ROLE_PREFIX)
        if role:
            found.add(role)
    return sorted(found)


def _address(obj: JsonObject, kind: str) -> str:
    for address in at(obj, "status", "addresses", default=[]):
        if at(address, "type") == kind:
            return str(at(address, "address", default=""))
    return NONE


def _namespace(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), at(obj, "status", "phase", default=""), age(obj, now)]


def _event(obj: JsonObject, now: datetime) -> Cells:
    """An event, in the words of ``v1`` or of ``events.k8s.io``."""
    first = _either(obj, "firstTimestamp", "deprecatedFirstTimestamp") or at(obj, "eventTime")
    last = _either(obj, "lastTimestamp", "deprecatedLastTimestamp") or first
    count = _either(obj, "count", "deprecatedCount") or 1
    series = at(obj, "series")
    if series is not None:
        last, count = at(series, "lastObservedTime"), at(series, "count", default=0)
    target = _either(obj, "involvedObject", "regarding")
    kind = str(at(target, "kind", default="")).lower()
    name = at(target, "name")
    return [
        since(last, now),
        at(obj, "type", default=""),
        at(obj, "reason", default=""),
        f"{kind}/{name}" if name else kind,
        at(target, "fieldPath", default=""),
        _event_source(obj),
        str(_either(obj, "message", "note") or "").strip(),
        since(first, now),
        count,
        name_of(obj),
    ]


def _either(obj: JsonObject, name: str, other: str) -> Any:
    return at(obj, name, default=at(obj, other))


def _event_source(obj: JsonObject) -> str:
    source = _either(obj, "source", "deprecatedSource")
    controller = _either(obj, "reportingComponent", "reportingController")
    component = at(source, "component") or controller or ""
    instance = at(source, "host") or at(obj, "reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _lease(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), at(obj, "spec", "holderIdentity", default=""), age(obj, now)]


def _config_map(obj: JsonObject, now: datetime) -> Cells:
    entries = len(at(obj, "data", default={})) + len(at(obj, "binaryData", default={}))
    return [name_of(obj), entries, age(obj, now)]


def _secret(obj: JsonObject, now: datetime) -> Cells:
    entries = len(at(obj, "data", default={}))
    return [name_of(obj), at(obj, "type", default=""), entries, age(obj, now)]


def _name_and_age(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), age(obj, now)]


def _resource_quota(obj: JsonObject, now: datetime) -> Cells:
    hard = at(obj, "status", "hard", default={})
    used = at(obj, "status", "used", default={})
    entries = {name: f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in entries.items() if name.startswith("limits.")]
    requests = [text for name, text in entries.items() if not name.startswith("limits.")]
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _priority_class(obj: JsonObject, now: datetime) -> Cells:
    return [
        name_of(obj),
        at(obj, "value", default=0),
        at(obj, "globalDefault", default=False),
        age(obj, now),
        at(obj, "preemptionPolicy", default=""),
    ]


def _runtime_class(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), at(obj, "handler", default=""), age(obj, now)]


def _role_binding(obj: JsonObject, now: datetime) -> Cells:
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in at(obj, "subjects", default=[]):
        kind, name = at(subject, "kind"), at(subject, "name", default="")
        if kind == "ServiceAccount":
            name = f"{at(subject, 'namespace', default='')}/{name}"
        subjects.get(kind, []).append(name)
    role = at(obj, "roleRef")
    return [
        name_of(obj),
        f"{at(role, 'kind', default='')}/{at(role, 'name', default='')}",
        age(obj, now),
        *(", ".join(names) for names in subjects.values()),
    ]


def _signing_request(obj: JsonObject, now: datetime) -> Cells:
    conditions = {at(c, "type") for c in at(obj, "status", "conditions", default=[])}
    status = "Pending"
    if "Denied" in conditions:
        status = "Denied"
    elif "Approved" in conditions:
        status = "Approved"
    status += ",Failed" if "Failed" in conditions else ""
    status += ",Issued" if at(obj, "status", "certificate") else ""
    return [
        name_of(obj),
        age(obj, now),
        at(obj, "spec", "signerName") or NONE,
        at(obj, "spec", "username", default=""),
        NONE,
        status,
    ]


def _component_status(obj: JsonObject, _now: datetime) -> Cells:
    for condition in at(obj, "conditions", default=[]):
        if at(condition, "type") == "Healthy":
            status = "Healthy" if at(condition, "status") == "True" else "Unhealthy"
            texts = (at(condition, key, default="") for key in ("message", "error"))
            return [name_of(obj), status, *texts]
    return [name_of(obj), "Unknown", "", ""]


def _webhooks(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), len(at(obj, "webhooks", default=[])), age(obj, now)]


def _admission_policy(obj: JsonObject, now: datetime) -> Cells:
    kind = at(obj, "spec", "paramKind")
    shown = UNSET
    if kind is not None:
        shown = f"{at(kind, 'apiVersion', default='')}/{at(kind, 'kind', default='')}"
    return [name_of(obj), len(at(obj, "spec", "validations", default=[])), shown, age(obj, now)]


def _admission_binding(obj: JsonObject, now: datetime) -> Cells:
    reference = at(obj, "spec", "paramRef")
    shown = UNSET
    if name := at(reference, "name"):
        shown = f"{at(reference, 'namespace') or '*'}/{name}"
    return [name_of(obj), at(obj, "spec", "policyName", default=""), shown, age(obj, now)]


def _api_service(obj: JsonObject, now: datetime) -> Cells:
    service = at(obj, "spec", "service")
    host = f"{at(service, 'namespace')}/{at(service, 'name')}" if service is not None else "Local"
    return [name_of(obj), host, condition_status(obj, "Available") or "Unknown", age(obj, now)]


def _flow_schema(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    return [
        name_of(obj),
        at(spec, "priorityLevelConfiguration", "name", default=""),
        at(spec, "matchingPrecedence", default=0),
        at(spec, "distinguisherMethod", "type", default=NONE),
        age(obj, now),
        condition_status(obj, "Dangling") or "?",
    ]


def _priority_level(obj: JsonObject, now: datetime) -> Cells:
    limited = at(obj, "spec", "limited")
    queuing = at(limited, "limitResponse", "queuing")
    sizes = (at(queuing, key, default=NONE) for key in ("queues", "handSize", "queueLengthLimit"))
    return [
        name_of(obj),
        at(obj, "spec", "type", default=""),
        at(limited, "nominalConcurrencyShares", default=NONE),
        *sizes,
        age(obj, now),
    ]


_EVENT_COLUMNS: Final = (
    Column("Last Seen"),
    Column("Type"),
    Column("Reason"),
    Column("Object"),
    Column("Subobject", priority=1),
    Column("Source", priority=1),
    Column("Message"),
    Column("First Seen", priority=1),
    Column("Count", priority=1),
    Column("Name", priority=1, format="name"),
)
_BINDING_COLUMNS: Final = columns("Role|Age", wide="Users|Groups|ServiceAccounts")
_AGE_ONLY: Final = Printer(columns("Age"), _name_and_age)

PRINTERS: Final[Mapping[str, Printer]] = {
    "Node": Printer(
        columns(
            "Status|Roles|Age|Version",
            wide="Internal-IP|External-IP|OS-Image|Kernel-Version|Container-Runtime",
        ),
        _node,
    ),
    "Namespace": Printer(columns("Status|Age"), _namespace),
    "Event": Printer(_EVENT_COLUMNS, _event),
    "Lease": Printer(columns("Holder|Age"), _lease),
    "ConfigMap": Printer(columns("Data|Age"), _config_map),
    "Secret": Printer(columns("Type|Data|Age"), _secret),
    "ServiceAccount": _AGE_ONLY,
    "DeviceClass": _AGE_ONLY,
    "ResourceClaimTemplate": _AGE_ONLY,
    "ResourceQuota": Printer(columns("Request|Limit|Age"), _resource_quota),
    "PriorityClass": Printer(
        (
            Column("Name", format="name"),
            Column("Value", "integer"),
            Column("Global-Default", "boolean"),
            Column("Age"),
            Column("PreemptionPolicy"),
        ),
        _priority_class,
    ),
    "RuntimeClass": Printer(columns("Handler|Age"), _runtime_class),
    "RoleBinding": Printer(_BINDING_COLUMNS, _role_binding),
    "ClusterRoleBinding": Printer(_BINDING_COLUMNS, _role_binding),
    "CertificateSigningRequest": Printer(
        columns("Age|SignerName|Requestor|RequestedDuration|Condition"), _signing_request
    ),
    "ComponentStatus": Printer(columns("Status|Message|Error"), _component_status),
    "MutatingWebhookConfiguration": Printer(
        columns("Webhooks|Age", integers=("Webhooks",)), _webhooks
    ),
    "ValidatingWebhookConfiguration": Printer(
        columns("Webhooks|Age", integers=("Webhooks",)), _webhooks
    ),
    "ValidatingAdmissionPolicy": Printer(
        columns("Validations|ParamKind|Age", integers=("Validations",)), _admission_policy
    ),
    "ValidatingAdmissionPolicyBinding": Printer(
        columns("PolicyName|ParamRef|Age"), _admission_binding
    ),
    "APIService": Printer(columns("Service|Available|Age"), _api_service),
    "FlowSchema": Printer(
        columns("PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL"),
        _flow_schema,
    ),
    "PriorityLevelConfiguration": Printer(
        columns("Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age"),
        _priority_level,
    ),
}
