"""Rows of storage, networking and devices."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from karpenter_sandbox.server.printing.parts import (
    NONE,
    UNSET,
    Cells,
    Column,
    JsonObject,
    Printer,
    age,
    at,
    columns,
    first_few,
    labels,
    name_of,
    selector,
)

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_MOST_SHOWN: Final = 3


def _volume(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    claim = at(spec, "claimRef")
    claimed = (
        f"{at(claim, 'namespace', default='')}/{at(claim, 'name', default='')}" if claim else ""
    )
    return [
        name_of(obj),
        str(at(spec, "capacity", "storage", default=0)),
        _access_modes(at(spec, "accessModes")),
        at(spec, "persistentVolumeReclaimPolicy", default=""),
        _phase(obj),
        claimed,
        _class(obj),
        at(spec, "volumeAttributesClassName", default=UNSET),
        at(obj, "status", "reason", default=""),
        age(obj, now),
        at(spec, "volumeMode", default=UNSET),
    ]


def _claim(obj: JsonObject, now: datetime) -> Cells:
    spec, status = at(obj, "spec"), at(obj, "status")
    is_bound = bool(at(spec, "volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        at(spec, "volumeName", default=""),
        str(at(status, "capacity", "storage", default=0)) if is_bound else "",
        _access_modes(at(status, "accessModes")) if is_bound else "",
        _class(obj),
        at(spec, "volumeAttributesClassName", default=UNSET),
        age(obj, now),
        at(spec, "volumeMode", default=UNSET),
    ]


def _phase(obj: JsonObject) -> str:
    if at(obj, "metadata", "deletionTimestamp") is not None:
        return "Terminating"
    return str(at(obj, "status", "phase", default=""))


def _class(obj: JsonObject) -> str:
    annotated = at(obj, "metadata", "annotations", _BETA_CLASS)
    return str(at(obj, "spec", "storageClassName", default="") if annotated is None else annotated)


def _access_modes(modes: Any) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def _storage_class(obj: JsonObject, now: datetime) -> Cells:
    annotations = at(obj, "metadata", "annotations", default={})
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{name_of(obj)} (default)" if is_default else name_of(obj),
        at(obj, "provisioner", default=""),
        at(obj, "reclaimPolicy", default="Delete"),
        at(obj, "volumeBindingMode", default="Immediate"),
        at(obj, "allowVolumeExpansion", default=False),
        age(obj, now),
    ]


def _attachment(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    return [
        name_of(obj),
        at(spec, "attacher", default=""),
        at(spec, "source", "persistentVolumeName", default=""),
        at(spec, "nodeName", default=""),
        at(obj, "status", "attached", default=False),
        age(obj, now),
    ]


def _csi_node(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), len(at(obj, "spec", "drivers", default=[])), age(obj, now)]


def _csi_driver(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    requests = at(spec, "tokenRequests")
    audiences = ",".join(str(at(r, "audience", default="")) for r in requests or ())
    return [
        name_of(obj),
        at(spec, "attachRequired", default=True),
        at(spec, "podInfoOnMount", default=False),
        at(spec, "storageCapacity", default=False),
        UNSET if requests is None else audiences,
        at(spec, "requiresRepublish", default=False),
        ",".join(at(spec, "volumeLifecycleModes", default=[])) or NONE,
        age(obj, now),
    ]


def _attributes_class(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), at(obj, "driverName", default=""), age(obj, now)]


def _service(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    addresses = at(spec, "clusterIPs", default=[])
    return [
        name_of(obj),
        at(spec, "type", default=""),
        addresses[0] if addresses else NONE,
        _external_address(obj),
        ",".join(map(_service_port, at(spec, "ports", default=[]))) or NONE,
        age(obj, now),
        labels(at(spec, "selector")),
    ]


def _external_address(obj: JsonObject) -> str:
    kind = at(obj, "spec", "type")
    external = at(obj, "spec", "externalIPs", default=[])
    if kind == "ExternalName":
        return str(at(obj, "spec", "externalName", default=""))
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        return ",".join([*_ingress_points(obj), *external]) or "<pending>"
    return "<unknown>"


def _ingress_points(obj: JsonObject) -> list[str]:
    points = at(obj, "status", "loadBalancer", "ingress", default=[])
    return sorted({found for p in points if (found := at(p, "ip") or at(p, "hostname"))})


def _service_port(port: Mapping[str, Any]) -> str:
    number, node_port = at(port, "port"), at(port, "nodePort", default=0)
    shown = f"{number}:{node_port}" if node_port else str(number)
    return f"{shown}/{at(port, 'protocol', default='')}"


def _endpoints(obj: JsonObject, now: datetime) -> Cells:
    found = []
    for subset in at(obj, "subsets", default=[]):
        addresses = [str(at(a, "ip")) for a in at(subset, "addresses", default=[])]
        ports = at(subset, "ports", default=[])
        if not ports:
            found.extend(addresses)
        found.extend(f"{_host(a)}:{at(port, 'port')}" for port in ports for a in addresses)
    has_subsets = bool(at(obj, "subsets"))
    return [
        name_of(obj),
        first_few(found, _MOST_SHOWN, empty="" if has_subsets else NONE),
        age(obj, now),
    ]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _endpoint_slice(obj: JsonObject, now: datetime) -> Cells:
    endpoints = at(obj, "endpoints", default=[])
    addresses = [address for e in endpoints for address in at(e, "addresses", default=[])]
    ports = [
        str(at(p, "port", default=at(p, "name", default="*"))) for p in at(obj, "ports", default=[])
    ]
    return [
        name_of(obj),
        at(obj, "addressType", default=""),
        first_few(ports, _MOST_SHOWN, empty=UNSET),
        first_few(addresses, _MOST_SHOWN, empty=UNSET),
        age(obj, now),
    ]


def _ingress(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    return [
        name_of(obj),
        at(spec, "ingressClassName", default=NONE),
        _hosts(at(spec, "rules", default=[])),
        ",".join(_ingress_points(obj)),
        "80, 443" if at(spec, "tls") else "80",
        age(obj, now),
    ]


def _hosts(rules: list[Any]) -> str:
    hosts = [host for rule in rules if (host := at(rule, "host"))]
    shown = ",".join(hosts[:_MOST_SHOWN]) or "*"
    if len(hosts) >= _MOST_SHOWN and len(rules) > _MOST_SHOWN:
        return f"{shown} + {len(rules) - _MOST_SHOWN} more..."
    return shown


def _ingress_class(obj: JsonObject, now: datetime) -> Cells:
    parameters = at(obj, "spec", "parameters")
    shown = NONE
    if parameters is not None:
        group = at(parameters, "apiGroup")
        kind = at(parameters, "kind", default="")
        shown = f"{kind}.{group}" if group is not None else kind
        shown += f"/{at(parameters, 'name', default='')}"
    return [name_of(obj), at(obj, "spec", "controller", default=""), shown, age(obj, now)]


def _network_policy(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), selector(at(obj, "spec", "podSelector")) or NONE, age(obj, now)]


def _address(obj: JsonObject, _now: datetime) -> Cells:
    parent = at(obj, "spec", "parentRef")
    shown = NONE
    if parent is not None:
        group = at(parent, "group")
        resource = str(at(parent, "resource", default=""))
        qualified = f"{resource}.{group}" if group else resource
        places = (at(parent, "namespace"), at(parent, "name", default=""))
        shown = "/".join([qualified.lower(), *filter(None, places)])
    return [name_of(obj), shown]


def _service_range(obj: JsonObject, now: datetime) -> Cells:
    return [name_of(obj), ",".join(at(obj, "spec", "cidrs", default=[])), age(obj, now)]


def _resource_claim(obj: JsonObject, now: datetime) -> Cells:
    is_deleted = at(obj, "metadata", "deletionTimestamp") is not None
    is_allocated = at(obj, "status", "allocation") is not None
    states = {
        "deleted": is_deleted,
        "pending": not is_allocated and not is_deleted,
        "allocated": is_allocated,
        "reserved": is_allocated and bool(at(obj, "status", "reservedFor")),
    }
    shown = ",".join(state for state, holds in states.items() if holds)
    return [name_of(obj), shown, age(obj, now)]


def _resource_slice(obj: JsonObject, now: datetime) -> Cells:
    spec = at(obj, "spec")
    return [
        name_of(obj),
        at(spec, "nodeName", default=""),
        at(spec, "driver", default=""),
        at(spec, "pool", "name", default=""),
        age(obj, now),
    ]


PRINTERS: Final[Mapping[str, Printer]] = {
    "PersistentVolume": Printer(
        columns(
            "Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass"
            "|VolumeAttributesClass|Reason|Age",
            wide="VolumeMode",
        ),
        _volume,
    ),
    "PersistentVolumeClaim": Printer(
        columns(
            "Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age",
            wide="VolumeMode",
        ),
        _claim,
    ),
    "StorageClass": Printer(
        columns("Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"),
        _storage_class,
    ),
    "VolumeAttachment": Printer(
        (
            Column("Name", format="name"),
            Column("Attacher", format="name"),
            Column("PV"),
            Column("Node"),
            Column("Attached", "boolean"),
            Column("Age"),
        ),
        _attachment,
    ),
    "CSINode": Printer(columns("Drivers|Age", integers=("Drivers",)), _csi_node),
    "CSIDriver": Printer(
        (
            Column("Name", format="name"),
            Column("AttachRequired", "boolean"),
            Column("PodInfoOnMount", "boolean"),
            Column("StorageCapacity", "boolean"),
            Column("TokenRequests"),
            Column("RequiresRepublish", "boolean"),
            Column("Modes"),
            Column("Age"),
        ),
        _csi_driver,
    ),
    "VolumeAttributesClass": Printer(columns("DriverName|Age"), _attributes_class),
    "Service": Printer(
        columns("Type|Cluster-IP|External-IP|Port(s)|Age", wide="Selector"), _service
    ),
    "Endpoints": Printer(columns("Endpoints|Age"), _endpoints),
    "EndpointSlice": Printer(columns("AddressType|Ports|Endpoints|Age"), _endpoint_slice),
    "Ingress": Printer(columns("Class|Hosts|Address|Ports|Age"), _ingress),
    "IngressClass": Printer(columns("Controller|Parameters|Age"), _ingress_class),
    "NetworkPolicy": Printer(columns("Pod-Selector|Age"), _network_policy),
    "IPAddress": Printer(columns("ParentRef"), _address),
    "ServiceCIDR": Printer(columns("CIDRs|Age"), _service_range),
    "ResourceClaim": Printer(columns("State|Age"), _resource_claim),
    "ResourceSlice": Printer(columns("Node|Driver|Pool|Age"), _resource_slice),
}
