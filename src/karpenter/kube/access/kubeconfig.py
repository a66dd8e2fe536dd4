"""Kubeconfig files: several of them merged, one context chosen, its cluster and user read.

As for ``kubectl``, the first file to name a cluster, user or context, or to set the current
context, wins; a relative path is relative to the file in which it stands; and ``…-data`` is
preferred to the file beside it. Only what the chosen context refers to is read, so a mistake
elsewhere in the file does no harm. A field of the wrong type is an error that names its path.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from karpenter.kube.access.proxies import is_host, is_url, proxy_for
from karpenter.kube.access.types import Certificate, ClusterConfig, ExecCommand, Identity, Tls
from karpenter.kube.errors import ConfigError
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import Document, read
from karpenter.os_errors import os_reason

FieldPath = tuple[str | int, ...]
EXEC_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
# A cluster may carry configuration for the exec plugin under this name
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")


@dataclass(frozen=True, slots=True)
class Fields:
    """One mapping of a kubeconfig, with its file and path for error messages."""

    document: Document
    file: Path
    path: FieldPath = ()

    def problem(self, problem: str, key: str = "") -> ConfigError:
        """The error to raise about a field of this mapping, or about the mapping itself."""
        path = (*self.path, key) if key else self.path
        line = self.document.line(path)
        return ConfigError(f"{self.file}:{line}: {written(path) or 'the file'} {problem}")

    def text(self, key: str) -> str:
        """A text, empty when it is absent."""
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.problem("must be text; put it in quotes", key)
        return value

    def flag(self, key: str) -> bool:
        """A boolean, false when it is absent."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.problem("must be true or false", key)
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            raise self.problem("must be a list of texts; put numbers in quotes", key)
        return tuple(values)

    def fields(self, key: str) -> "Fields | None":
        """A mapping, None when it is absent."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.problem("must be a mapping", key)
        return Fields(self.document, self.file, (*self.path, key))

    def items(self, key: str) -> "list[Fields]":
        """A list of mappings."""
        items = []
        for index, value in enumerate(self._list(key)):
            item = Fields(self.document, self.file, (*self.path, key, index))
            if not isinstance(value, dict):
                raise item.problem("must be a mapping")
            items.append(item)
        return items

    def names(self) -> list[str]:
        """The fields there are."""
        return list(self._values)

    def plain(self, key: str) -> Any:
        """The value of a field, without a check of its type."""
        return self._values.get(key)

    def beside(self, path: str) -> Path:
        """A path, taken from the folder of the file when it is relative."""
        try:
            return self.file.parent / Path(path).expanduser()
        except RuntimeError as error:
            raise self.problem(
                f"names {path}, but this machine has no user of that name"
            ) from error

    def content(self, key: str) -> bytes:
        """The bytes of ``<key>-data``, or else of the file that ``key`` names."""
        if encoded := self.text(f"{key}-data"):
            try:
                return base64.b64decode("".join(encoded.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise self.problem("is not base64", f"{key}-data") from error
        name = self.text(key)
        if not name:
            return b""
        path = self.beside(name)
        try:
            return path.read_bytes()
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise self.problem(f"names {path}, which cannot be read: {reason}", key) from error

    @property
    def _values(self) -> dict[str, Any]:
        value: Any = self.document.data
        for part in self.path:
            value = value[part]
        values: dict[str, Any] = value
        return values

    def _list(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.problem("must be a list", key)
        return value or []


def written(path: FieldPath) -> str:
    """A path in dotted notation: ``users[0].user.exec``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


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
    """The entry of a name in the first file that has one."""
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


def context_names(files: Sequence[Path]) -> list[str]:
    """The contexts that the files name.

    Raises:
        ConfigError: a file cannot be used.
    """
    return _names([top for file in files if (top := _read(file)) is not None], "contexts")


def _names(tops: Sequence[Fields], section: str) -> list[str]:
    return sorted({item.text("name") for top in tops for item in top.items(section)} - {""})


def _choices(tops: Sequence[Fields], section: str) -> str:
    names = _names(tops, section)
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
        raise cluster.problem("is not a host name", "tls-server-name")
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
        shown = "" if "@" in server else f" {server!r}, which is"  # it may hold a password
        raise cluster.problem(f"is{shown} no http or https URL", "server")
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
