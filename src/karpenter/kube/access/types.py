"""What it takes to reach a cluster and to say who one is, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Tls:
    """How the server proves itself."""

    ca: bytes = b""  # certificates to trust, as PEM; none stands for those of the machine
    is_unchecked: bool = False
    server_name: str = ""  # the name the certificate must bear, when it is not that of the URL


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate with its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A program that says who we are, as a kubeconfig describes it."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = None  # told to the program if it wants to know


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we say we are: any of the ways a server may know us by, or none of them."""

    certificate: Certificate | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None  # read again and again, and preferred to ``token``
    username: str = ""
    password: str = field(default="", repr=False)
    exec_command: ExecCommand | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # headers that ask to act as somebody else


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster, and who we are there."""

    server: str
    tls: Tls = Tls()
    proxy: str = ""  # the URL of an HTTP proxy
    identity: Identity = Identity()
    namespace: str = ""  # the one to use where nothing else is said
    source: str = ""  # where all this was read, for messages
