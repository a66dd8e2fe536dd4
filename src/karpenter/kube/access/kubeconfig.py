"""Kubeconfig files: several of them merged, one context chosen, its cluster and user read.

As for ``kubectl``, the first file to name a cluster, user or context, or to set the current
context, wins; a relative path is relative to the file in which it stands; and ``…-data`` is
preferred to the file beside it. Only what the chosen context leads to is looked at, so a mistake
elsewhere in the file does no harm.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from karpenter.kube.access import Certificate, ClusterConfig, ExecCommand, Identity, Tls
from karpenter.kube.errors import ConfigError
from karpenter.kube.fields import Fields
from karpenter.kube.hosts import is_host, is_url
from karpenter.kube.proxies import proxy_for
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read
from karpenter.os_errors import os_reason

EXEC_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
# A cluster may carry words for the exec plugin under this name
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")


def load_kubeconfig(
    files: Sequence[Path], *, context: str, environment: Mapping[str, str]
) -> ClusterConfig:
    """Read the files and return where their context, or the one named, leads.

    Raises:
        ConfigError: a file, or what the context leads to, cannot be used.
    """
    tops = [top for file in files if (top := _read(file)) is not None]
    names = ", ".join(str(file) for file in files)
    if not tops:
        raise ConfigError(f"there is no kubeconfig at {names}; create it, or set KUBECONFIG")
    chosen = context or next((name for top in tops if (name := top.text("current-context"))), "")
    if not chosen:
        raise ConfigError(f"{names}: no current-context is set{_choices(tops, 'contexts')}")
    where = _entry(tops, "contexts", chosen)
    if where is None:
        raise ConfigError(f"{names}: there is no context {chosen!r}{_choices(tops, 'contexts')}")
    cluster = _named_by(where, "cluster", tops)
    if cluster is None:
        raise where.problem("is missing: a context must name a cluster", "cluster")
    user = _named_by(where, "user", tops)
    return _config(cluster, user, where.text("namespace"), environment)


def _read(file: Path) -> Fields | None:
    """The top of a file; None for one that does not exist or is empty, which kubectl skips."""
    try:
        documents = read(file.read_bytes(), str(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = os_reason(error)
        raise ConfigError(f"{file}: the kubeconfig cannot be read: {reason}") from error
    except ManifestError as error:
        raise ConfigError(str(error)) from error
    return Fields(documents[0], file) if documents else None


def _entry(tops: Sequence[Fields], section: str, name: str) -> Fields | None:
    """What the first file to know a name says about it."""
    singular = section.removesuffix("s")
    for top in tops:
        for item in top.items(section):
            if item.text("name") == name:
                fields = item.fields(singular)
                if fields is None:
                    raise item.problem("is missing", singular)
                return fields
    return None


def _named_by(context: Fields, key: str, tops: Sequence[Fields]) -> Fields | None:
    name = context.text(key)
    if not name:
        return None
    entry = _entry(tops, f"{key}s", name)
    if entry is None:
        known = _choices(tops, f"{key}s")
        raise context.problem(f"names {name!r}, but there is no such {key}{known}", key)
    return entry


def _choices(tops: Sequence[Fields], section: str) -> str:
    names = sorted({item.text("name") for top in tops for item in top.items(section)} - {""})
    return f"; there are: {', '.join(names)}" if names else f"; there are no {section}"


def _config(
    cluster: Fields, user: Fields | None, namespace: str, environment: Mapping[str, str]
) -> ClusterConfig:
    server = _server(cluster)
    tls = Tls(
        ca=cluster.content("certificate-authority"),
        is_unchecked=cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
    )
    if tls.server_name and not is_host(tls.server_name):
        raise cluster.problem("is no name of a host", "tls-server-name")
    if tls.ca and tls.is_unchecked:
        raise cluster.problem(
            "and certificate-authority exclude each other", "insecure-skip-tls-verify"
        )
    return ClusterConfig(
        server=server,
        tls=tls,
        proxy=_proxy(cluster) or proxy_for(server, environment),
        identity=_identity(user, cluster, tls) if user is not None else Identity(),
        namespace=namespace,
        source=str(cluster.file),
    )


def _server(cluster: Fields) -> str:
    server = cluster.text("server")
    if not server:
        raise cluster.problem("is missing: a cluster must say where its server is", "server")
    if "://" not in server:
        server = f"https://{server}"
    if not is_url(server):
        raise cluster.problem(f"is {server!r}, which is no http or https URL", "server")
    return server.rstrip("/")


def _proxy(cluster: Fields) -> str:
    proxy = cluster.text("proxy-url")
    if proxy and not is_url(proxy):
        raise cluster.problem("must be an http or https URL; no other proxy is known", "proxy-url")
    return proxy


def _identity(user: Fields, cluster: Fields, tls: Tls) -> Identity:
    if user.plain("auth-provider") is not None:
        raise user.problem("is no longer supported by Kubernetes; use exec", "auth-provider")
    token_file = user.text("tokenFile")
    return Identity(
        certificate=_certificate(user),
        token=user.text("token"),
        token_file=user.beside(token_file) if token_file else None,
        username=user.text("username"),
        password=user.text("password"),
        exec_command=_exec_command(user, cluster, tls),
        impersonation=_impersonation(user),
    )


def _certificate(user: Fields) -> Certificate | None:
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if not certificate and not key:
        return None
    if not certificate:
        raise user.problem("is missing, though there is a client-key", "client-certificate")
    if not key:
        raise user.problem("is missing, though there is a client-certificate", "client-key")
    return Certificate(certificate, key)


def _impersonation(user: Fields) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    if (extra := user.fields("as-user-extra")) is not None:
        for key in extra.names():
            name = f"Impersonate-Extra-{quote(key, safe='')}"
            headers += [(name, value) for value in extra.texts(key)]
    return tuple((name, value) for name, value in headers if value)


def _exec_command(user: Fields, cluster: Fields, tls: Tls) -> ExecCommand | None:
    fields = user.fields("exec")
    if fields is None:
        return None
    command, version = fields.text("command"), fields.text("apiVersion")
    if not command:
        raise fields.problem("is missing: say which program to run", "command")
    if version not in EXEC_VERSIONS:
        raise fields.problem(f"must be {' or '.join(EXEC_VERSIONS)}", "apiVersion")
    wants_cluster = fields.flag("provideClusterInfo")
    return ExecCommand(
        # A bare name is looked for in PATH, a path is relative to the file
        command=str(fields.beside(command)) if "/" in command else command,
        api_version=version,
        args=fields.texts("args"),
        env=tuple((item.text("name"), item.text("value")) for item in fields.items("env")),
        interactive_mode=_interactive_mode(fields, version),
        install_hint=fields.text("installHint").strip(),
        cluster_info=_cluster_info(cluster, tls) if wants_cluster else None,
    )


def _interactive_mode(fields: Fields, version: str) -> str:
    mode = fields.text("interactiveMode")
    if not mode and version != EXEC_VERSIONS[0]:
        return "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise fields.problem(f"must be one of {', '.join(_INTERACTIVE_MODES)}", "interactiveMode")
    return mode


def _cluster_info(cluster: Fields, tls: Tls) -> Mapping[str, Any]:
    info: dict[str, Any] = {
        "server": cluster.text("server"),
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.is_unchecked,
        "certificate-authority-data": base64.b64encode(tls.ca).decode(),
        "proxy-url": cluster.text("proxy-url"),
    }
    for extension in cluster.items("extensions"):
        if extension.text("name") == _EXEC_EXTENSION:
            info["config"] = extension.plain("extension")
    return {key: value for key, value in info.items() if value}
