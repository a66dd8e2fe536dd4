"""How many pods a type's network interfaces can serve.

The VPC CNI gives pods secondary addresses of the interfaces, so their number follows from what EC2
says. Branch interfaces, which pods with security groups of their own need, EC2 does not tell; they
come out of a fixed number of slots that grows with the size of a type and that the ordinary
interfaces use up first. The few types that do not follow the rule are listed.
"""

from bisect import bisect_left
from typing import Final

from karpenter.cloud.aws.facts import TypeFacts
from karpenter.cloud.aws.names import generation_of

# (vCPUs up to, slots for all interfaces together)
_SLOTS: Final = ((1, 6), (2, 12), (4, 22), (8, 42), (16, 62), (48, 62))
_NEWER_SLOTS: Final = (*_SLOTS[:-1], (36, 92))
_MOST_SLOTS: Final = 122
_NEWER_GENERATION: Final = 7
_FLEX: Final = "-flex"
_LARGE_FLEX_VCPUS: Final = 48
_BRANCHES: Final = {
    "g4ad.xlarge": 12,
    "g4ad.2xlarge": 12,
    "g4ad.4xlarge": 11,
    "g4ad.8xlarge": 10,
    "g4ad.16xlarge": 6,
    "g4dn.xlarge": 39,
    "g4dn.2xlarge": 39,
    "g4dn.4xlarge": 59,
    "g4dn.8xlarge": 58,
    "g5.xlarge": 4,
    "g5.2xlarge": 17,
    "g5.4xlarge": 34,
}


def pods_by_interfaces(facts: TypeFacts, unusable: int = 0) -> int:
    """The pods that fit when ``unusable`` interfaces of the default card serve something else."""
    interfaces = max(0, facts.interfaces - unusable)
    if not interfaces:
        return 0
    # The first address of an interface is its own; two pods on every node use the host network
    return interfaces * (facts.ips_per_interface - 1) + 2


def branch_interfaces(facts: TypeFacts) -> int:
    """How many pods may have security groups of their own; none where trunks are not supported."""
    if facts.is_burstable or not (facts.hypervisor == "nitro" or facts.is_bare_metal):
        return 0
    if facts.name in _BRANCHES:
        return _BRANCHES[facts.name]
    return max(0, _slots(facts) - sum(card.interfaces for card in facts.cards))


def windows_addresses(facts: TypeFacts) -> int:
    """How many addresses Windows pods share: those of one interface without its own."""
    return max(0, facts.ips_per_interface - 1)


def _slots(facts: TypeFacts) -> int:
    vcpus = facts.vcpus
    if _FLEX in facts.name and vcpus < _LARGE_FLEX_VCPUS:
        vcpus //= 2  # they have the slots of the next smaller size
    table = _NEWER_SLOTS if _is_newer(facts) else _SLOTS
    position = bisect_left([limit for limit, _ in table], vcpus)
    return table[position][1] if position < len(table) else _MOST_SLOTS


def _is_newer(facts: TypeFacts) -> bool:
    if facts.architecture != "amd64":
        return False
    return bool(facts.gpus) or generation_of(facts.name) >= _NEWER_GENERATION
