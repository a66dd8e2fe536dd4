"""The simulated cloud as the contract of providers wants to see it."""

from collections.abc import Sequence

from helpers.builders import node_pool
from karpenter.api.karpenter import NodeClaim, NodeClassReference, NodePool
from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.contract import Bed
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.provider import CloudProvider
from unit.cloud.kwok.kwok_cloud import NODE_CLASS, POOL, KwokCloud


class KwokBed(Bed):
    def __init__(self, cloud: KwokCloud) -> None:
        self.cloud = cloud
        self.provider = cloud.provider

    async def claim(self, name: str) -> NodeClaim:
        return await self.cloud.claim(name)

    def pool(self) -> NodePool:
        reference = NodeClassReference(
            group=kwok_labels.DOMAIN, kind="KWOKNodeClass", name=NODE_CLASS
        )
        return node_pool(POOL, node_class=reference)

    async def instances(self) -> Sequence[str]:
        nodes = await self.cloud.nodes()
        return [node.spec.provider_id for node in nodes]

    async def restart(self) -> CloudProvider:
        await self.cloud.crash()
        self.cloud.start()
        self.provider = self.cloud.provider
        return self.provider

    async def settle(self) -> None:
        await self.cloud.settle()

    async def sell_out(self) -> None:
        self.cloud.provider.faults.sell_out(OfferingPattern())

    async def break_node_class(self) -> None:
        await self.cloud.set_ready("False")
