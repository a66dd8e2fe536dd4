"""Nodes in a partition placement group learn their partition before pods may land on them."""

from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.nodes import Node
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.instances.instances import Instances
from karpenter.cloud.provider import HookResult


class PartitionHook:
    """Waits until EC2 says which partition an instance is in."""

    name: Final = "placement-group-partition"

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    async def __call__(self, claim: NodeClaim, node: Node) -> HookResult:
        if claim.metadata.labels.get(ec2_labels.PLACEMENT_GROUP_PARTITION, "unasked"):
            return HookResult(is_ready=True)
        instance_id = instance_id_of(claim.status.provider_id)
        record = await self._instances.get(instance_id, cached=False)
        if not record.partition:
            return HookResult(is_ready=False)
        return HookResult(
            is_ready=True, labels={ec2_labels.PLACEMENT_GROUP_PARTITION: record.partition}
        )
