"""Finds out whether an instance has drifted, asking EC2 as little as possible."""

from typing import Final

from karpenter.api.ec2 import EC2NodeClass
from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.aws import drift
from karpenter.cloud.aws.drift import Launched
from karpenter.cloud.aws.identity import instance_id_of
from karpenter.cloud.aws.images import image_for
from karpenter.cloud.aws.instance_record import InstanceRecord
from karpenter.cloud.aws.parts import Parts
from karpenter.cloud.provider import CloudError
from karpenter.model import labels

NO_DRIFT: Final = ""


class Drifting:
    """Compares instances with their node classes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def reason(self, claim: NodeClaim) -> str:
        """Why an instance is no longer what its node class asks for; nothing if it is.

        A claim whose pool is gone has nothing it could be replaced by, and goes with its pool.

        Raises:
            CloudError: it cannot be told now.
        """
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        if not pool or not await self._parts.view.has_pool(pool):
            return NO_DRIFT
        node_class = await self._parts.view.node_class(claim.spec.node_class_ref.name)
        if node_class is None:
            return NO_DRIFT
        return (
            drift.static_drift(claim, node_class)
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
        return drift.image_drift(claim, "" if image is None else image.id)

    async def _instance_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        instance_id = instance_id_of(claim.status.provider_id)
        if not instance_id:
            raise CloudError(f"{claim.status.provider_id!r} names no EC2 instance")
        record = await self._parts.instances.get(instance_id)
        found = drift.network_drift(_launched(record), node_class)
        if found or not drift.has_left_reservations(_launched(record), node_class):
            return found
        # it may have become an on-demand instance when its reservation ended
        fresh = await self._parts.instances.get(instance_id, cached=False)
        has_left = drift.has_left_reservations(_launched(fresh), node_class)
        return drift.CAPACITY_RESERVATION if has_left else NO_DRIFT

    async def _placement_drift(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        group = await self._parts.groups.resolve(node_class)
        return drift.placement_drift(claim, "" if group is None else group.id)


def _launched(record: InstanceRecord) -> Launched:
    return Launched(record.security_groups, record.subnet_id, record.reservation_id)
