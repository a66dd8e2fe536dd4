"""The facts of an instance type, from EC2 and from its name: category, generation, family, size.

Reduced to what nodes and offerings depend on.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from karpenter.model.memo import remembered

ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}  # EC2's word -> Kubernetes' word
_NO_ENTRY: Final[Mapping[str, Any]] = {}
_SHAPE: Final = re.compile(r"^([a-z]+)(-[0-9]+tb)?([0-9]+).*\.")


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    name: str
    manufacturer: str
    count: int
    memory_mib: int


class Accelerator(msgspec.Struct, frozen=True, array_like=True):
    """A device for machine learning that is not a GPU."""

    name: str
    manufacturer: str
    count: int
    cores: int = 0  # of one device


class NetworkCard(msgspec.Struct, frozen=True, array_like=True):
    index: int
    interfaces: int
    baseline_gbps: float | None


class TypeFacts(msgspec.Struct, frozen=True, array_like=True):
    """One instance type."""

    name: str
    vcpus: int
    memory_mib: int
    architecture: str  # as Kubernetes names it
    is_arm: bool  # the first architecture EC2 lists
    cpu_manufacturer: str
    clock_mhz: int
    ebs_mbps: int | None
    cards: tuple[NetworkCard, ...]
    default_card: int
    ips_per_interface: int
    has_ena: bool
    efa_interfaces: int
    gpus: tuple[Gpu, ...]
    neurons: tuple[Accelerator, ...]
    inference: tuple[Accelerator, ...]
    has_storage: bool
    storage_gb: int
    has_nvme: bool
    hypervisor: str  # empty on bare metal
    encrypts_in_transit: bool
    has_enclaves: bool
    usage_classes: frozenset[str]
    placement_strategies: frozenset[str]
    cpu_features: frozenset[str]

    @property
    def interfaces(self) -> int:
        """How many network interfaces the default card takes."""
        return next((c.interfaces for c in self.cards if c.index == self.default_card), 0)

    @property
    def is_bare_metal(self) -> bool:
        """Whether there is no hypervisor."""
        return not self.hypervisor


def is_usable(entry: Mapping[str, Any]) -> bool:
    """Whether nodes can run on a type at all; checked here, as EC2's filters differ in places."""
    architectures = entry["ProcessorInfo"].get("SupportedArchitectures", ())
    return "hvm" in entry.get("SupportedVirtualizationTypes", ()) and any(
        each in ARCHITECTURES for each in architectures
    )


def facts_of(entry: Mapping[str, Any]) -> TypeFacts:
    """Read an entry of DescribeInstanceTypes."""
    processor = entry["ProcessorInfo"]
    architectures = processor["SupportedArchitectures"]
    network = entry["NetworkInfo"]
    storage = entry.get("InstanceStorageInfo")
    return TypeFacts(
        name=entry["InstanceType"],
        vcpus=entry["VCpuInfo"]["DefaultVCpus"],
        memory_mib=entry["MemoryInfo"]["SizeInMiB"],
        architecture=next(ARCHITECTURES[a] for a in architectures if a in ARCHITECTURES),
        is_arm=architectures[0] == "arm64",
        cpu_manufacturer=processor.get("Manufacturer", ""),
        clock_mhz=round(processor.get("SustainedClockSpeedInGhz", 0.0) * 1000),
        ebs_mbps=_ebs_mbps(entry.get("EbsInfo", _NO_ENTRY)),
        cards=_cards(network.get("NetworkCards", ())),
        default_card=network.get("DefaultNetworkCardIndex", 0),
        ips_per_interface=network.get("Ipv4AddressesPerInterface", 0),
        has_ena=network.get("EnaSupport", "unsupported") != "unsupported",
        efa_interfaces=network.get("EfaInfo", _NO_ENTRY).get("MaximumEfaInterfaces", 0),
        gpus=_gpus(entry.get("GpuInfo", _NO_ENTRY).get("Gpus", ())),
        neurons=_neurons(entry.get("NeuronInfo", _NO_ENTRY).get("NeuronDevices", ())),
        inference=_inference(entry.get("InferenceAcceleratorInfo", _NO_ENTRY)),
        has_storage=storage is not None,
        storage_gb=(storage or _NO_ENTRY).get("TotalSizeInGB", 0),
        has_nvme=(storage or _NO_ENTRY).get("NvmeSupport", "unsupported") != "unsupported",
        hypervisor=entry.get("Hypervisor", ""),
        encrypts_in_transit=bool(network.get("EncryptionInTransitSupported", False)),
        has_enclaves=entry.get("NitroEnclavesSupport") == "supported",
        usage_classes=frozenset(entry.get("SupportedUsageClasses", ())),
        placement_strategies=frozenset(
            entry.get("PlacementGroupInfo", _NO_ENTRY).get("SupportedStrategies", ())
        ),
        cpu_features=frozenset(processor.get("SupportedFeatures", ())),
    )


def _ebs_mbps(ebs: Mapping[str, Any]) -> int | None:
    if ebs.get("EbsOptimizedSupport") != "default":
        return None
    bandwidth = ebs.get("EbsOptimizedInfo", _NO_ENTRY).get("MaximumBandwidthInMbps")
    return None if bandwidth is None else int(bandwidth)


def _cards(entries: Sequence[Mapping[str, Any]]) -> tuple[NetworkCard, ...]:
    return tuple(
        NetworkCard(
            each.get("NetworkCardIndex", 0),
            each.get("MaximumNetworkInterfaces", 0),
            each.get("BaselineBandwidthInGbps"),
        )
        for each in entries
    )


def _gpus(entries: Sequence[Mapping[str, Any]]) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            each.get("Name", ""),
            each.get("Manufacturer", ""),
            each.get("Count", 0),
            each.get("MemoryInfo", _NO_ENTRY).get("SizeInMiB", 0),
        )
        for each in entries
    )


def _neurons(entries: Sequence[Mapping[str, Any]]) -> tuple[Accelerator, ...]:
    return tuple(
        Accelerator(
            each.get("Name", ""),
            "aws",
            each.get("Count", 0),
            each.get("CoreInfo", _NO_ENTRY).get("Count", 0),
        )
        for each in entries
    )


def _inference(info: Mapping[str, Any]) -> tuple[Accelerator, ...]:
    return tuple(
        Accelerator(each.get("Name", ""), each.get("Manufacturer", ""), each.get("Count", 0))
        for each in info.get("Accelerators", ())
    )


@remembered(4096)
def category_and_generation(name: str) -> tuple[str, str] | None:
    """``m5.large`` is m and 5, ``u-6tb1.56xlarge`` is u and 1; None for a name unlike these."""
    found = _SHAPE.match(name)
    return None if found is None else (found[1], found[3])


def family_and_size(name: str) -> tuple[str, str]:
    """``m5.large`` is m5 and large."""
    family, _, size = name.partition(".")
    return family, size
