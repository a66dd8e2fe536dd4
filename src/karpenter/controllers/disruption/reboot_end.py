"""How a restart ends: the machine is back, or it is given up, or what was asked makes no sense."""

from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.controllers.disruption.reboot_rules import Reboot, RequestError, reboot_of
from karpenter.controllers.lifecycle.claims import REBOOTING, conditioned, differences
from karpenter.controllers.termination.deadline import tightened
from karpenter.controllers.world import STATUS, World
from karpenter.kube.errors import NotFoundError
from karpenter.kube.events import NORMAL, WARNING, Event
from karpenter.model import labels
from karpenter.model import taints as known_taints
from karpenter.model.conditions import FALSE, timestamp
from karpenter.model.taints import matches

SUCCEEDED: Final = "succeeded"
PROVIDER_ERROR: Final = "provider_error"
RECOVERY_TIMEOUT: Final = "recovery_timeout"
INVALID_REQUEST: Final = "invalid_request"
_DEDUPE_SECONDS: Final = 1800.0


class RebootEnds:
    """Ends restarts."""

    def __init__(self, world: World, log: Any) -> None:
        self._world = world
        self._log = log

    async def open(self, node: Node) -> None:
        """Let pods come to a machine again."""
        taint = known_taints.REBOOTING
        kept = [held for held in node.spec.taints if not matches(held, taint)]
        if len(kept) < len(node.spec.taints):
            body = {"spec": {"taints": [msgspec.to_builtins(held) for held in kept]}}
            await self._world.patch(node, body, locked=True)

    async def succeed(self, claim: NodeClaim, reboot: Reboot) -> None:
        """End a restart after which the machine is back."""
        await self._close(claim, "RebootSucceeded", "the node has restarted")
        self._count(SUCCEEDED, reboot)
        recovery = (self._world.clock.now() - reboot.issued_at).total_seconds()
        self._world.metrics.nodes_reboot_recovery_duration_seconds.observe(recovery)
        self._log.info("rebooted node", NodeClaim={"name": claim.metadata.name})

    async def refuse(self, claim: NodeClaim, node: Node | None, result: str, detail: str) -> None:
        """End a restart that was asked for in a way nobody understands; the machine stays."""
        if node is not None:
            await self.open(node)
        await self._close(claim, "RebootFailed", detail)
        self._tell(claim, result, detail)

    async def give_up(self, claim: NodeClaim, node: Node | None, result: str, detail: str) -> None:
        """End a restart that failed: the machine goes, and its pods have as long as was agreed."""
        if node is not None:
            await self.open(node)
        grace = reboot_of(claim).grace
        text = (
            tightened(claim, later(self._world.clock.now(), grace)) if grace is not None else None
        )
        if text is not None:
            body = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: text}}}
            claim = await self._world.patch(claim, body, locked=True)
        metadata = claim.metadata
        try:
            await self._world.kube.delete(
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
            claim = await self._world.patch(claim, body, locked=True)
        ended = conditioned(claim, REBOOTING, FALSE, reason, message, now=self._world.clock.now())
        status = differences(claim, ended).status
        await self._world.patch(claim, {"status": status}, locked=True, subresource=STATUS)

    def _tell(self, claim: NodeClaim, result: str, detail: str) -> None:
        try:
            reboot = reboot_of(claim)
        except RequestError as error:
            reboot = error.reboot
        self._count(result, reboot)
        self._world.recorder.publish(
            Event(claim, WARNING, "RebootFailed", detail, _episode(claim, reboot), _DEDUPE_SECONDS)
        )
        self._log.error("reboot failed", NodeClaim={"name": claim.metadata.name}, error=detail)

    def _count(self, result: str, reboot: Reboot) -> None:
        metrics = self._world.metrics
        metrics.nodes_reboots_total.labels(result=result).inc()
        seconds = (self._world.clock.now() - reboot.requested_at).total_seconds()
        metrics.nodes_reboot_duration_seconds.labels(result=result).observe(seconds)


def observed(claim: NodeClaim, reboot: Reboot) -> Event:
    """A machine that has booted anew."""
    message = "New boot observed (bootID changed); awaiting node readiness"
    dedupe = _episode(claim, reboot)
    return Event(claim, NORMAL, "RebootObserved", message, dedupe, _DEDUPE_SECONDS)


def _episode(claim: NodeClaim, reboot: Reboot) -> tuple[str, ...]:
    return claim.metadata.uid, timestamp(reboot.requested_at) or ""
