"""Restarting a machine in place: closed, drained, restarted, and watched until it is back.

How far a restart has got stands on the claim: the reason of its ``Rebooting`` condition, and the
boot the machine had before. A process that takes over goes on from there, and asks the cloud again
only if the machine has not booted since. Pods that do not leave in time ride the restart; none is
ever deleted by force. This runs whether or not repair is on, so that what was begun is finished.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node, Taint
from karpenter.api.pods import Pod
from karpenter.api.times import later
from karpenter.cloud.provider import (
    InstanceNotFoundError,
    RebootFailedError,
    RebootNotImplementedError,
)
from karpenter.controllers.disruption.reboot_end import (
    INVALID_REQUEST,
    PROVIDER_ERROR,
    RECOVERY_TIMEOUT,
    RebootEnds,
    observed,
)
from karpenter.controllers.disruption.reboot_rules import (
    ISSUED,
    POLL_SECONDS,
    Reboot,
    RequestError,
    operation_of,
    reboot_of,
)
from karpenter.controllers.lifecycle.claims import (
    INITIALIZED,
    REBOOTING,
    claims_of,
    conditioned,
    differences,
    is_deleting,
    nodes_of,
    summed_up,
    with_conditions,
)
from karpenter.controllers.mirrors import BY_NODE
from karpenter.controllers.runtime import Controller
from karpenter.controllers.termination.deadline import JUST_AFTER
from karpenter.controllers.termination.drain import MINIMUM, plan_drain
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.orders import Order
from karpenter.controllers.world import STATUS, World
from karpenter.kube.mirror import Key, key_of
from karpenter.model import labels
from karpenter.model import taints as known_taints
from karpenter.model.conditions import READY, TRUE, UNKNOWN, find, is_true, without
from karpenter.model.taints import matches
from karpenter.runtime import REASONABLE

_DRAIN_POLL: Final = 1.0
_FOR_GOOD: Final = (RebootNotImplementedError, RebootFailedError, InstanceNotFoundError)


@dataclass(frozen=True, slots=True)
class _Visit:
    claim: NodeClaim
    node: Node | None
    reboot: Reboot
    now: datetime


class RebootController(Controller):
    """Takes machines through a restart."""

    name = "nodeclaim.reboot"
    kind = NodeClaim
    workers = 10
    backoff = REASONABLE

    def __init__(self, world: World, evictions: EvictionQueue) -> None:
        super().__init__(world)
        self._claims = world.mirror(NodeClaim)
        self._evictions = evictions
        self._ends_of = RebootEnds(world, self.log)
        self._issuing: dict[str, datetime] = {}  # claim uid -> since when the cloud is asked
        # Uids of claims that were given up; their deletion shows in a moment
        self._given_up: set[str] = set()
        self.follow(self._claims, _keys_if_rebooting)
        self.follow(world.mirror(Node), self._keys_of_node)
        self._ends.append(self._claims.on_change(self._forget))

    async def reconcile(self, key: Key) -> float | None:
        """Take one restart as far as it can go now."""
        claim = self._claims.get(key[1])
        if claim is None or not self._is_ours(claim):
            return None
        found = nodes_of(self.world, claim)
        now = self.clock.now()
        try:
            reboot = reboot_of(claim)
        except RequestError as error:
            node = found[0] if len(found) == 1 else None
            await self._ends_of.refuse(
                claim, node, INVALID_REQUEST, f"invalid reboot request: {error}"
            )
            return None
        visit = _Visit(claim, found[0] if len(found) == 1 else None, reboot, now)
        if reboot.is_issued:
            return await self._watch(visit)
        return await self._issue(visit)

    async def _issue(self, visit: _Visit) -> float | None:
        """Close, drain and restart a machine."""
        claim, uid = visit.claim, visit.claim.metadata.uid
        has_node = visit.node is not None
        deadline = visit.reboot.issuing_deadline(self._issuing.get(uid), has_node=has_node)
        if deadline is not None and visit.now >= deadline:
            detail = "reboot was not issued within the issuance timeout"
            await self._give_up(claim, visit.node, PROVIDER_ERROR, detail)
            return None
        if visit.node is None:
            return POLL_SECONDS
        node = await self._closed(visit.node)
        boot = claim.metadata.annotations.get(labels.REBOOT_PRE_BOOT_ID)
        if boot is None:
            wait = self._drained(visit)
            if wait is not None:
                return wait
            boot = node.status.node_info.boot_id
            body = {"metadata": {"annotations": {labels.REBOOT_PRE_BOOT_ID: boot}}}
            claim = await self.world.patch(claim, body, locked=True)
        if node.status.node_info.boot_id == boot:
            self._issuing.setdefault(uid, visit.now)
            if not await self._asked_cloud(claim, node, visit.reboot, boot):
                return None
        await self._note_issued(claim)
        return 0.0

    async def _asked_cloud(self, claim: NodeClaim, node: Node, reboot: Reboot, boot: str) -> bool:
        try:
            await self.world.cloud.reboot(claim, operation_of(claim, reboot, boot))
        except _FOR_GOOD as error:
            said = "reboot rejected by the cloud provider"
            if isinstance(error, RebootNotImplementedError):
                said = "reboot not implemented by the cloud provider"
            await self._give_up(claim, node, PROVIDER_ERROR, f"{said}: {error}")
            return False
        return True

    async def _note_issued(self, claim: NodeClaim) -> None:
        now = self.clock.now()
        known = find(claim.status.conditions, REBOOTING)
        message = known.message if known is not None else ""
        changed = conditioned(claim, REBOOTING, TRUE, ISSUED, message, now=now)
        # Its date says since when the machine is awaited, even if it was never initialized
        changed = with_conditions(changed, without(changed.status.conditions, INITIALIZED))
        changed = conditioned(changed, INITIALIZED, UNKNOWN, REBOOTING, now=now)
        await self._write(claim, summed_up(changed, now=now))
        self._issuing.pop(claim.metadata.uid, None)
        self.log.info("rebooting node", NodeClaim={"name": claim.metadata.name})

    async def _watch(self, visit: _Visit) -> float | None:
        """Wait until a machine is back."""
        claim, node, now = visit.claim, visit.node, visit.now
        if now >= visit.reboot.recovery_deadline:
            detail = "node did not recover within the observation window"
            await self._give_up(claim, node, RECOVERY_TIMEOUT, detail)
            return None
        left = (visit.reboot.recovery_deadline - now).total_seconds()
        if node is None:
            return min(POLL_SECONDS, left)
        if labels.INITIALIZED in node.metadata.labels:
            body: dict[str, Any] = {"metadata": {"labels": {labels.INITIALIZED: None}}}
            node = await self.world.patch(node, body)
        before = claim.metadata.annotations.get(labels.REBOOT_PRE_BOOT_ID, "")
        if node.status.node_info.boot_id == before:
            return min(POLL_SECONDS, left)
        await self._ends_of.open(node)
        self.world.recorder.publish(observed(claim, visit.reboot))
        if not is_true(node.status.conditions, READY):
            return min(POLL_SECONDS, left)
        await self._ends_of.succeed(claim, visit.reboot)
        return None

    async def _give_up(self, claim: NodeClaim, node: Node | None, result: str, detail: str) -> None:
        await self._ends_of.give_up(claim, node, result, detail)
        self._given_up.add(claim.metadata.uid)

    def _drained(self, visit: _Visit) -> float | None:
        """Ask pods to leave; return seconds until the next look while they may still do so."""
        reboot, now = visit.reboot, visit.now
        if visit.node is None or reboot.grace == timedelta(0):
            return None
        deadline = reboot.drain_deadline
        if deadline is not None and now > deadline:
            return None
        pods = self.world.mirror(Pod).by_index(BY_NODE, visit.node.metadata.name)
        drain = plan_drain(pods, deadline=None, now=now)
        if drain.is_over:
            missing = (later(reboot.requested_at, MINIMUM) - now).total_seconds()
            return missing if missing > 0 else None
        self._evictions.add(drain.next, Order(deadline, is_timeout=True))
        if deadline is None:
            return _DRAIN_POLL
        # The deadline itself still belongs to the pods
        return min(_DRAIN_POLL, (later(deadline, JUST_AFTER) - now).total_seconds())

    async def _closed(self, node: Node) -> Node:
        taint = known_taints.REBOOTING
        if any(matches(held, taint) for held in node.spec.taints):
            return node
        taints: tuple[Taint, ...] = (*node.spec.taints, taint)
        body = {"spec": {"taints": [msgspec.to_builtins(each) for each in taints]}}
        return await self.world.patch(node, body, locked=True)

    async def _write(self, old: NodeClaim, new: NodeClaim) -> None:
        changed = differences(old, new)
        if changed.status:
            await self.world.patch(old, {"status": changed.status}, locked=True, subresource=STATUS)

    def _is_ours(self, claim: NodeClaim) -> bool:
        return (
            self.world.is_managed(claim)
            and not is_deleting(claim)
            and is_true(claim.status.conditions, REBOOTING)
            and claim.metadata.uid not in self._given_up
        )

    def _forget(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if old is not None and new is None:
            self._issuing.pop(old.metadata.uid, None)
            self._given_up.discard(old.metadata.uid)

    def _keys_of_node(self, node: Node) -> tuple[Key, ...]:
        return tuple(key_of(c) for c in claims_of(self.world, node) if self._is_ours(c))


def _keys_if_rebooting(claim: NodeClaim) -> tuple[Key, ...]:
    return (key_of(claim),) if is_true(claim.status.conditions, REBOOTING) else ()
