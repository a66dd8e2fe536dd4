"""Liveness: a claim that does not launch or register in time is deleted; its pods are replanned.

A node that has registered is never given up for being slow to initialize: pods may run on it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import later
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.lifecycle.claim_changes import ClaimStep
from karpenter.controllers.lifecycle.registration import RegistrationHealth
from karpenter.controllers.lifecycle.removal import LAUNCH_TIMEOUT, REGISTRATION_TIMEOUT, Remover
from karpenter.decision_log.record import Draft
from karpenter.model.conditions import LAUNCHED, REGISTERED, find, is_true

_LAUNCH: Final = timedelta(minutes=5)
_REGISTRATION: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """How long a claim may still take; none left when there is a ``reason`` to give it up."""

    seconds: float | None = None
    reason: str = ""


class Liveness:
    """The last step of a claim."""

    def __init__(
        self,
        context: Context,
        remover: Remover,
        health: RegistrationHealth,
        launch_failed: Callable[[NodeClaim, str, str], Draft],
    ) -> None:
        self._context = context
        self._remover = remover
        self._health = health
        self._launch_failed = launch_failed
        self._log = context.log.bind(controller="nodeclaim.lifecycle")

    async def take(self, claim: NodeClaim) -> ClaimStep:
        """Give up a claim whose time is over, else return when it will be."""
        patience = patience_with(claim, now=self._context.clock.now())
        if not patience.reason:
            return ClaimStep(claim, again=patience.seconds)
        if await self._remover.remove(claim, patience.reason):
            reason, message = blame(claim)
            self._context.decide(
                self._log.info,
                "gave up nodeclaim",
                self._draft(claim, patience.reason, message),
                NodeClaim={"name": claim.metadata.name},
                reason=patience.reason,
            )
            await self._health.failed(claim, reason, message)
        return ClaimStep(claim, is_over=True)

    def _draft(self, claim: NodeClaim, reason: str, message: str) -> Draft:
        if reason == LAUNCH_TIMEOUT:
            return self._launch_failed(claim, reason, message or "it took too long")
        return drafts.not_registered(claim, reason, self._context.command_of(claim))


def patience_with(claim: NodeClaim, *, now: datetime) -> RemainingTime:
    """How long the claim may still take to launch and to register."""
    if is_true(claim.status.conditions, REGISTERED):
        return RemainingTime()
    left = []
    for kind, allowed, reason in (
        (LAUNCHED, _LAUNCH, LAUNCH_TIMEOUT),
        (REGISTERED, _REGISTRATION, REGISTRATION_TIMEOUT),
    ):
        if is_true(claim.status.conditions, kind):
            continue
        remaining = (later(_since(claim, kind, now), allowed) - now).total_seconds()
        if remaining <= 0:
            return RemainingTime(reason=reason)
        left.append(remaining)
    return RemainingTime(min(left))


def blame(claim: NodeClaim) -> tuple[str, str]:
    """The reason and message of a failed registration, as its pool should show them."""
    launched = find(claim.status.conditions, LAUNCHED)
    if launched is None or is_true(claim.status.conditions, LAUNCHED):
        return "RegistrationFailed", "the node of a NodeClaim did not register in time"
    return launched.reason, launched.message


def _since(claim: NodeClaim, kind: str, now: datetime) -> datetime:
    condition = find(claim.status.conditions, kind)
    known = condition.last_transition_time if condition is not None else None
    return known or claim.metadata.creation_timestamp or now
