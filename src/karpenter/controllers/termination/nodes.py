"""Finalizing a deleted node: taint, drain, detach volumes, terminate the instance, release.

Each reconcile takes the stages in order and stops at the first that is not over. Nothing is kept in
memory in between: the taint, the conditions of the claim and the pods of the node show the
progress.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.storage import PersistentVolumeClaim, VolumeAttachment
from karpenter.cloud.provider import InstanceNotFoundError
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.lookup import claim_of, has_node_class, nodes_of
from karpenter.controllers.mirrors import BY_NODE
from karpenter.controllers.termination import events
from karpenter.controllers.termination.claims import Instances
from karpenter.controllers.termination.deadline import DeadlineError, deadline_of
from karpenter.controllers.termination.drain import MINIMUM, plan_drain
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.eviction_requests import EvictionRequest
from karpenter.controllers.termination.volumes import awaited_attachments
from karpenter.kube.errors import NotFoundError
from karpenter.kube.mirror import Key, key_of
from karpenter.kube.workqueue import Backoff
from karpenter.model import labels
from karpenter.model.conditions import (
    DRAINED,
    FALSE,
    INSTANCE_TERMINATING,
    READY,
    TRUE,
    UNKNOWN,
    VOLUMES_DETACHED,
    Conditions,
    find,
    is_true,
    timestamp,
    to_wire,
    with_condition,
)
from karpenter.model.taints import DISRUPTED, matches

_POLL_SECONDS: Final = 1.0
_KARPENTER: Final = "karpenter"


@dataclass(slots=True)
class TerminationState:
    """The state of one reconcile of a node; the conditions of its claim change along the way."""

    node: Node
    claim: NodeClaim | None
    pods: list[Pod]
    deadline: datetime | None
    now: datetime
    conditions: Conditions = ()

    def __post_init__(self) -> None:
        """Begin with the conditions as they are written."""
        if self.claim is not None:
            self.conditions = self.claim.status.conditions

    @property
    def is_overdue(self) -> bool:
        """Whether the deadline of the node has passed."""
        return self.deadline is not None and self.now > self.deadline

    @property
    def has_changed(self) -> bool:
        """Whether there is something to write."""
        return self.claim is not None and self.conditions != self.claim.status.conditions

    def set(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        """Set a condition of the claim; a node of no claim has none to set."""
        if self.claim is not None:
            self.conditions = with_condition(
                self.conditions,
                kind,
                status,
                reason,
                message,
                now=self.now,
                generation=self.claim.metadata.generation,
            )

    def seconds_since(self, kind: str) -> float:
        """How long a condition has been as it is."""
        found = find(self.conditions, kind)
        since = found.last_transition_time if found is not None else None
        return (self.now - since).total_seconds() if since is not None else 0.0

    def has_come_true(self, kind: str) -> bool:
        """Whether a condition is true that was not when the reconcile began."""
        before = self.claim.status.conditions if self.claim is not None else ()
        return is_true(self.conditions, kind) and not is_true(before, kind)


class NodeTermination(Controller):
    """Removes nodes gracefully."""

    name = "node.termination"
    kind = Node
    workers = 100
    backoff = Backoff(0.1, 10.0)

    def __init__(self, context: Context, evictions: EvictionQueue) -> None:
        super().__init__(context)
        self._evictions = evictions
        self._instances = Instances(context)
        self._nodes = context.mirror(Node)
        self._pods = context.mirror(Pod)
        self._attachments = context.mirror(VolumeAttachment)
        self._volume_claims = context.mirror(PersistentVolumeClaim)
        self.follow(self._nodes, self._key_if_leaving)
        self.follow(self._pods, lambda pod: self._key_of_leaving(pod.spec.node_name))
        self.follow(self._attachments, lambda held: self._key_of_leaving(held.spec.node_name))
        self.follow(context.mirror(NodeClaim), self._keys_of_claim)

    async def reconcile(self, key: Key) -> float | None:
        """Take a node as far as it can go now."""
        node = self._nodes.get(key[1])
        if node is None or not self._is_leaving(node):
            return None
        claim = claim_of(self.context, node)
        if claim is not None and claim.metadata.deletion_timestamp is None:
            await self.context.delete(claim)
        if await self._has_lost_its_machine(node):
            await self._release(node)
            return None
        try:
            deadline = deadline_of(claim)
        except DeadlineError as error:
            return self._stopped_by(node, str(error))
        if deadline is not None:
            self.context.recorder.publish(events.expiring(node, timestamp(deadline) or ""))
        node = await self._closed(node)
        if claim is not None and claim.metadata.deletion_timestamp is None:
            # The mirror will show its deletion, and its deadline, in a moment
            return _POLL_SECONDS
        pods = self._pods.by_index(BY_NODE, node.metadata.name)
        return await self._terminate(
            TerminationState(node, claim, pods, deadline, self.clock.now())
        )

    def _stopped_by(self, node: Node, problem: str) -> float:
        self.log.error("reconcile failed", Node={"name": node.metadata.name}, error=problem)
        return self.backoff.last

    async def _terminate(self, state: TerminationState) -> float | None:
        wait = self._drained(state)
        if wait is None:
            wait = self._detached(state)
        try:
            if wait is None:
                wait = await self._ended(state)
        except Exception:
            # The claim shows the progress of the node, even if the cloud fails
            await self._persist(state)
            raise
        await self._persist(state)
        if wait is None:
            await self._release(state.node)
        return wait

    def _drained(self, state: TerminationState) -> float | None:
        drain = plan_drain(state.pods, deadline=state.deadline, now=state.now)
        self._evictions.add(drain.to_go, EvictionRequest(state.deadline))
        if not drain.is_over:
            state.set(DRAINED, UNKNOWN, "Draining")
            self.context.recorder.publish(events.waiting(state.node, len(drain.waiting)))
            return _POLL_SECONDS
        if state.claim is None or is_true(state.conditions, DRAINED):
            return None
        state.set(DRAINED, UNKNOWN, "Draining")
        missing = MINIMUM.total_seconds() - state.seconds_since(DRAINED)
        if missing > 0:
            return missing
        state.set(DRAINED, TRUE)
        return None

    def _detached(self, state: TerminationState) -> float | None:
        awaited = awaited_attachments(
            self._attachments.by_index(BY_NODE, state.node.metadata.name),
            state.pods,
            self._volume_claims,
            now=state.now,
        )
        if not awaited:
            state.set(VOLUMES_DETACHED, TRUE)
            return None
        if state.is_overdue:
            state.set(VOLUMES_DETACHED, FALSE, "TerminationGracePeriodElapsed")
            return None
        state.set(VOLUMES_DETACHED, UNKNOWN, "AwaitingVolumeDetachment")
        self.context.recorder.publish(events.volumes_attached(state.node, awaited))
        return _POLL_SECONDS

    async def _ended(self, state: TerminationState) -> float | None:
        if state.claim is None or len(nodes_of(self.context, state.claim)) > 1:
            # The other node is still in use; the claim's finalizer terminates the instance after both
            return None
        wait = await self._instances.end(state.claim)
        state.set(INSTANCE_TERMINATING, TRUE)
        return wait

    async def _persist(self, state: TerminationState) -> None:
        if state.claim is not None and state.has_changed:
            body = {"status": {"conditions": to_wire(state.conditions)}}
            await self.context.patch(state.claim, body, locked=True, subresource=STATUS)
        if state.has_come_true(DRAINED):
            pool = state.node.metadata.labels.get(labels.NODEPOOL, "")
            self.context.metrics.nodes_drained_total.labels(nodepool=pool).inc()

    async def _has_lost_its_machine(self, node: Node) -> bool:
        if is_true(node.status.conditions, READY) or not node.spec.provider_id:
            return False
        try:
            await self.context.cloud.get(node.spec.provider_id)
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
        node = await self.context.patch(node, body, locked=True)
        if not is_tainted:
            claim = claim_of(self.context, node)
            command = self.context.command_of(claim) if claim is not None else ""
            self.context.decide(
                self.log.info,
                "tainted node",
                drafts.tainted(node, claim, "Terminating", command),
                Node={"name": node.metadata.name},
                **{"taint.Key": DISRUPTED.key, "taint.Effect": DISRUPTED.effect},
            )
        return node

    async def _release(self, node: Node) -> None:
        kept = [name for name in node.metadata.finalizers if name != labels.TERMINATION]
        try:
            await self.context.patch(node, {"metadata": {"finalizers": kept}}, locked=True)
        except NotFoundError:
            return
        metadata, metrics, now = node.metadata, self.context.metrics, self.clock.now()
        pool = metadata.labels.get(labels.NODEPOOL, "")
        zone = metadata.labels.get(labels.ZONE, "")
        metrics.nodes_terminated_total.labels(nodepool=pool, zone=zone).inc()
        for since, metric in (
            (metadata.deletion_timestamp, metrics.nodes_termination_duration_seconds),
            (metadata.creation_timestamp, metrics.nodes_lifetime_duration_seconds),
        ):
            if since is not None:
                metric.labels(nodepool=pool).observe((now - since).total_seconds())
        claim = claim_of(self.context, node)
        self.context.decide(
            self.log.info,
            "deleted node",
            drafts.node_gone(node, self.context.command_of(claim) if claim is not None else ""),
            Node={"name": metadata.name},
        )

    def _is_leaving(self, node: Node) -> bool:
        return (
            node.metadata.deletion_timestamp is not None
            and labels.TERMINATION in node.metadata.finalizers
            and has_node_class(self.context, node)
        )

    def _key_if_leaving(self, node: Node) -> Iterable[Key]:
        return (key_of(node),) if self._is_leaving(node) else ()

    def _key_of_leaving(self, name: str) -> Iterable[Key]:
        node = self._nodes.get(name)
        return self._key_if_leaving(node) if node is not None else ()

    def _keys_of_claim(self, claim: NodeClaim) -> Iterable[Key]:
        return [key_of(node) for node in nodes_of(self.context, claim) if self._is_leaving(node)]


def _is_cordoned(node: Node) -> bool:
    excluded = node.metadata.labels.get(labels.EXCLUDE_FROM_LOAD_BALANCERS) == _KARPENTER
    return excluded and node.spec.unschedulable
