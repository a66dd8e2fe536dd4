"""Kubeconfigs for clients that may do only what RBAC allows them.

A rule is what stands in a role: ``{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}``.
With a namespace the rules hold there alone, without one everywhere.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from control_plane.certificates import make_user_certificate
from control_plane.cluster import ControlPlane, RefusedError

_RBAC: Final = "rbac.authorization.k8s.io"
_TOKEN_SECONDS: Final = 24 * 3600

Rule = Mapping[str, Any]


def service_account_kubeconfig(
    cluster: ControlPlane, namespace: str, name: str, rules: Iterable[Rule] = ()
) -> Path:
    """Make a service account that may do what ``rules`` say everywhere, and its kubeconfig.

    The namespace is made if it is missing.
    """
    _ensure(cluster, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    _ensure(cluster, accounts, {"metadata": {"name": name}})
    grant(cluster, {"kind": "ServiceAccount", "namespace": namespace, "name": name}, rules)
    wish = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
    token = cluster.send("POST", f"{accounts}/{name}/token", wish)["status"]["token"]
    path = cluster.folder / f"{namespace}-{name}.kubeconfig"
    return cluster.write_kubeconfig(path, {"token": token})


def user_kubeconfig(
    cluster: ControlPlane, name: str, rules: Iterable[Rule] = (), *, groups: Iterable[str] = ()
) -> Path:
    """Make a kubeconfig for a user who may do what ``rules`` say everywhere.

    The user proves itself with a certificate.
    """
    made = make_user_certificate(cluster.folder, cluster.certificates, name, groups)
    grant(cluster, {"kind": "User", "apiGroup": _RBAC, "name": name}, rules)
    proof = {"client-certificate": str(made.certificate), "client-key": str(made.key)}
    return cluster.write_kubeconfig(cluster.folder / f"{name}.kubeconfig", proof)


def grant(
    cluster: ControlPlane,
    subject: Mapping[str, str],
    rules: Iterable[Rule],
    *,
    namespace: str = "",
) -> None:
    """Allow a subject of RBAC to do what ``rules`` say, in a namespace or everywhere."""
    listed = [dict(rule) for rule in rules]
    if not listed:
        return
    place = f"/apis/{_RBAC}/v1/namespaces/{namespace}" if namespace else f"/apis/{_RBAC}/v1"
    kind = "Role" if namespace else "ClusterRole"
    made = cluster.send(
        "POST",
        f"{place}/{kind.lower()}s",
        {"metadata": {"generateName": f"{subject['name']}-"}, "rules": listed},
    )
    name = made["metadata"]["name"]
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [dict(subject)],
    }
    cluster.send("POST", f"{place}/{kind.lower()}bindings", binding)


def _ensure(cluster: ControlPlane, path: str, obj: Mapping[str, Any]) -> None:
    try:
        cluster.send("POST", path, obj)
    except RefusedError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
