"""A node that was deleted is closed, emptied, freed of its volumes and its machine, then let go.

Each look takes the stages in order and stops at the first that is not over. Nothing is remembered
between looks: the taint, the conditions of the claim and what runs on the node say how far it is.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.storage import PersistentVolumeClaim, VolumeAttachment
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.controllers.mirrors import BY_NODE
from karpenter.controllers.runtime import Controller
from karpenter.controllers.termination import reports
from karpenter.controllers.termination.deadline import DeadlineError, deadline_of
from karpenter.controllers.termination.drain import MINIMUM, plan_drain
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.instances import INSTANCE_TERMINATING, Instances
from karpenter.controllers.termination.lookup import claim_of, has_node_class, nodes_of
from karpenter.controllers.termination.orders import Order
from karpenter.controllers.termination.visit import Visit
from karpenter.controllers.termination.volumes import awaited_attachments
from karpenter.controllers.world import STATUS, World
from karpenter.kube.errors import NotFoundError
from karpenter.kube.mirror import Key, key_of
from karpenter.kube.workqueue import Backoff
from karpenter.model import labels
from karpenter.model.conditions import (
    FALSE,
    READY,
    TRUE,
    UNKNOWN,
    is_true,
    timestamp,
    to_wire,
)
from karpenter.model.taints import DISRUPTED, matches

DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
_POLL_SECONDS: Final = 1.0
_KARPENTER: Final = "karpenter"


class NodeTermination(Controller):
    """Removes nodes gracefully."""

    name = "node.termination"
    kind = Node
    workers = 100
    backoff = Backoff(0.1, 10.0)

    def __init__(self, world: World, evictions: EvictionQueue) -> None:
        super().__init__(world)
        self._evictions = evictions
        self._instances = Instances(world)
        self._nodes = world.mirror(Node)
        self._pods = world.mirror(Pod)
        self._attachments = world.mirror(VolumeAttachment)
        self._volume_claims = world.mirror(PersistentVolumeClaim)
        self.follow(self._nodes, self._key_if_leaving)
        self.follow(self._pods, lambda pod: self._key_of_leaving(pod.spec.node_name))
        self.follow(self._attachments, lambda held: self._key_of_leaving(held.spec.node_name))
        self.follow(world.mirror(NodeClaim), self._keys_of_claim)

    async def reconcile(self, key: Key) -> float | None:
        """Take a node as far as it can go now."""
        node = self._nodes.get(key[1])
        if node is None or not self._is_leaving(node):
            return None
        claim = claim_of(self.world, node)
        if claim is not None and claim.metadata.deletion_timestamp is None:
            await self.world.delete(claim)
        if await self._has_lost_its_machine(node):
            await self._release(node)
            return None
        try:
            deadline = deadline_of(claim)
        except DeadlineError as error:
            return self._stopped_by(node, str(error))
        if deadline is not None:
            self.world.recorder.publish(reports.expiring(node, timestamp(deadline) or ""))
        node = await self._closed(node)
        if claim is not None and claim.metadata.deletion_timestamp is None:
            # Its deletion shows in a moment, and its deadline with it
            return _POLL_SECONDS
        pods = self._pods.by_index(BY_NODE, node.metadata.name)
        return await self._visit(Visit(node, claim, pods, deadline, self.clock.now()))

    def _stopped_by(self, node: Node, problem: str) -> float:
        self.log.error("reconcile failed", Node={"name": node.metadata.name}, error=problem)
        return self.backoff.last

    async def _visit(self, visit: Visit) -> float | None:
        wait = self._drained(visit)
        if wait is None:
            wait = self._detached(visit)
        try:
            if wait is None:
                wait = await self._ended(visit)
        except Exception:
            # How far the node has come is seen on its claim, even if the cloud fails
            await self._persist(visit)
            raise
        await self._persist(visit)
        if wait is None:
            await self._release(visit.node)
        return wait

    def _drained(self, visit: Visit) -> float | None:
        drain = plan_drain(visit.pods, deadline=visit.deadline, now=visit.now)
        self._evictions.add(drain.to_go, Order(visit.deadline))
        if not drain.is_over:
            visit.set(DRAINED, UNKNOWN, "Draining")
            self.world.recorder.publish(reports.waiting(visit.node, len(drain.waiting)))
            return _POLL_SECONDS
        if visit.claim is None or is_true(visit.conditions, DRAINED):
            return None
        visit.set(DRAINED, UNKNOWN, "Draining")
        missing = MINIMUM.total_seconds() - visit.seconds_since(DRAINED)
        if missing > 0:
            return missing
        visit.set(DRAINED, TRUE)
        return None

    def _detached(self, visit: Visit) -> float | None:
        awaited = awaited_attachments(
            self._attachments.by_index(BY_NODE, visit.node.metadata.name),
            visit.pods,
            self._volume_claims,
            now=visit.now,
        )
        if not awaited:
            visit.set(VOLUMES_DETACHED, TRUE)
            return None
        if visit.is_overdue:
            visit.set(VOLUMES_DETACHED, FALSE, "TerminationGracePeriodElapsed")
            return None
        visit.set(VOLUMES_DETACHED, UNKNOWN, "AwaitingVolumeDetachment")
        self.world.recorder.publish(reports.volumes_attached(visit.node, awaited))
        return _POLL_SECONDS

    async def _ended(self, visit: Visit) -> float | None:
        if visit.claim is None or len(nodes_of(self.world, visit.claim)) > 1:
            # The other node is still in use; the claim ends the machine after both
            return None
        wait = await self._instances.end(visit.claim)
        visit.set(INSTANCE_TERMINATING, TRUE)
        return wait

    async def _persist(self, visit: Visit) -> None:
        if visit.claim is not None and visit.has_changed:
            body = {"status": {"conditions": to_wire(visit.conditions)}}
            await self.world.patch(visit.claim, body, locked=True, subresource=STATUS)
        if visit.has_come_true(DRAINED):
            pool = visit.node.metadata.labels.get(labels.NODEPOOL, "")
            self.world.metrics.nodes_drained_total.labels(nodepool=pool).inc()

    async def _has_lost_its_machine(self, node: Node) -> bool:
        if is_true(node.status.conditions, READY) or not node.spec.provider_id:
            return False
        try:
            await self.world.cloud.get(node.spec.provider_id)
        except InstanceNotFoundError:
            return True
        return False

    async def _closed(self, node: Node) -> Node:
        """Keep new pods and outside traffic away from the node, and show it as cordoned."""
        others = [taint for taint in node.spec.taints if taint.key != DISRUPTED.key]
        is_tainted = any(matches(taint, DISRUPTED) for taint in node.spec.taints)
        if is_tainted and len(others) + 1 == len(node.spec.taints) and _is_cordoned(node):
            return node
        taints = [msgspec.to_builtins(taint) for taint in (*others, DISRUPTED)]
        body = {
            "metadata": {"labels": {labels.EXCLUDE_FROM_LOAD_BALANCERS: _KARPENTER}},
            "spec": {"taints": taints, "unschedulable": True},
        }
        node = await self.world.patch(node, body, locked=True)
        if not is_tainted:
            self.log.info(
                "tainted node",
                Node={"name": node.metadata.name},
                **{"taint.Key": DISRUPTED.key, "taint.Effect": DISRUPTED.effect},
            )
        return node

    async def _release(self, node: Node) -> None:
        kept = [name for name in node.metadata.finalizers if name != labels.TERMINATION]
        try:
            await self.world.patch(node, {"metadata": {"finalizers": kept}}, locked=True)
        except NotFoundError:
            return
        metadata, metrics, now = node.metadata, self.world.metrics, self.clock.now()
        pool = metadata.labels.get(labels.NODEPOOL, "")
        zone = metadata.labels.get(labels.ZONE, "")
        metrics.nodes_terminated_total.labels(nodepool=pool, zone=zone).inc()
        for since, metric in (
            (metadata.deletion_timestamp, metrics.nodes_termination_duration_seconds),
            (metadata.creation_timestamp, metrics.nodes_lifetime_duration_seconds),
        ):
            if since is not None:
                metric.labels(nodepool=pool).observe((now - since).total_seconds())
        self.log.info("deleted node", Node={"name": metadata.name})

    def _is_leaving(self, node: Node) -> bool:
        return (
            node.metadata.deletion_timestamp is not None
            and labels.TERMINATION in node.metadata.finalizers
            and has_node_class(self.world, node)
        )

    def _key_if_leaving(self, node: Node) -> Iterable[Key]:
        return (key_of(node),) if self._is_leaving(node) else ()

    def _key_of_leaving(self, name: str) -> Iterable[Key]:
        node = self._nodes.get(name)
        return self._key_if_leaving(node) if node is not None else ()

    def _keys_of_claim(self, claim: NodeClaim) -> Iterable[Key]:
        return [key_of(node) for node in nodes_of(self.world, claim) if self._is_leaving(node)]


def _is_cordoned(node: Node) -> bool:
    excluded = node.metadata.labels.get(labels.EXCLUDE_FROM_LOAD_BALANCERS) == _KARPENTER
    return excluded and node.spec.unschedulable
