"""How much of everything a node of an instance type has, before anything is reserved.

The number of pods follows from the network interfaces: the VPC CNI gives pods their secondary
addresses. The number of branch interfaces, which pods with their own security groups need, comes
from a table because EC2's API does not return it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final

from karpenter.api.node_classes.ec2 import AMIStatus, BlockDeviceMapping, EC2NodeClassSpec
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.images.families import CUSTOM, Family, family_of_spec
from karpenter.cloud.aws.types.facts import TypeFacts
from karpenter.cloud.aws.types.kubelet import KubeletSettings, TypeKubelet
from karpenter.cloud.aws.types.tables import branch_interfaces_by_type
from karpenter.model.quantity import units
from karpenter.model.resources import Resources

_MEMORY_LIFETIME: Final = timedelta(days=60)

MIB: Final = 2**20
GIB: Final = 2**30
POD_ENI: Final = "vpc.amazonaws.com/pod-eni"
EFA: Final = "vpc.amazonaws.com/efa"
PRIVATE_ADDRESS: Final = "vpc.amazonaws.com/PrivateIPv4Address"
NEURON: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
# Manufacturer of GPUs -> the resource its device plugin announces
GPU_RESOURCES: Final = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Habana": "habana.ai/gaudi",
}
EFA_ONLY: Final = "efa-only"
RAID0: Final = "RAID0"
_WINDOWS_PODS: Final = 110
_ARM_RESERVED_MIB: Final = 64  # memory the firmware of arm64 types keeps
_DEFAULT_STORAGE: Final = 20 * GIB
_GB: Final = 10**9


def pods_by_interfaces(facts: TypeFacts, unusable: int = 0) -> int:
    """The pods that fit when ``unusable`` interfaces of the default card serve something else."""
    interfaces = max(0, facts.interfaces - unusable)
    if not interfaces:
        return 0
    # The first address of an interface is its own; two pods on every node use the host network
    return interfaces * (facts.ips_per_interface - 1) + 2


def branch_interfaces(facts: TypeFacts) -> int:
    """How many pods may have security groups of their own; none where trunks are not supported."""
    return branch_interfaces_by_type().get(facts.name, 0)


def windows_addresses(facts: TypeFacts) -> int:
    """How many addresses Windows pods share: those of one interface without its own."""
    return max(0, facts.ips_per_interface - 1)


@dataclass(frozen=True)
class Sizing:
    """The parts of a node class and of the settings that determine the size of nodes."""

    spec: EC2NodeClassSpec
    memory_overhead: float = 0.075  # the share of memory that hypervisor and kernel keep
    reserved_enis: int = 0

    @cached_property
    def family(self) -> Family:
        """The family of the class."""
        return family_of_spec(self.spec)

    @cached_property
    def kubelet(self) -> KubeletSettings:
        """The kubelet settings of the class."""
        return KubeletSettings(self.spec.kubelet)

    @cached_property
    def disk_bytes(self) -> int:
        """The size of the disk that containers live on, where it is not instance storage."""
        return _disk_bytes(self.spec.block_device_mappings, self.family)

    @cached_property
    def efa_only(self) -> int:
        """How many interfaces of the class serve nothing but EFA."""
        return sum(each.interface_type == EFA_ONLY for each in self.spec.network_interfaces)

    @cached_property
    def efa_only_on_default_card(self) -> int:
        """How many of those are on the first card, whose interfaces serve pods."""
        return sum(
            each.interface_type == EFA_ONLY and each.network_card_index == 0
            for each in self.spec.network_interfaces
        )


def default_pods(facts: TypeFacts, sizing: Sizing) -> int:
    """The pods a node takes when the kubelet settings say nothing about it."""
    if not sizing.family.limits_pods_by_interfaces:
        return _WINDOWS_PODS
    return pods_by_interfaces(facts, sizing.reserved_enis + sizing.efa_only_on_default_card)


def pods_of(facts: TypeFacts, sizing: Sizing, kubelet: TypeKubelet) -> int:
    """The pods a node takes."""
    pods = default_pods(facts, sizing) if kubelet.max_pods is None else kubelet.max_pods
    per_core = sizing.kubelet.pods_per_core
    if per_core > 0 and sizing.family.honours_pods_per_core:
        return min(per_core * facts.vcpus, pods)
    return pods


def memory_of(facts: TypeFacts, overhead: float) -> int:
    """The bytes of memory the kernel is going to see, estimated."""
    mib = facts.memory_mib - (_ARM_RESERVED_MIB if facts.is_arm else 0)
    return (mib - math.ceil(mib * overhead)) * MIB


def storage_of(facts: TypeFacts, sizing: Sizing) -> int:
    """The bytes of ephemeral storage."""
    if sizing.spec.instance_store_policy == RAID0 and facts.has_storage:
        return facts.storage_gb * _GB
    return sizing.disk_bytes


def capacity_of(facts: TypeFacts, sizing: Sizing, kubelet: TypeKubelet) -> Resources:
    """Everything a node has."""
    return Resources(
        cpu=facts.vcpus * 1000,
        memory=memory_of(facts, sizing.memory_overhead),
        pods=pods_of(facts, sizing, kubelet),
        ephemeral_storage=storage_of(facts, sizing),
        others=_others(facts, sizing),
    )


def _others(facts: TypeFacts, sizing: Sizing) -> Mapping[str, int]:
    amounts = {
        POD_ENI: branch_interfaces(facts),
        EFA: sizing.efa_only if sizing.spec.network_interfaces else facts.efa_interfaces,
        NEURON: sum(each.count for each in facts.neurons),
        NEURON_CORE: facts.neurons[0].count * facts.neurons[0].cores if facts.neurons else 0,
    }
    for gpu in facts.gpus:
        resource = GPU_RESOURCES.get(gpu.manufacturer)
        if resource is not None:
            amounts[resource] = amounts.get(resource, 0) + gpu.count
    if sizing.family.is_windows:
        amounts[PRIVATE_ADDRESS] = windows_addresses(facts)
    return {name: amount for name, amount in amounts.items() if amount}


def _disk_bytes(mappings: tuple[BlockDeviceMapping, ...], family: Family) -> int:
    root = next((each for each in mappings if each.root_volume), None)
    if root is not None and _size(root):
        return _size(root)
    if family.name == CUSTOM:
        return (_size(mappings[-1]) if mappings else 0) or _DEFAULT_STORAGE
    for disks in (mappings, family.default_disks):
        data = next((each for each in disks if each.device_name == family.data_device), None)
        if data is not None and _size(data):
            return _size(data)
    return _DEFAULT_STORAGE


def _size(mapping: BlockDeviceMapping) -> int:
    if mapping.ebs is None or mapping.ebs.volume_size is None:
        return 0
    return units(mapping.ebs.volume_size)


class DiscoveredMemory:
    """The memory that nodes reported, which overrides the estimate of their type.

    How much memory the kernel sees depends on the image, so what is learned holds for a type with
    one list of images. The least value reported is kept: a plan must fit every node of the type.
    """

    def __init__(self, clock: Clock) -> None:
        self.sequence = 0  # grows with every change
        self._bytes: TtlCache[tuple[str, frozenset[str]], int] = TtlCache(
            clock, _MEMORY_LIFETIME.total_seconds()
        )

    def learn(self, instance_type: str, images: Sequence[AMIStatus], memory: int) -> None:
        """Take note of the memory of a node that booted the type's present image."""
        key = (instance_type, _ids(images))
        known = self._bytes.get(key)
        if known is not None and memory > known:
            return
        self._bytes.put(key, memory)
        if memory != known:
            self.sequence += 1

    def of(self, instance_type: str, images: Sequence[AMIStatus]) -> int | None:
        """The bytes of memory that nodes of a type had, or None if none has come yet."""
        return self._bytes.get((instance_type, _ids(images)))

    def known(self, images: Sequence[AMIStatus]) -> dict[str, int]:
        """The types whose memory is known with a list of images."""
        wanted = _ids(images)
        return {kind: memory for (kind, ids), memory in self._bytes.items() if ids == wanted}


def _ids(images: Sequence[AMIStatus]) -> frozenset[str]:
    return frozenset(image.id for image in images)
