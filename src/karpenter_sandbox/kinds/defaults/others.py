"""Defaults of everything that does not run pods."""

import base64
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.defaults.filling import each, filled, within
from karpenter_sandbox.kinds.defaults.pods import claim_template

_AFFINITY_SECONDS: Final = 10800
_RBAC: Final = "rbac.authorization.k8s.io"


def namespace(obj: JsonObject) -> JsonObject:
    """A complete Namespace."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    obj = {**obj, "metadata": {**metadata, "labels": labels}}
    obj = filled(obj, status={})
    return within(obj, "status", lambda status: filled(status, phase="Active"))


def node(obj: JsonObject) -> JsonObject:
    """A complete Node; allocatable defaults to the capacity."""

    def status(part: JsonObject) -> JsonObject:
        return filled(part, allocatable=part["capacity"]) if part.get("capacity") else part

    return within(obj, "status", status)


def secret(obj: JsonObject) -> JsonObject:
    """A complete Secret; text given as such is stored encoded."""
    texts = obj.get("stringData") or {}
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj = {**obj, "data": {**(obj.get("data") or {}), **encoded}}
    return filled({key: part for key, part in obj.items() if key != "stringData"}, type="Opaque")


def service(obj: JsonObject) -> JsonObject:
    """A complete Service, but for its addresses."""

    def port(part: JsonObject) -> JsonObject:
        part = filled(part, protocol="TCP")
        return {**part, "targetPort": part.get("targetPort") or part.get("port", 0)}

    def spec(part: JsonObject) -> JsonObject:
        part = filled(part, type="ClusterIP", sessionAffinity="None")
        part = each(part, "ports", port)
        kind = part["type"]
        if part["sessionAffinity"] == "ClientIP":
            timeout = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
            part = filled(part, sessionAffinityConfig=timeout)
        if kind in {"NodePort", "LoadBalancer"} or part.get("externalIPs"):
            part = filled(part, externalTrafficPolicy="Cluster")
        if kind in {"ClusterIP", "NodePort", "LoadBalancer"}:
            part = filled(part, internalTrafficPolicy="Cluster")
        if kind == "LoadBalancer":
            part = filled(part, allocateLoadBalancerNodePorts=True)
        return part

    return within(obj, "spec", spec)


def claim(obj: JsonObject) -> JsonObject:
    """A complete PersistentVolumeClaim."""
    obj = filled(claim_template(obj), status={})
    return within(obj, "status", lambda status: filled(status, phase="Pending"))


def volume(obj: JsonObject) -> JsonObject:
    """A complete PersistentVolume."""

    def spec(part: JsonObject) -> JsonObject:
        return filled(part, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")

    obj = filled(within(obj, "spec", spec), status={})
    return within(obj, "status", lambda status: filled(status, phase="Pending"))


def storage_class(obj: JsonObject) -> JsonObject:
    """A complete StorageClass."""
    return filled(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def csi_driver(obj: JsonObject) -> JsonObject:
    """A complete CSIDriver."""

    def spec(part: JsonObject) -> JsonObject:
        return filled(
            part,
            attachRequired=True,
            podInfoOnMount=False,
            storageCapacity=False,
            fsGroupPolicy="ReadWriteOnceWithFSType",
            volumeLifecycleModes=["Persistent"],
            requiresRepublish=False,
            seLinuxMount=False,
        )

    return within(obj, "spec", spec)


def priority_class(obj: JsonObject) -> JsonObject:
    """A complete PriorityClass."""
    return filled(obj, preemptionPolicy="PreemptLowerPriority")


def network_policy(obj: JsonObject) -> JsonObject:
    """A complete NetworkPolicy."""

    def spec(part: JsonObject) -> JsonObject:
        if not part.get("policyTypes"):
            types = ["Ingress", "Egress"] if part.get("egress") else ["Ingress"]
            part = {**part, "policyTypes": types}
        return each(each(part, "ingress", _tcp_ports), "egress", _tcp_ports)

    return within(obj, "spec", spec)


def ingress_class(obj: JsonObject) -> JsonObject:
    """A complete IngressClass."""
    return within(
        obj,
        "spec",
        lambda spec: within(spec, "parameters", lambda part: filled(part, scope="Cluster")),
    )


def role_binding(obj: JsonObject) -> JsonObject:
    """A complete RoleBinding or ClusterRoleBinding."""

    def subject(part: JsonObject) -> JsonObject:
        if part.get("kind") in {"User", "Group"}:
            return filled(part, apiGroup=_RBAC)
        return part

    obj = within(obj, "roleRef", lambda ref: filled(ref, apiGroup=_RBAC))
    return each(obj, "subjects", subject)


def resource_claim(obj: JsonObject) -> JsonObject:
    """A complete ResourceClaim."""
    return within(obj, "spec", _devices)


def resource_claim_template(obj: JsonObject) -> JsonObject:
    """A complete ResourceClaimTemplate."""
    return within(obj, "spec", lambda spec: within(spec, "spec", _devices))


def _devices(spec: JsonObject) -> JsonObject:
    def counted(part: JsonObject) -> JsonObject:
        part = filled(part, allocationMode="ExactCount")
        return filled(part, count=1) if part["allocationMode"] == "ExactCount" else part

    def request(part: JsonObject) -> JsonObject:
        return each(within(part, "exactly", counted), "firstAvailable", counted)

    return within(spec, "devices", lambda devices: each(devices, "requests", request))


def definition(obj: JsonObject) -> JsonObject:
    """A complete CustomResourceDefinition, its status aside."""

    def names(part: JsonObject) -> JsonObject:
        kind = part.get("kind", "")
        given = {key: value for key, value in part.items() if value}
        return filled(given, singular=kind.lower(), listKind=f"{kind}List")

    def spec(part: JsonObject) -> JsonObject:
        part = filled(part, names={}, conversion={"strategy": "None"})
        return within(part, "names", names)

    return within(obj, "spec", spec)


def webhooks(obj: JsonObject) -> JsonObject:
    """A complete webhook configuration."""
    is_mutating = obj["kind"].startswith("Mutating")

    def client(part: JsonObject) -> JsonObject:
        return within(part, "service", lambda service: filled(service, port=443))

    def webhook(part: JsonObject) -> JsonObject:
        part = filled(
            part,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        if is_mutating:
            part = filled(part, reinvocationPolicy="Never")
        part = each(part, "rules", lambda rule: filled(rule, scope="*"))
        return within(part, "clientConfig", client)

    return each(obj, "webhooks", webhook)


def endpoints(obj: JsonObject) -> JsonObject:
    """Complete Endpoints."""
    return each(obj, "subsets", _tcp_ports)


def _tcp_ports(part: JsonObject) -> JsonObject:
    return each(part, "ports", lambda port: filled(port, protocol="TCP"))


def endpoint_slice(obj: JsonObject) -> JsonObject:
    """A complete EndpointSlice."""
    return each(obj, "ports", lambda port: filled(port, name="", protocol="TCP"))


def limit_range(obj: JsonObject) -> JsonObject:
    """A complete LimitRange: limits follow from maxima, requests from limits and minima."""

    def item(part: JsonObject) -> JsonObject:
        if part.get("type") != "Container":
            return part
        limits = {**(part.get("max") or {}), **(part.get("default") or {})}
        requests = {**(part.get("min") or {}), **limits, **(part.get("defaultRequest") or {})}
        return {**part, "default": limits, "defaultRequest": requests}

    return within(obj, "spec", lambda spec: each(spec, "limits", item))
