"""Why an instance is no longer what its node class asks for; a pure function of what is known."""

from dataclasses import dataclass
from typing import Final

from karpenter.api.ec2 import EC2NodeClass
from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import CloudError
from karpenter.model import labels

NODE_CLASS: Final = "NodeClassDrift"
AMI: Final = "AMIDrift"
SECURITY_GROUPS: Final = "SecurityGroupDrift"
SUBNET: Final = "SubnetDrift"
CAPACITY_RESERVATION: Final = "CapacityReservationDrift"
PLACEMENT_GROUP: Final = "PlacementGroupDrift"


@dataclass(frozen=True, slots=True)
class Launched:
    """What an instance was launched with, as far as it can drift."""

    security_groups: frozenset[str]
    subnet_id: str
    reservation_id: str = ""  # nothing unless it was launched into one on purpose


def static_drift(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    """Drift of the node class's own fields, told by its hash."""
    mine, its = claim.metadata.annotations, node_class.metadata.annotations
    hashes = [each.get(labels.EC2_NODE_CLASS_HASH) for each in (mine, its)]
    versions = [each.get(labels.EC2_NODE_CLASS_HASH_VERSION) for each in (mine, its)]
    if None in (*hashes, *versions) or versions[0] != versions[1]:
        return ""
    return NODE_CLASS if hashes[0] != hashes[1] else ""


def image_drift(claim: NodeClaim, chosen_image: str) -> str:
    """Drift of the image: a new launch of this type would use another one.

    Raises:
        CloudError: nobody knows the image of the claim.
    """
    if not claim.status.image_id:
        raise CloudError(f"the image of claim {claim.metadata.name} is not known")
    return AMI if claim.status.image_id != chosen_image else ""


def network_drift(launched: Launched, node_class: EC2NodeClass) -> str:
    """Drift of security groups and subnet.

    Raises:
        CloudError: the node class has found none.
    """
    status = node_class.status
    name = node_class.metadata.name
    if not status.security_groups:
        raise CloudError(f"EC2NodeClass {name} has no security groups")
    if launched.security_groups != {group.id for group in status.security_groups}:
        return SECURITY_GROUPS
    if not status.subnets:
        raise CloudError(f"EC2NodeClass {name} has no subnets")
    return "" if launched.subnet_id in {subnet.id for subnet in status.subnets} else SUBNET


def has_left_reservations(launched: Launched, node_class: EC2NodeClass) -> bool:
    """Whether an instance draws on a reservation the node class no longer selects."""
    selected = {each.id for each in node_class.status.capacity_reservations}
    return bool(launched.reservation_id) and launched.reservation_id not in selected


def placement_drift(claim: NodeClaim, group_id: str) -> str:
    """Drift of the placement group."""
    held = claim.metadata.labels.get(labels.PLACEMENT_GROUP_ID, "")
    return PLACEMENT_GROUP if held != group_id else ""
