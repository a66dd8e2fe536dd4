"""The settings of the AWS provider, read from the environment and validated once.

As everywhere, text that cannot be read at all falls back to the default, while a value that can be
read and cannot be right ends the start with one sentence.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar
from urllib.parse import urlsplit

from karpenter.cloud.registry import ProviderError
from karpenter.model import durations

T = TypeVar("T")

_MINUTE: Final = timedelta(minutes=1)
_BOOLEANS: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
NODE_CLASS_CEL: Final = "NodeClassCEL"
RESERVED_CAPACITY: Final = "ReservedCapacity"  # a gate of the core's own


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """How the provider works in one cluster."""

    cluster_name: str
    cluster_endpoint: str = ""  # discovered through EKS when empty
    cluster_ca_bundle: str = ""  # base64; the controller's own CA when empty
    isolated_vpc: bool = False
    eks_control_plane: bool = False
    vm_memory_overhead_percent: float = 0.075
    interruption_queue: str = ""
    reserved_enis: int = 0
    disable_dry_run: bool = False
    enable_zonal_shift: bool = False
    ami_refresh_interval: timedelta = _MINUTE
    subnet_refresh_interval: timedelta = _MINUTE
    node_class_cel: bool = False
    aws_commitments: bool = False  # Savings Plans and reserved instances of the account


def read_settings(environment: Mapping[str, str]) -> AwsSettings:
    """Read the provider's settings.

    Raises:
        ProviderError: something needed is missing, or a value cannot be right.
    """
    read = _Reader(environment)
    gates: dict[str, bool] = read.value("AWS_FEATURE_GATES", _gates, {})
    settings = AwsSettings(
        cluster_name=read.text("CLUSTER_NAME"),
        cluster_endpoint=read.text("CLUSTER_ENDPOINT"),
        cluster_ca_bundle=read.text("CLUSTER_CA_BUNDLE"),
        isolated_vpc=read.boolean("ISOLATED_VPC"),
        eks_control_plane=read.boolean("EKS_CONTROL_PLANE"),
        vm_memory_overhead_percent=read.value("VM_MEMORY_OVERHEAD_PERCENT", _number, 0.075),
        interruption_queue=read.text("INTERRUPTION_QUEUE"),
        reserved_enis=read.value("RESERVED_ENIS", int, 0),
        disable_dry_run=read.boolean("DISABLE_DRY_RUN"),
        enable_zonal_shift=read.boolean("ENABLE_ZONAL_SHIFT"),
        ami_refresh_interval=read.value("AMI_REFRESH_INTERVAL", _duration, _MINUTE),
        subnet_refresh_interval=read.value("SUBNET_REFRESH_INTERVAL", _duration, _MINUTE),
        aws_commitments=read.boolean("AWS_COMMITMENTS"),
        node_class_cel=gates.get(NODE_CLASS_CEL, False),
    )
    _check(settings)
    return settings


def _check(settings: AwsSettings) -> None:
    if not settings.cluster_name:
        raise ProviderError("CLUSTER_NAME is missing; set it to the name of the EKS cluster")
    endpoint = settings.cluster_endpoint
    if endpoint and not _is_absolute(endpoint):
        raise ProviderError(f"CLUSTER_ENDPOINT: {endpoint!r} is not a URL such as https://host")
    if settings.vm_memory_overhead_percent < 0:
        raise ProviderError("VM_MEMORY_OVERHEAD_PERCENT: the share must not be negative")
    if settings.reserved_enis < 0:
        raise ProviderError("RESERVED_ENIS: the number must not be negative")
    for name in ("ami_refresh_interval", "subnet_refresh_interval"):
        if getattr(settings, name) < _MINUTE:
            raise ProviderError(f"{name.upper()}: the shortest interval is 1m")


class _Reader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str) -> str:
        return self._environment.get(name, "").strip()

    def boolean(self, name: str) -> bool:
        return _BOOLEANS.get(self.text(name).lower(), False)

    def value(self, name: str, read: Callable[[str], T], default: T) -> T:
        try:
            return read(self.text(name)) if self.text(name) else default
        except ValueError:
            return default


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _duration(text: str) -> timedelta:
    length = durations.parse(text)
    if length is None:
        raise ValueError(text)
    return length


def _gates(text: str) -> dict[str, bool]:
    parts = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): _BOOLEANS.get(value.strip().lower(), False) for name, _, value in parts}


def _is_absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
