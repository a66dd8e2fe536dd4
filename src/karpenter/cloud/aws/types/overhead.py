"""What a node sets aside: for the kubelet, for the system, and for the eviction threshold."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from karpenter.cloud.aws.types.capacity import GIB, MIB, Sizing, pods_by_interfaces
from karpenter.cloud.aws.types.facts import TypeFacts
from karpenter.cloud.aws.types.kubelet import TypeKubelet
from karpenter.model.quantity import units
from karpenter.model.resources import EPHEMERAL_STORAGE, MEMORY, Resources

MEMORY_SIGNAL: Final = "memory.available"
STORAGE_SIGNAL: Final = "nodefs.available"
_EVICTION_MEMORY: Final = 100 * MIB
_MIB_PER_POD: Final = 11
_MIB_AT_LEAST: Final = 255
# (first core of a slice, first core after it, hundredths of a percent of it that are kept)
_CPU_SLICES: Final = ((0, 1, 600), (1, 2, 100), (2, 4, 50), (4, None, 25))
_NOT_A_RESOURCE: Final = "pid"


def kube_reserved(
    facts: TypeFacts, sizing: Sizing, kubelet: TypeKubelet, capacity: Resources
) -> Resources:
    """What the kubelet and the container runtime get; the class may replace each amount."""
    pods = capacity.pods
    if sizing.family.reserves_by_interfaces:
        # The image computes this itself, without maxPods and reserved interfaces; interfaces for
        # EFA alone are missing on the instance itself
        pods = pods_by_interfaces(facts, sizing.efa_only_on_default_card)
    own = Resources(
        cpu=_reserved_millicores(facts.vcpus),
        memory=(_MIB_PER_POD * pods + _MIB_AT_LEAST) * MIB,
        ephemeral_storage=GIB,
    )
    said = _resources(kubelet.kube_reserved)
    if not kubelet.kube_reserved:
        return own
    named = {name: said[name] for name in kubelet.kube_reserved if name != _NOT_A_RESOURCE}
    return Resources.of(dict(own.items()) | named)


def system_reserved(kubelet: TypeKubelet) -> Resources:
    """What the system gets: only ``systemReserved`` of the class."""
    return _resources(kubelet.system_reserved)


def eviction_threshold(capacity: Resources, hard: Mapping[str, str]) -> Resources:
    """What must stay free, or else the kubelet evicts."""
    amounts = {
        MEMORY: _EVICTION_MEMORY,
        EPHEMERAL_STORAGE: math.ceil(Fraction(capacity.ephemeral_storage, 10)),
    }
    for signal, resource in ((MEMORY_SIGNAL, MEMORY), (STORAGE_SIGNAL, EPHEMERAL_STORAGE)):
        if signal in hard:
            amounts[resource] = _threshold(hard[signal], capacity[resource])
    return Resources.of(amounts)


def overhead_of(
    facts: TypeFacts, sizing: Sizing, kubelet: TypeKubelet, capacity: Resources
) -> Resources:
    """Everything a node sets aside; ``capacity`` is the estimated one, discovered memory or not."""
    return (
        kube_reserved(facts, sizing, kubelet, capacity)
        + system_reserved(kubelet)
        + eviction_threshold(capacity, sizing.kubelet.eviction_hard)
    )


def _reserved_millicores(vcpus: int) -> int:
    total = 0
    for first, end, share in _CPU_SLICES:
        cores = max(0, min(vcpus, vcpus if end is None else end) - first)
        total += cores * 1000 * share // 10_000
    return total


def _threshold(text: str, capacity: int) -> int:
    if not text.endswith("%"):
        return units(text)
    percent = Fraction(text.removesuffix("%"))
    if percent == 100:
        return 0  # the kubelet takes it for "never"
    return math.ceil(capacity * percent / 100)


def _resources(amounts: Mapping[str, str]) -> Resources:
    return Resources.from_wire({k: v for k, v in amounts.items() if k != _NOT_A_RESOURCE})
