"""The smallest valid object of every kind the core defines; cases are changes to one of these."""

from typing import Any


def _object(
    api_version: str, kind: str, spec: dict[str, Any] | None, name: str = "default", **metadata: str
) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": api_version, "kind": kind}
    body["metadata"] = {"name": name, **metadata}
    return body if spec is None else {**body, "spec": spec}


_NODE_SPEC: dict[str, Any] = {
    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
    "requirements": [],
}
_OLD_NODE_SPEC: dict[str, Any] = {
    "nodeClassRef": {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "name": "default",
    },
    "requirements": [],
}


def old_pool(name: str, **spec: Any) -> dict[str, Any]:
    """A NodePool of v1beta1 whose template says more than the smallest one."""
    template = {"template": {"spec": {**_OLD_NODE_SPEC, **spec}}}
    return _object("karpenter.sh/v1beta1", "NodePool", template, name)


POOL = _object("karpenter.sh/v1", "NodePool", {"template": {"spec": _NODE_SPEC}})
CLAIM = _object("karpenter.sh/v1", "NodeClaim", _NODE_SPEC, "default-x7k2p")
OVERLAY = _object("karpenter.sh/v1alpha1", "NodeOverlay", {"requirements": []}, "discount")
BUFFER = _object(
    "autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", {}, "headroom", namespace="default"
)
NODE_CLASS = _object("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", None)
OLD_POOL = _object("karpenter.sh/v1beta1", "NodePool", {"template": {"spec": _OLD_NODE_SPEC}})
OLD_CLAIM = _object("karpenter.sh/v1beta1", "NodeClaim", _OLD_NODE_SPEC, "default-x7k2p")
PROVISIONER = _object("karpenter.sh/v1alpha5", "Provisioner", {"providerRef": {"name": "default"}})
