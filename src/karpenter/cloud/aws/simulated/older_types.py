"""Instance types that moto's tables have dropped and that manifests still name: the p3 family.

They are sold in the zones that sell its successor among the cheaper GPUs, so that a GPU pool of a
few years ago gets its node.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

_LIKE: Final = "g4dn.12xlarge"
# vCPUs, MiB of memory, GPUs, network interfaces, addresses of each, Mbps of EBS, network
_TYPES: Final = {
    "p3.2xlarge": (8, 62464, 1, 4, 15, 1750, "Up to 10 Gigabit"),
    "p3.8xlarge": (32, 249856, 4, 8, 30, 7000, "10 Gigabit"),
    "p3.16xlarge": (64, 499712, 8, 8, 30, 14000, "25 Gigabit"),
}
_GPU_MIB: Final = 16384


@cache
def older_types() -> Mapping[str, Mapping[str, Any]]:
    """Entries as DescribeInstanceTypes has them, by name."""
    return {name: _entry(name, *facts) for name, facts in _TYPES.items()}


def older_offerings(offered: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """Where they are sold, among what a region sells."""
    for entry in offered:
        if entry["InstanceType"] == _LIKE:
            for name in _TYPES:
                yield {**entry, "InstanceType": name}


def _entry(
    name: str,
    vcpus: int,
    mib: int,
    gpus: int,
    interfaces: int,
    addresses: int,
    ebs_mbps: int,
    network: str,
) -> dict[str, Any]:
    gpu = {
        "Name": "V100",
        "Manufacturer": "NVIDIA",
        "Count": gpus,
        "MemoryInfo": {"SizeInMiB": _GPU_MIB},
    }
    card = {
        "NetworkCardIndex": 0,
        "NetworkPerformance": network,
        "MaximumNetworkInterfaces": interfaces,
    }
    return {
        "InstanceType": name,
        "CurrentGeneration": True,
        "BareMetal": False,
        "BurstablePerformanceSupported": False,
        "Hypervisor": "xen",
        "InstanceStorageSupported": False,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "ProcessorInfo": {
            "Manufacturer": "Intel",
            "SupportedArchitectures": ["x86_64"],
            "SustainedClockSpeedInGhz": 2.7,
        },
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": mib},
        "GpuInfo": {"Gpus": [gpu], "TotalGpuMemoryInMiB": gpus * _GPU_MIB},
        "EbsInfo": {
            "EbsOptimizedSupport": "default",
            "EbsOptimizedInfo": {"MaximumBandwidthInMbps": ebs_mbps},
        },
        "NetworkInfo": {
            "NetworkPerformance": network,
            "MaximumNetworkInterfaces": interfaces,
            "DefaultNetworkCardIndex": 0,
            "NetworkCards": [card],
            "Ipv4AddressesPerInterface": addresses,
            "Ipv6AddressesPerInterface": addresses,
            "EnaSupport": "supported",
        },
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
    }
