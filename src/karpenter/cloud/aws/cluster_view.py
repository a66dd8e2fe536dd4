"""The provider's informer caches: mirrors of the kinds it works with, and their indexes.

Until the mirrors have synced, shortly after ``run`` begins, lookups read the API server directly,
so that a provider that is not the leader still answers correctly.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final, TypeVar

from karpenter.api.karpenter import NodeClaim, NodeOverlay, NodePool
from karpenter.api.meta import Resource
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.provider_id import instance_id_of
from karpenter.cloud.aws.prices.pricing import NONE_SUPPLIED, supplied_prices
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.guard import Guard, GuardObserver
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector

R = TypeVar("R", bound=Resource)

_BY_INSTANCE: Final = "instance"
_BY_NODE_CLASS: Final = "node-class"
NODE_CLASS_KIND: Final = "EC2NodeClass"
_ASK_AGAIN: Final = 5.0


class ClusterView:
    """The node classes, claims, nodes and pools of the cluster."""

    name: Final = "view"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        rng: random.Random,
        *,
        sees_overlays: bool = False,
        observer: GuardObserver | None = None,
    ) -> None:
        """Start with empty mirrors.

        Args:
            kube: the API server.
            clock: the clock for retries.
            rng: the source of jitter.
            sees_overlays: the feature gate NodeOverlay; the kind may not exist without it.
            observer: counts handlers that raise; unreadable objects are reported by the mirrors of
                the process.
        """
        self.kube: Final = kube
        guard = Guard(clock, observer)
        self.node_classes: Final = Mirror(EC2NodeClass, guard)
        self.claims: Final = Mirror(NodeClaim, guard)
        self.nodes: Final = Mirror(Node, guard)
        self.pools: Final = Mirror(NodePool, guard)
        self._overlays = Mirror(NodeOverlay, guard)
        self._sees_overlays = sees_overlays
        self._clock = clock
        self._rng = rng
        self._inherited: frozenset[str] | None = None  # uids; None until counted
        self.claims.add_index(_BY_INSTANCE, lambda claim: _ids(claim.status.provider_id))
        self.claims.add_index(_BY_NODE_CLASS, _node_classes)
        self.nodes.add_index(_BY_INSTANCE, lambda node: _ids(node.spec.provider_id))

    async def run(self) -> None:
        """Keep the mirrors up to date, until cancelled."""
        try:
            await self._follow_all()
        finally:
            self._inherited = None

    async def _follow_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._count_inherited())
            group.create_task(self._follow(EC2NodeClass, self.node_classes))
            group.create_task(self._follow(NodeClaim, self.claims))
            group.create_task(self._follow(Node, self.nodes))
            group.create_task(self._follow(NodePool, self.pools))
            if self._sees_overlays:
                group.create_task(self._follow(NodeOverlay, self._overlays))

    async def synced(self) -> None:
        """Wait until the mirrors hold every object of their first list."""
        for mirror in (self.node_classes, self.claims, self.nodes, self.pools):
            await mirror.synced.wait()

    def is_of_this_term(self, claim: NodeClaim) -> bool:
        """Whether a claim is newer than this term, so that no other process launched it."""
        return self._inherited is not None and claim.metadata.uid not in self._inherited

    async def _count_inherited(self) -> None:
        """List claims from the API server: a mirror may still show the state of an earlier term."""
        while self._inherited is None:
            try:
                listed = await self.kube.list(NodeClaim)
            except KubeError:
                await self._clock.sleep(_ASK_AGAIN)
            else:
                self._inherited = frozenset(each.metadata.uid for each in listed)

    async def _follow(self, kind: type[R], mirror: Mirror[R]) -> None:
        await Reflector(self.kube, kind, mirror, self._clock, rng=self._rng).run()

    async def node_class(self, name: str) -> EC2NodeClass | None:
        """A node class; one that is being deleted counts as gone."""
        found: EC2NodeClass | None
        if self.node_classes.is_synced:
            found = self.node_classes.get(name)
        else:
            try:
                found = await self.kube.get(EC2NodeClass, name)
            except NotFoundError:
                found = None
        is_going = found is not None and found.metadata.deletion_timestamp is not None
        return None if is_going else found

    async def has_pool(self, name: str) -> bool:
        """Whether there is a NodePool of a name."""
        if self.pools.is_synced:
            return self.pools.get(name) is not None
        try:
            await self.kube.get(NodePool, name)
        except NotFoundError:
            return False
        return True

    async def supplied_prices(self) -> Mapping[str, float]:
        """The prices that users supply by NodeOverlays, by instance type."""
        if not self._sees_overlays:
            return NONE_SUPPLIED
        if self._overlays.is_synced:
            return supplied_prices(self._overlays.list())
        try:
            return supplied_prices(await self.kube.list(NodeOverlay))
        except NotFoundError:
            return NONE_SUPPLIED

    def claims_of_instance(self, instance_id: str) -> list[NodeClaim]:
        """The claims that refer to an instance; more than one is an error."""
        return self.claims.by_index(_BY_INSTANCE, instance_id)

    def claims_of_class(self, name: str) -> list[NodeClaim]:
        """The claims that refer to a node class."""
        return self.claims.by_index(_BY_NODE_CLASS, name)

    def nodes_of_instance(self, instance_id: str) -> list[Node]:
        """The nodes an instance became."""
        return self.nodes.by_index(_BY_INSTANCE, instance_id)


def _ids(provider_id: str) -> tuple[str, ...]:
    found = instance_id_of(provider_id)
    return (found,) if found else ()


def _node_classes(claim: NodeClaim) -> tuple[str, ...]:
    reference = claim.spec.node_class_ref
    return (reference.name,) if reference.kind == NODE_CLASS_KIND else ()
