"""Allocates the cluster IPs and node ports of services."""

import ipaddress
import random
from typing import Final

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.status import ApiError, invalid

_NETWORK: Final = ipaddress.ip_network("10.96.0.0/16")
_BOTH: Final = ["IPv4", "IPv6"]
_NODE_PORTS: Final = range(30000, 32768)


def addressed(backend: Backend, service: JsonObject, old: JsonObject | None) -> JsonObject:
    """The service with its addresses: those it had, those it asks for, or free ones.

    Raises:
        ApiError: an address or port it asks for is taken, or none is free.
    """
    spec = _kept(service["spec"], (old or {}).get("spec") or {})
    if spec.get("type") == "ExternalName":
        return {**service, "spec": spec}
    spec = _with_cluster_ip(backend, service, spec)
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        spec = _with_node_ports(backend, service, spec)
    return {**service, "spec": spec}


def _kept(spec: JsonObject, old: JsonObject) -> JsonObject:
    """An update that does not mention an address keeps it."""
    kept = dict(spec)
    if old.get("type") == "ExternalName" or spec.get("type") == "ExternalName":
        return kept
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if name in old:
            kept.setdefault(name, old[name])
    known = {(p.get("port"), p.get("protocol")): p.get("nodePort") for p in old.get("ports") or []}
    if spec.get("type") in {"NodePort", "LoadBalancer"} and kept.get("ports"):
        kept["ports"] = [_kept_port(port, known) for port in kept["ports"]]
    return kept


def _kept_port(port: JsonObject, known: dict[tuple[object, object], int | None]) -> JsonObject:
    node_port = known.get((port.get("port"), port.get("protocol")))
    return port if "nodePort" in port or not node_port else {**port, "nodePort": node_port}


def _with_cluster_ip(backend: Backend, service: JsonObject, spec: JsonObject) -> JsonObject:
    taken = {
        other["spec"].get("clusterIP")
        for other in backend.store.list("", "services")
        if other["metadata"]["uid"] != service["metadata"]["uid"]
    }
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or []), "")
    if not address:
        address = _free_address(service, taken)
    elif address != "None" and address in taken:
        raise _wrong(service, ("spec", "clusterIPs"), [address], _allocated(address))
    # A headless service without a selector may have endpoints of any address family
    is_open = address == "None" and not spec.get("selector")
    families, policy = (_BOTH, "RequireDualStack") if is_open else (_BOTH[:1], "SingleStack")
    return {
        **spec,
        "clusterIP": address,
        "clusterIPs": spec.get("clusterIPs") or [address],
        "ipFamilies": spec.get("ipFamilies") or families,
        "ipFamilyPolicy": spec.get("ipFamilyPolicy") or policy,
    }


def _with_node_ports(backend: Backend, service: JsonObject, spec: JsonObject) -> JsonObject:
    taken = {
        port.get("nodePort")
        for other in backend.store.list("", "services")
        if other["metadata"]["uid"] != service["metadata"]["uid"]
        for port in other["spec"].get("ports") or []
    }
    ports = []
    for index, port in enumerate(spec.get("ports") or []):
        wanted = port.get("nodePort")
        path = ("spec", "ports", index, "nodePort")
        if wanted and wanted not in _NODE_PORTS:
            detail = (
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
            )
            raise _wrong(service, path, wanted, detail)
        if wanted and wanted in taken:
            raise _wrong(service, path, wanted, "provided port is already allocated")
        chosen = wanted or _free_port(service, taken)
        taken.add(chosen)
        ports.append({**port, "nodePort": chosen})
    return {**spec, "ports": ports}


def _free_address(service: JsonObject, taken: set[str | None]) -> str:
    size = _NETWORK.num_addresses
    # Seeded by the uid, so that the same run allocates the same addresses
    start = random.Random(service["metadata"]["uid"]).randrange(size)  # noqa: S311 no secret
    for step in range(size):
        # The first addresses are kept for the API server itself and for DNS
        address = str(_NETWORK[(start + step) % size])
        if address not in taken and address not in {str(_NETWORK[0]), str(_NETWORK[-1])}:
            return address
    raise _wrong(service, ("spec", "clusterIPs"), [], "failed to allocate IP: range is full")


def _free_port(service: JsonObject, taken: set[int | None]) -> int:
    start = random.Random(service["metadata"]["uid"]).randrange(len(_NODE_PORTS))  # noqa: S311
    for step in range(len(_NODE_PORTS)):
        port = _NODE_PORTS[(start + step) % len(_NODE_PORTS)]
        if port not in taken:
            return port
    raise _wrong(service, ("spec", "ports"), [], "failed to allocate a nodePort: range is full")


def _allocated(address: str) -> str:
    return f"failed to allocate IP {address}: provided IP is already allocated"


def _wrong(
    service: JsonObject, path: tuple[str | int, ...], value: object, detail: str
) -> ApiError:
    error = FieldError(ErrorKind.INVALID, path, detail, value)
    return invalid("", "Service", service["metadata"].get("name", ""), [error])
