"""The endpoints of a service: addresses and ports of the pods it selects; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from karpenter.api.meta import JsonObject
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.pods import is_finished, is_leaving, is_ready, node_of

ZONE: Final = "topology.kubernetes.io/zone"
HEADLESS: Final = "service.kubernetes.io/headless"
CHANGED: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_MOST_ADDRESSES: Final = 1000  # in one Endpoints object
_MOST_IN_SLICE: Final = 100


class Port(NamedTuple):
    """A port of a pod that a service leads to."""

    name: str
    number: int
    protocol: str
    app_protocol: str


Ports = tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """As many endpoints as one EndpointSlice holds."""

    endpoints: list[JsonObject]
    ports: list[JsonObject]


def has_endpoints(service: JsonObject) -> bool:
    """Whether the cluster manages the endpoints of a service; otherwise its owner does."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def labels_of(service: JsonObject) -> dict[str, str]:
    """The labels that a service passes on."""
    labels = dict(service["metadata"].get("labels") or {})
    if service["spec"].get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return labels


def last_change(service: JsonObject, pods: Iterable[JsonObject]) -> str:
    """When the service or the readiness of one of its pods last changed."""
    first: str = service["metadata"]["creationTimestamp"]
    conditions = [find_condition(pod, "Ready") or {} for pod in pods]
    return max([first, *(condition.get("lastTransitionTime") or "" for condition in conditions)])


def facts(pod: JsonObject | None) -> tuple[object, ...]:
    """All of a pod that matters to services."""
    if pod is None:
        return ()
    labels = pod["metadata"].get("labels") or {}
    return labels, _ip(pod), is_ready(pod), is_leaving(pod), is_finished(pod)


def subsets(service: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    """The addresses of an Endpoints object, ready ones apart from the others."""
    publishes_all = bool(service["spec"].get("publishNotReadyAddresses"))
    ready: dict[Ports, list[JsonObject]] = {}
    unready: dict[Ports, list[JsonObject]] = {}
    left = _MOST_ADDRESSES
    for pod in _serving(pods):
        if left == 0 or (is_leaving(pod) and not publishes_all):
            continue
        place = ready if publishes_all or is_ready(pod) else unready
        place.setdefault(_ports(service, pod), []).append(_address(service, pod))
        left -= 1
    found = []
    for ports in sorted({*ready, *unready}):
        parts = {
            "addresses": ready.get(ports),
            "notReadyAddresses": unready.get(ports),
            "ports": [_written(port) for port in ports],
        }
        found.append({key: value for key, value in parts.items() if value})
    return found


def slices(
    service: JsonObject, pods: Iterable[JsonObject], zones: Mapping[str, str]
) -> list[Slice]:
    """The contents of the EndpointSlices of a service; one without endpoints when there are none.

    Args:
        service: the service.
        pods: the pods it selects.
        zones: the zone of each node that is in one.
    """
    by_ports: dict[Ports, list[JsonObject]] = {}
    for pod in _serving(pods):
        ports = _ports(service, pod)
        by_ports.setdefault(ports, []).append(_endpoint(service, pod, zones))
    found: list[Slice] = []
    for ports, endpoints in sorted(by_ports.items(), key=lambda item: item[0]):
        written = [{"name": port.name, **_written(port)} for port in ports]
        found += [
            Slice(endpoints[start : start + _MOST_IN_SLICE], written)
            for start in range(0, len(endpoints), _MOST_IN_SLICE)
        ]
    return found or [Slice([], [])]


def _serving(pods: Iterable[JsonObject]) -> list[JsonObject]:
    reachable = [pod for pod in pods if _ip(pod) and not is_finished(pod)]
    return sorted(reachable, key=lambda pod: (_ip(pod), pod["metadata"]["name"]))


def _ip(pod: JsonObject) -> str:
    address: str = (pod.get("status") or {}).get("podIP") or ""
    return address


def _ports(service: JsonObject, pod: JsonObject) -> Ports:
    found = []
    for port in service["spec"].get("ports") or ():
        number = _number(port, pod)
        if number is not None:
            protocol, app_protocol = port.get("protocol", "TCP"), port.get("appProtocol", "")
            found.append(Port(port.get("name", ""), number, protocol, app_protocol))
    return tuple(found)


def _number(port: JsonObject, pod: JsonObject) -> int | None:
    """The number of a target port; containers give names to theirs."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for container in pod["spec"].get("containers") or ():
        for own in container.get("ports") or ():
            if (own.get("name"), own.get("protocol", "TCP")) == (
                target,
                port.get("protocol", "TCP"),
            ):
                number: int = own["containerPort"]
                return number
    return None


def _written(port: Port) -> JsonObject:
    parts = {
        "name": port.name,
        "port": port.number,
        "protocol": port.protocol,
        "appProtocol": port.app_protocol,
    }
    return {key: value for key, value in parts.items() if value}


def _address(service: JsonObject, pod: JsonObject) -> JsonObject:
    parts = {
        "ip": _ip(pod),
        "hostname": _hostname(service, pod),
        "nodeName": node_of(pod),
        "targetRef": _reference(pod),
    }
    return {key: value for key, value in parts.items() if value}


def _endpoint(service: JsonObject, pod: JsonObject, zones: Mapping[str, str]) -> JsonObject:
    is_serving, is_going = is_ready(pod), is_leaving(pod)
    publishes_all = bool(service["spec"].get("publishNotReadyAddresses"))
    parts = {
        "addresses": [_ip(pod)],
        "conditions": {
            "ready": publishes_all or (is_serving and not is_going),
            "serving": is_serving,
            "terminating": is_going,
        },
        "hostname": _hostname(service, pod),
        "nodeName": node_of(pod),
        "targetRef": _reference(pod),
        "zone": zones.get(node_of(pod)),
    }
    return {key: value for key, value in parts.items() if value}


def _hostname(service: JsonObject, pod: JsonObject) -> str:
    """The name under which a pod is found beside its service, where it asks for one."""
    spec, metadata = pod["spec"], service["metadata"]
    is_meant = spec.get("subdomain") == metadata["name"]
    is_near = pod["metadata"]["namespace"] == metadata["namespace"]
    return spec.get("hostname") or "" if is_meant and is_near else ""


def _reference(pod: JsonObject) -> JsonObject:
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
