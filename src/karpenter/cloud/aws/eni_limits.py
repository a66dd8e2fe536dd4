"""How many pods a type's network interfaces can serve.

The VPC CNI gives pods secondary addresses of the interfaces, so their number follows from what EC2
says. Branch interfaces, which pods with security groups of their own need, EC2 does not tell: they
are tabled.
"""

from karpenter.cloud.aws.facts import TypeFacts
from karpenter.cloud.aws.type_tables import branch_interfaces_by_type


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
