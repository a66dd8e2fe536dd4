"""Boot settings of Bottlerocket: the user's TOML with ours written over it."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

from karpenter.cloud.aws.images.user_data.inputs import BootInputs, UserData, UserDataError

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

LATEST: Final = "latest"
_BINDS_BY_ITSELF: Final = (1, 46, 0)  # the first version that binds these directories by default
_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_MOUNT_COMMAND: Final = "000-mount-instance-storage"
_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)")

_KNOWN_SETTINGS: Final = frozenset(
    [
        "api-server",
        "cloud-provider",
        "cluster-certificate",
        "cluster-name",
        "cluster-dns-ip",
        "credential-providers",
        "node-labels",
        "node-taints",
        "max-pods",
        "static-pods",
        "eviction-hard",
        "eviction-soft",
        "eviction-soft-grace-period",
        "eviction-max-pod-grace-period",
        "kube-reserved",
        "system-reserved",
        "allowed-unsafe-sysctls",
        "server-tls-bootstrap",
        "registry-qps",
        "registry-burst",
        "event-qps",
        "event-burst",
        "kube-api-qps",
        "kube-api-burst",
        "container-log-max-size",
        "container-log-max-files",
        "container-log-max-workers",
        "container-log-monitor-interval",
        "cpu-manager-policy",
        "cpu-manager-policy-options",
        "cpu-manager-reconcile-period",
        "memory-manager-policy",
        "memory-manager-reserved-memory",
        "topology-manager-scope",
        "topology-manager-policy",
        "topology-manager-policy-options",
        "image-gc-high-threshold-percent",
        "image-gc-low-threshold-percent",
        "ids-per-pod",
        "cpu-cfs-quota-enforced",
        "shutdown-grace-period",
        "shutdown-grace-period-for-critical-pods",
        "cluster-domain",
        "seccomp-default",
        "pod-pids-limit",
        "device-ownership-from-security-context",
        "single-process-oom-kill",
        "hostname-override-source",
        "log-level",
    ]
)
_MAPPINGS: Final = (
    ("systemReserved", "system-reserved"),
    ("kubeReserved", "kube-reserved"),
    ("evictionHard", "eviction-hard"),
    ("evictionSoft", "eviction-soft"),
    ("evictionSoftGracePeriod", "eviction-soft-grace-period"),
)


def bottlerocket(inputs: BootInputs) -> UserData:
    """The boot settings of Bottlerocket.

    Raises:
        UserDataError: the user's text is not TOML, or has text where a table must be.
    """
    try:
        document = tomllib.loads(inputs.user_data)
    except tomllib.TOMLDecodeError as error:
        raise UserDataError(f"user data of family Bottlerocket must be TOML: {error}") from error
    settings = _table(document, "settings")
    given = _table(settings, "kubernetes")
    ignored = tuple(sorted(given.keys() - _KNOWN_SETTINGS))
    for key in ignored:
        del given[key]
    labels = {**_table(given, "node-labels"), **inputs.labels}
    given |= _cluster(inputs) | _kubelet(inputs)
    given["node-labels"] = labels
    given["node-taints"] = _taints(inputs)
    if inputs.is_raid0:
        _table(settings, "bootstrap-commands")[_MOUNT_COMMAND] = _mount(inputs.image_version)
    return UserData(toml_text(document), tuple(f"settings.kubernetes.{key}" for key in ignored))


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    table = document.setdefault(key, {})
    if not isinstance(table, dict):
        raise UserDataError(f"{key} in user data of family Bottlerocket must be a table")
    return table


def _cluster(inputs: BootInputs) -> dict[str, Any]:
    settings = {
        "cluster-name": inputs.cluster_name,
        "api-server": inputs.endpoint,
        "cluster-certificate": inputs.ca_bundle,
        "cluster-dns-ip": next(iter(inputs.dns_addresses), ""),
    }
    return {key: value for key, value in settings.items() if value}


def _kubelet(inputs: BootInputs) -> dict[str, Any]:
    kubelet, settings = inputs.kubelet, dict[str, Any]()
    for name, setting in _MAPPINGS:
        if kubelet.get(name):
            settings[setting] = {key: str(value) for key, value in kubelet[name].items()}
    for name, setting in (
        ("imageGCHighThresholdPercent", "image-gc-high-threshold-percent"),
        ("imageGCLowThresholdPercent", "image-gc-low-threshold-percent"),
    ):
        if kubelet.get(name) is not None:
            settings[setting] = str(kubelet[name])
    for name, setting in (
        ("maxPods", "max-pods"),
        ("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"),
        ("cpuCFSQuota", "cpu-cfs-quota-enforced"),
    ):
        if kubelet.get(name) is not None:
            settings[setting] = kubelet[name]
    return settings


def _taints(inputs: BootInputs) -> dict[str, list[str]]:
    taints: dict[str, list[str]] = {}
    for taint in inputs.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return taints


def _mount(version: str) -> dict[str, Any]:
    bind = ["apiclient", "ephemeral-storage", "bind"]
    if not _knows_directories(version):
        bind += ["--dirs", *_DIRECTORIES]
    commands = [["apiclient", "ephemeral-storage", "init"], bind]
    return {"commands": commands, "mode": "always", "essential": True}


def _knows_directories(version: str) -> bool:
    if version == LATEST:
        return True
    found = _VERSION.match(version)
    return found is not None and tuple(int(part) for part in found.groups()) >= _BINDS_BY_ITSELF


def toml_text(document: Mapping[str, Any]) -> str:
    """A document as text; the values of a table come before its subtables."""
    return "\n".join(_table_lines((), document)).lstrip("\n") + "\n"


def _table_lines(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or not table):
        yield ""
        yield f"[{'.'.join(_key(part) for part in path)}]"
    for key in sorted(plain):
        yield f"{_key(key)} = {_value(plain[key])}"
    for key in sorted(table.keys() - plain.keys()):
        yield from _table_lines((*path, key), table[key])


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(_value(each) for each in value)}]"
        case Mapping():
            pairs = (f"{_key(key)} = {_value(value[key])}" for key in sorted(value))
            return f"{{ {', '.join(pairs)} }}"
    raise TypeError(f"TOML has no word for {type(value).__name__}")


def _text(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(char) or _printable(char) for char in text) + '"'


def _printable(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else char
