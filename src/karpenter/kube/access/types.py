"""Plain values that describe a cluster and the client's identity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Tls:
    """How the server's certificate is verified."""

    ca: bytes = b""  # certificates to trust, as PEM; empty: those of the operating system
    is_unchecked: bool = False
    server_name: str = ""  # the name the certificate must bear, when it is not that of the URL


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate with its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """An exec credential plugin, as a kubeconfig describes it."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = None  # passed to the plugin with provideClusterInfo


@dataclass(frozen=True, slots=True)
class Identity:
    """The client's identity: any authentication method, or none."""

    certificate: Certificate | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None  # read again and again, and preferred to ``token``
    username: str = ""
    password: str = field(default="", repr=False)
    exec_command: ExecCommand | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # impersonation headers


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster, and the client's identity there."""

    server: str
    tls: Tls = Tls()
    proxy: str = ""  # the URL of an HTTP proxy
    identity: Identity = Identity()
    namespace: str = ""  # the default namespace
    source: str = ""  # where all this was read, for messages
