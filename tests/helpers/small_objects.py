"""The smallest valid object of every kind the core defines; cases are changes to one of these."""

from typing import Any

_NODE_SPEC: dict[str, Any] = {
    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
    "requirements": [],
}
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {"template": {"spec": _NODE_SPEC}},
}
CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "default-x7k2p"},
    "spec": _NODE_SPEC,
}
OVERLAY: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "discount"},
    "spec": {"requirements": []},
}
BUFFER: dict[str, Any] = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "metadata": {"name": "headroom", "namespace": "default"},
    "spec": {},
}
NODE_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
}

_OLD_NODE_SPEC: dict[str, Any] = {
    "nodeClassRef": {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "name": "default",
    },
    "requirements": [],
}
OLD_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {"template": {"spec": _OLD_NODE_SPEC}},
}
OLD_CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodeClaim",
    "metadata": {"name": "default-x7k2p"},
    "spec": _OLD_NODE_SPEC,
}
PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "default"},
    "spec": {"providerRef": {"name": "default"}},
}
