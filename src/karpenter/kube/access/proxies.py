"""The proxy for a server, if any, from the usual environment variables.

Also checks whether text is a valid server URL.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from karpenter.kube.errors import ConfigError

_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_url(text: str) -> bool:
    """Whether text is an ``http`` or ``https`` URL of a server."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        return False
    return is_usable and is_host(parts.hostname or "")


def is_host(name: str) -> bool:
    """Whether text can be the name or the address of a host."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy for requests to ``server``; empty when there is none.

    The rules are those of Go programs, which share this configuration: lower case counts as well,
    loopback addresses are always reached directly, ``NO_PROXY`` lists names, domains, addresses and
    networks, each with an optional port.

    Raises:
        ConfigError: what is named there is no proxy.
    """
    parts = urlsplit(server)
    proxy = _value(environment, f"{parts.scheme.upper()}_PROXY")
    host = (parts.hostname or "").rstrip(".")
    if not proxy or host == "localhost" or _is_loopback(host):
        return ""
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    excepted = _value(environment, "NO_PROXY").split(",")
    if any(_matches(entry.strip().lower(), host, port) for entry in excepted if entry.strip()):
        return ""
    url = proxy if "://" in proxy else f"http://{proxy}"
    if not is_url(url):
        name = f"{parts.scheme.upper()}_PROXY"
        raise ConfigError(f"{name} names no proxy with an http or https URL; correct or unset it")
    return url


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of the two is a name, or a port follows
    name, separator, wanted_port = entry.rpartition(":")
    if separator and wanted_port.isdigit() and (":" not in name or name.startswith("[")):
        return int(wanted_port) == port and _matches(name, host, port)
    if entry.startswith(("*.", ".")):
        return host.endswith(entry.removeprefix("*"))
    return host == entry or host.endswith(f".{entry}")
