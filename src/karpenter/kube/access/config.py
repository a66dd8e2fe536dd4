"""Finds the cluster and credentials: from a kubeconfig, or from inside the cluster.

``KUBECONFIG`` comes first; then the service account every pod is given; then the kubeconfig in the
home folder. A source that exists but cannot be used is an error and never skipped, because the next
one may lead to another cluster.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from karpenter.kube.access.kubeconfig import load_kubeconfig
from karpenter.kube.access.proxies import is_url, proxy_for
from karpenter.kube.access.types import ClusterConfig, Identity, Tls
from karpenter.kube.errors import ConfigError
from karpenter.os_errors import os_reason

__all__ = ["ClusterConfig", "ConfigError", "load_config"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_config(
    environment: Mapping[str, str],
    *,
    context: str = "",
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Find the cluster to connect to.

    Args:
        environment: the environment variables of the process.
        context: the context of the kubeconfig to use; its current one when empty.
        service_account: where a pod finds its token.

    Raises:
        ConfigError: nothing was found, or what was found cannot be used.
    """
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        return load_kubeconfig(listed, context=context, environment=environment)
    if environment.get("KUBERNETES_SERVICE_HOST") and not context:
        return _in_cluster(environment, service_account)
    home = environment.get("HOME", "")
    file = Path(home) / ".kube" / "config"
    if home and (context or _may_exist(file)):
        return load_kubeconfig([file], context=context, environment=environment)
    raise ConfigError(
        "no cluster is configured: set KUBECONFIG, create ~/.kube/config, or run inside a cluster"
    )


def _may_exist(file: Path) -> bool:
    """Whether a file may exist; without permission to stat it, reading it gives the error."""
    try:
        return file.exists()
    except OSError:
        return True


def own_namespace(service_account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod this process runs in; empty outside of a cluster."""
    try:
        return (service_account / "namespace").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _in_cluster(environment: Mapping[str, str], account: Path) -> ClusterConfig:
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    if not is_url(server):
        raise ConfigError(
            f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT make {server},"
            " which is no URL; correct them, or set KUBECONFIG"
        )
    token = account / "token"
    return ClusterConfig(
        server=server,
        tls=Tls(ca=_account_file(account / "ca.crt")),
        proxy=proxy_for(server, environment),
        identity=Identity(token=_account_file(token).decode(errors="replace"), token_file=token),
        namespace=own_namespace(account),
        source=str(account),
    )


def _account_file(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(
            f"KUBERNETES_SERVICE_HOST says that this is a pod, but {path} cannot be read: {reason};"
            " let the pod mount its service account's token, or set KUBECONFIG"
        ) from error
