"""Records the memory that nodes report when they join, to correct the estimates of their types."""

import asyncio
from typing import Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.images.images import image_for
from karpenter.cloud.aws.types.capacity import DiscoveredMemory
from karpenter.cloud.aws.types.instance_types import InstanceTypes
from karpenter.cloud.provider import CloudError
from karpenter.model import labels
from karpenter.model.resources import MEMORY, Resources

_TRUE: Final = "true"

log = structlog.get_logger(__name__)


class MemoryDiscovery:
    """Follows nodes as they join."""

    name: Final = "providers.instancetype.capacity"

    def __init__(self, view: ClusterView, types: InstanceTypes) -> None:
        self._view = view
        self._types = types
        self._joined: asyncio.Queue[Node] = asyncio.Queue()

    async def run(self) -> None:
        """Learn from the nodes there are and from those that come, until cancelled."""
        stop = self._view.nodes.on_change(self._changed)
        try:
            await self._view.synced()
            for node in self._view.nodes.list():
                self._changed(None, node)
            while True:
                node = await self._joined.get()
                try:
                    await self.learn(node)
                except Exception as error:
                    log.warning(
                        "nothing learned of a node",
                        Node={"name": node.metadata.name},
                        error=f"{type(error).__name__}: {error}",
                        exc_info=error,
                    )
        finally:
            stop()

    async def learn(self, node: Node) -> None:
        """Record a node's memory, if it booted the image that its type boots now."""
        claim = self._claim(node)
        if claim is None:
            return
        node_class = await self._view.node_class(claim.spec.node_class_ref.name)
        if node_class is None:
            return
        try:
            types = await self._types.list(node_class)
        except CloudError:
            return  # another node of the type will report the same
        name = node.metadata.labels.get(labels.INSTANCE_TYPE, "")
        kind = next((each for each in types if each.name == name), None)
        images = node_class.status.amis
        image = None if kind is None else image_for(images, kind)
        if image is None or image.id != claim.status.image_id:
            return
        memory = Resources.from_wire(node.status.capacity)[MEMORY]
        if memory > 0:
            self._memory.learn(name, images, memory)

    @property
    def _memory(self) -> DiscoveredMemory:
        return self._types.memory

    def _claim(self, node: Node) -> NodeClaim | None:
        instance_id = instance_id_of(node.spec.provider_id)
        return next(iter(self._view.claims_of_instance(instance_id)), None)

    def _changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and _has_joined(new) and not (old is not None and _has_joined(old)):
            self._joined.put_nowait(new)


def _has_joined(node: Node) -> bool:
    return node.metadata.labels.get(labels.REGISTERED) == _TRUE
