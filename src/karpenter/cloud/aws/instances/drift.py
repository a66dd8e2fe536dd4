"""Why an instance is no longer what its node class asks for.

The comparisons are pure functions; ``Drifting`` gathers their inputs with as few calls to EC2 as
possible.
"""

from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.assembly import Parts
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.images.images import image_for
from karpenter.cloud.aws.instances.record import InstanceRecord
from karpenter.cloud.provider import CloudError
from karpenter.model import labels

NODE_CLASS: Final = "NodeClassDrift"
AMI: Final = "AMIDrift"
SECURITY_GROUPS: Final = "SecurityGroupDrift"
SUBNET: Final = "SubnetDrift"
CAPACITY_RESERVATION: Final = "CapacityReservationDrift"
PLACEMENT_GROUP: Final = "PlacementGroupDrift"
NO_DRIFT: Final = ""


@dataclass(frozen=True, slots=True)
class Launched:
    """What an instance was launched with, as far as it can drift."""

    security_groups: frozenset[str]
    subnet_id: str
    reservation_id: str = ""  # nothing unless it was launched into one on purpose


def static_drift(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    """Drift of the node class's own fields, detected by its hash."""
    mine, its = claim.metadata.annotations, node_class.metadata.annotations
    hashes = [each.get(ec2_labels.NODE_CLASS_HASH) for each in (mine, its)]
    versions = [each.get(ec2_labels.NODE_CLASS_HASH_VERSION) for each in (mine, its)]
    if None in (*hashes, *versions) or versions[0] != versions[1]:
        return ""
    return NODE_CLASS if hashes[0] != hashes[1] else ""


def image_drift(claim: NodeClaim, chosen_image: str) -> str:
    """Drift of the image: a new launch of this type would use another one.

    Raises:
        CloudError: the image of the claim is not known.
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
    held = claim.metadata.labels.get(ec2_labels.PLACEMENT_GROUP_ID, "")
    return PLACEMENT_GROUP if held != group_id else ""


class Drifting:
    """Compares instances with their node classes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def reason(self, claim: NodeClaim) -> str:
        """Why an instance is no longer what its node class asks for; nothing if it is.

        A claim whose pool is gone cannot be replaced, and is deleted with its pool.

        Raises:
            CloudError: it cannot be determined now.
        """
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        if not pool or not await self._parts.view.has_pool(pool):
            return NO_DRIFT
        node_class = await self._parts.view.node_class(claim.spec.node_class_ref.name)
        if node_class is None:
            return NO_DRIFT
        return (
            static_drift(claim, node_class)
            or await self._image_drift(claim, node_class)
            or await self._instance_drift(claim, node_class)
            or await self._placement_drift(claim, node_class)
        )

    async def _image_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        name = node_class.metadata.name
        if not node_class.status.amis:
            raise CloudError(f"EC2NodeClass {name} has no images")
        held = claim.metadata.labels.get(labels.INSTANCE_TYPE, "")
        types = await self._parts.types.list(node_class)
        kind = next((each for each in types if each.name == held), None)
        if kind is None:
            raise CloudError(f"instance type {held!r} of claim {claim.metadata.name} is not known")
        image = image_for(node_class.status.amis, kind)
        return image_drift(claim, "" if image is None else image.id)

    async def _instance_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        instance_id = instance_id_of(claim.status.provider_id)
        if not instance_id:
            raise CloudError(f"{claim.status.provider_id!r} names no EC2 instance")
        record = await self._parts.instances.get(instance_id)
        found = network_drift(_launched(record), node_class)
        if found or not has_left_reservations(_launched(record), node_class):
            return found
        # it may have become an on-demand instance when its reservation ended
        fresh = await self._parts.instances.get(instance_id, cached=False)
        has_left = has_left_reservations(_launched(fresh), node_class)
        return CAPACITY_RESERVATION if has_left else NO_DRIFT

    async def _placement_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        group = await self._parts.groups.resolve(node_class)
        return placement_drift(claim, "" if group is None else group.id)


def _launched(record: InstanceRecord) -> Launched:
    return Launched(record.security_groups, record.subnet_id, record.reservation_id)
