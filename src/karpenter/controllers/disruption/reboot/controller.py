"""Rebooting a machine in place: cordoned, drained, rebooted, and watched until it is back.

The claim holds the progress: the reason of its ``Rebooting`` condition, and the boot ID the machine
had before. A process that takes over continues from there, and calls the cloud again only if the
machine has not booted since. Pods that do not leave in time stay through the reboot; none is
deleted forcefully. The controller runs whether or not repair is enabled, so that a reboot that was
begun is finished.
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
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.disruption.reboot.request import (
    ISSUED,
    POLL_SECONDS,
    Reboot,
    RequestError,
    operation_of,
    reboot_of,
)
from karpenter.controllers.lifecycle.claim_changes import (
    conditioned,
    differences,
    is_deleting,
    summed_up,
    with_conditions,
)
from karpenter.controllers.lookup import claims_of, nodes_of
from karpenter.controllers.mirrors import BY_NODE
from karpenter.controllers.termination.deadline import JUST_AFTER, tightened
from karpenter.controllers.termination.drain import MINIMUM, plan_drain
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.eviction_requests import EvictionRequest
from karpenter.decision_log.log import Say
from karpenter.decision_log.record import Outcome
from karpenter.kube.errors import NotFoundError
from karpenter.kube.events import NORMAL, WARNING, Event
from karpenter.kube.mirror import Key, key_of
from karpenter.model import labels
from karpenter.model import taints as known_taints
from karpenter.model.conditions import (
    FALSE,
    INITIALIZED,
    READY,
    REBOOTING,
    TRUE,
    UNKNOWN,
    find,
    is_true,
    timestamp,
    without,
)
from karpenter.model.taints import matches
from karpenter.runtime import REASONABLE

SUCCEEDED: Final = "succeeded"
PROVIDER_ERROR: Final = "provider_error"
RECOVERY_TIMEOUT: Final = "recovery_timeout"
INVALID_REQUEST: Final = "invalid_request"
_DEDUPE_SECONDS: Final = 1800.0
_DRAIN_POLL: Final = 1.0
_FOR_GOOD: Final = (RebootNotImplementedError, RebootFailedError, InstanceNotFoundError)


class RebootEnds:
    """Ends restarts."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log

    async def open(self, node: Node) -> None:
        """Remove the ``rebooting`` taint, so that a machine takes pods again."""
        taint = known_taints.REBOOTING
        kept = [held for held in node.spec.taints if not matches(held, taint)]
        if len(kept) < len(node.spec.taints):
            body = {"spec": {"taints": [msgspec.to_builtins(held) for held in kept]}}
            await self._context.patch(node, body, locked=True)

    async def succeed(self, claim: NodeClaim, reboot: Reboot) -> None:
        """End a restart after which the machine is back."""
        await self._close(claim, "RebootSucceeded", "the node has restarted")
        self._count(SUCCEEDED, reboot)
        recovery = (self._context.clock.now() - reboot.issued_at).total_seconds()
        self._context.metrics.nodes_reboot_recovery_duration_seconds.observe(recovery)
        self._report_step(
            self._log.info, "rebooted node", claim, Outcome.DONE, "has restarted and is ready"
        )

    async def refuse(self, claim: NodeClaim, node: Node | None, result: str, detail: str) -> None:
        """End a restart whose request cannot be read; the machine stays."""
        if node is not None:
            await self.open(node)
        await self._close(claim, "RebootFailed", detail)
        self._tell(claim, result, detail)

    async def give_up(self, claim: NodeClaim, node: Node | None, result: str, detail: str) -> None:
        """End a restart that failed: delete the claim; its pods keep the grace period requested."""
        if node is not None:
            await self.open(node)
        grace = reboot_of(claim).grace
        text = (
            tightened(claim, later(self._context.clock.now(), grace)) if grace is not None else None
        )
        if text is not None:
            body = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: text}}}
            claim = await self._context.patch(claim, body, locked=True)
        metadata = claim.metadata
        try:
            await self._context.kube.delete(
                NodeClaim,
                metadata.name,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except NotFoundError:
            return
        self._tell(claim, result, detail)

    async def _close(self, claim: NodeClaim, reason: str, message: str) -> None:
        if labels.REBOOT_PRE_BOOT_ID in claim.metadata.annotations:
            body: dict[str, Any] = {"metadata": {"annotations": {labels.REBOOT_PRE_BOOT_ID: None}}}
            claim = await self._context.patch(claim, body, locked=True)
        ended = conditioned(claim, REBOOTING, FALSE, reason, message, now=self._context.clock.now())
        status = differences(claim, ended).status
        await self._context.patch(claim, {"status": status}, locked=True, subresource=STATUS)

    def _tell(self, claim: NodeClaim, result: str, detail: str) -> None:
        try:
            reboot = reboot_of(claim)
        except RequestError as error:
            reboot = error.reboot
        self._count(result, reboot)
        self._context.recorder.publish(
            Event(claim, WARNING, "RebootFailed", detail, _episode(claim, reboot), _DEDUPE_SECONDS)
        )
        text = f"was not restarted: {detail}"
        self._report_step(
            self._log.error, "reboot failed", claim, Outcome.FAILED, text, error=detail
        )

    def _report_step(
        self, say: Say, message: str, claim: NodeClaim, outcome: Outcome, text: str, **facts: Any
    ) -> None:
        draft = drafts.rebooted(claim, outcome, text, self._context.command_of(claim))
        self._context.decide(say, message, draft, NodeClaim={"name": claim.metadata.name}, **facts)

    def _count(self, result: str, reboot: Reboot) -> None:
        metrics = self._context.metrics
        metrics.nodes_reboots_total.labels(result=result).inc()
        seconds = (self._context.clock.now() - reboot.requested_at).total_seconds()
        metrics.nodes_reboot_duration_seconds.labels(result=result).observe(seconds)


def observed(claim: NodeClaim, reboot: Reboot) -> Event:
    """A machine that has booted again."""
    message = "New boot observed (bootID changed); awaiting node readiness"
    dedupe = _episode(claim, reboot)
    return Event(claim, NORMAL, "RebootObserved", message, dedupe, _DEDUPE_SECONDS)


def _episode(claim: NodeClaim, reboot: Reboot) -> tuple[str, ...]:
    return claim.metadata.uid, timestamp(reboot.requested_at) or ""


@dataclass(frozen=True, slots=True)
class _Rebooting:
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

    def __init__(self, context: Context, evictions: EvictionQueue) -> None:
        super().__init__(context)
        self._claims = context.mirror(NodeClaim)
        self._evictions = evictions
        self._ends_of = RebootEnds(context, self.log)
        self._issuing: dict[str, datetime] = {}  # claim uid -> first call to the cloud
        # Uids of claims that were given up, until the mirror shows their deletion
        self._given_up: set[str] = set()
        self.follow(self._claims, _keys_if_rebooting)
        self.follow(context.mirror(Node), self._keys_of_node)
        self._ends.append(self._claims.on_change(self._forget))

    async def reconcile(self, key: Key) -> float | None:
        """Take one restart as far as it can go now."""
        claim = self._claims.get(key[1])
        if claim is None or not self._is_ours(claim):
            return None
        found = nodes_of(self.context, claim)
        now = self.clock.now()
        try:
            reboot = reboot_of(claim)
        except RequestError as error:
            node = found[0] if len(found) == 1 else None
            await self._ends_of.refuse(
                claim, node, INVALID_REQUEST, f"invalid reboot request: {error}"
            )
            return None
        rebooting = _Rebooting(claim, found[0] if len(found) == 1 else None, reboot, now)
        if reboot.is_issued:
            return await self._watch(rebooting)
        return await self._issue(rebooting)

    async def _issue(self, rebooting: _Rebooting) -> float | None:
        """Close, drain and restart a machine."""
        claim, uid = rebooting.claim, rebooting.claim.metadata.uid
        has_node = rebooting.node is not None
        deadline = rebooting.reboot.issuing_deadline(self._issuing.get(uid), has_node=has_node)
        if deadline is not None and rebooting.now >= deadline:
            detail = "reboot was not issued within the issuance timeout"
            await self._give_up(claim, rebooting.node, PROVIDER_ERROR, detail)
            return None
        if rebooting.node is None:
            return POLL_SECONDS
        node = await self._closed(rebooting.node)
        boot = claim.metadata.annotations.get(labels.REBOOT_PRE_BOOT_ID)
        if boot is None:
            wait = self._drained(rebooting)
            if wait is not None:
                return wait
            boot = node.status.node_info.boot_id
            body = {"metadata": {"annotations": {labels.REBOOT_PRE_BOOT_ID: boot}}}
            claim = await self.context.patch(claim, body, locked=True)
        if node.status.node_info.boot_id == boot:
            self._issuing.setdefault(uid, rebooting.now)
            if not await self._asked_cloud(claim, node, rebooting.reboot, boot):
                return None
        await self._note_issued(claim)
        return 0.0

    async def _asked_cloud(self, claim: NodeClaim, node: Node, reboot: Reboot, boot: str) -> bool:
        try:
            await self.context.cloud.reboot(claim, operation_of(claim, reboot, boot))
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
        # Removed first, so that its transition time is set: the recovery deadline counts from it
        changed = with_conditions(changed, without(changed.status.conditions, INITIALIZED))
        changed = conditioned(changed, INITIALIZED, UNKNOWN, REBOOTING, now=now)
        await self._write(claim, summed_up(changed, now=now))
        self._issuing.pop(claim.metadata.uid, None)
        self.context.decide(
            self.log.info,
            "rebooting node",
            drafts.rebooted(claim, Outcome.BEGUN, "restarts", self.context.command_of(claim)),
            NodeClaim={"name": claim.metadata.name},
        )

    async def _watch(self, rebooting: _Rebooting) -> float | None:
        """Wait until a machine is back."""
        claim, node, now = rebooting.claim, rebooting.node, rebooting.now
        if now >= rebooting.reboot.recovery_deadline:
            detail = "node did not recover within the observation window"
            await self._give_up(claim, node, RECOVERY_TIMEOUT, detail)
            return None
        left = (rebooting.reboot.recovery_deadline - now).total_seconds()
        if node is None:
            return min(POLL_SECONDS, left)
        if labels.INITIALIZED in node.metadata.labels:
            body: dict[str, Any] = {"metadata": {"labels": {labels.INITIALIZED: None}}}
            node = await self.context.patch(node, body)
        before = claim.metadata.annotations.get(labels.REBOOT_PRE_BOOT_ID, "")
        if node.status.node_info.boot_id == before:
            return min(POLL_SECONDS, left)
        await self._ends_of.open(node)
        self.context.recorder.publish(observed(claim, rebooting.reboot))
        if not is_true(node.status.conditions, READY):
            return min(POLL_SECONDS, left)
        await self._ends_of.succeed(claim, rebooting.reboot)
        return None

    async def _give_up(self, claim: NodeClaim, node: Node | None, result: str, detail: str) -> None:
        await self._ends_of.give_up(claim, node, result, detail)
        self._given_up.add(claim.metadata.uid)

    def _drained(self, rebooting: _Rebooting) -> float | None:
        """Evict pods; return seconds until the next check, None when the drain is over."""
        reboot, now = rebooting.reboot, rebooting.now
        if rebooting.node is None or reboot.grace == timedelta(0):
            return None
        deadline = reboot.drain_deadline
        if deadline is not None and now > deadline:
            return None
        pods = self.context.mirror(Pod).by_index(BY_NODE, rebooting.node.metadata.name)
        drain = plan_drain(pods, deadline=None, now=now)
        if drain.is_over:
            missing = (later(reboot.requested_at, MINIMUM) - now).total_seconds()
            return missing if missing > 0 else None
        self._evictions.add(drain.next, EvictionRequest(deadline, is_timeout=True))
        if deadline is None:
            return _DRAIN_POLL
        # "After" is strict: at the deadline itself pods are still evicted
        return min(_DRAIN_POLL, (later(deadline, JUST_AFTER) - now).total_seconds())

    async def _closed(self, node: Node) -> Node:
        taint = known_taints.REBOOTING
        if any(matches(held, taint) for held in node.spec.taints):
            return node
        taints: tuple[Taint, ...] = (*node.spec.taints, taint)
        body = {"spec": {"taints": [msgspec.to_builtins(each) for each in taints]}}
        return await self.context.patch(node, body, locked=True)

    async def _write(self, old: NodeClaim, new: NodeClaim) -> None:
        changed = differences(old, new)
        if changed.status:
            await self.context.patch(
                old, {"status": changed.status}, locked=True, subresource=STATUS
            )

    def _is_ours(self, claim: NodeClaim) -> bool:
        return (
            self.context.is_managed(claim)
            and not is_deleting(claim)
            and is_true(claim.status.conditions, REBOOTING)
            and claim.metadata.uid not in self._given_up
        )

    def _forget(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if old is not None and new is None:
            self._issuing.pop(old.metadata.uid, None)
            self._given_up.discard(old.metadata.uid)

    def _keys_of_node(self, node: Node) -> tuple[Key, ...]:
        return tuple(key_of(c) for c in claims_of(self.context, node) if self._is_ours(c))


def _keys_if_rebooting(claim: NodeClaim) -> tuple[Key, ...]:
    return (key_of(claim),) if is_true(claim.status.conditions, REBOOTING) else ()
