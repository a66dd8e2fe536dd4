"""Parses a boot script for the labels and taints that its kubelet would register with."""

import base64
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

_LABELS: Final = re.compile(r'--node-labels="([^"]*)"')
_TAINTS: Final = re.compile(r'--register-with-taints="([^"]*)"')
_TAINT: Final = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>\w+)")
_NODE_CONFIG: Final = re.compile(r"Content-Type: application/node\.eks\.aws\n\n(.*?)\n--//", re.S)


@dataclass(frozen=True, slots=True)
class Registration:
    """The labels and taints a node registers with."""

    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]


def registration(template: Mapping[str, Any]) -> Registration:
    """Read the boot script of a launch template the way its family would."""
    text = base64.b64decode(template.get("UserData") or "").decode()
    if "[settings.kubernetes]" in text:
        return _of_bottlerocket(text)
    found = _LABELS.search(text)
    labels = dict(pair.split("=", 1) for pair in found[1].split(",")) if found else {}
    flags = _TAINTS.search(text)
    if flags:
        taints = tuple(_taint(each) for each in flags[1].split(","))
    else:
        taints = tuple(_of_node_configs(text))
    return Registration(labels, taints)


def _of_bottlerocket(text: str) -> Registration:
    settings = tomllib.loads(text)["settings"]["kubernetes"]
    taints = tuple(
        _taint(f"{key}={each}")
        for key, listed in settings.get("node-taints", {}).items()
        for each in listed
    )
    return Registration(settings.get("node-labels", {}), taints)


def _of_node_configs(text: str) -> list[Mapping[str, str]]:
    found: list[Mapping[str, str]] = []
    for part in _NODE_CONFIG.findall(text):
        config = yaml.safe_load(part)["spec"].get("kubelet", {}).get("config", {})
        found = config.get("registerWithTaints", found)
    return found


def _taint(text: str) -> Mapping[str, str]:
    found = _TAINT.fullmatch(text)
    return (
        {} if found is None else {key: value for key, value in found.groupdict().items() if value}
    )
