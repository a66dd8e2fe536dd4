"""The reboot request as stored on a claim, and the deadlines that follow from it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import later
from karpenter.controllers.context import STATUS, Context
from karpenter.controllers.disruption.conflict_retry import read_again
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.termination.drain import MINIMUM
from karpenter.disruption.commands import Command
from karpenter.model import durations, labels
from karpenter.model.conditions import (
    DISRUPTION_REASON,
    INITIALIZED,
    REBOOTING,
    TRUE,
    find,
    is_true,
    to_wire,
    with_condition,
)
from karpenter.model.labels import REBOOT_GRACE_PERIOD

REQUESTED = "RebootRequested"
ISSUED: Final = "RebootIssued"
POLL_SECONDS: Final = 15.0
_ISSUING: Final = timedelta(minutes=5)
_RECOVERY: Final = timedelta(minutes=20)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def request_reboot(context: Context, command: Command) -> bool:
    """Store the request on the claim of a command's machine; return whether it will be rebooted.

    Raises:
        ConflictError: another writer was faster; decide again from the current state.
    """
    (candidate,) = command.candidates
    claim = await read_again(context, candidate.claim)
    if claim is None or is_deleting(claim) or is_true(claim.status.conditions, REBOOTING):
        return False
    grace = grace_text(claim, command.drain_bound)
    if claim.metadata.annotations.get(REBOOT_GRACE_PERIOD) != grace:
        body = {"metadata": {"annotations": {REBOOT_GRACE_PERIOD: grace}}}
        claim = await context.patch(claim, body, locked=True)
    now, generation = context.clock.now(), claim.metadata.generation
    reason = command.reason
    held = with_condition(
        claim.status.conditions,
        DISRUPTION_REASON,
        TRUE,
        reason,
        reason,
        now=now,
        generation=generation,
    )
    held = with_condition(
        held, REBOOTING, TRUE, REQUESTED, cause_of(command), now=now, generation=generation
    )
    await context.patch(
        claim, {"status": {"conditions": to_wire(held)}}, locked=True, subresource=STATUS
    )
    return True


def grace_text(claim: NodeClaim, bound: timedelta | None) -> str | None:
    """How long pods have before the restart; None when there is no bound."""
    if bound is not None:
        return durations.text(bound)
    stated = durations.parse(claim.spec.termination_grace_period)
    return None if stated is None else durations.text(stated)


def cause_of(command: Command) -> str:
    """What is wrong with the machine, in a few words."""
    if command.repair is None:
        return ""
    condition = command.repair.governing.condition
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"condition {condition.type} is {condition.status}{reason}"


@dataclass(frozen=True, slots=True)
class Reboot:
    """A restart that is under way."""

    requested_at: datetime
    is_issued: bool
    issued_at: datetime  # the time of the request while the reboot is not issued
    grace: timedelta | None  # how long pods have to leave; None is no bound

    @property
    def drain_deadline(self) -> datetime | None:
        """When the drain ends; pods that are still there stay through the reboot."""
        return None if self.grace is None else later(self.requested_at, max(self.grace, MINIMUM))

    @property
    def recovery_deadline(self) -> datetime:
        """When the machine must be back."""
        return later(self.issued_at, _RECOVERY)

    def issuing_deadline(self, since: datetime | None, *, has_node: bool) -> datetime | None:
        """When the cloud must have accepted the restart, if its first call was at ``since``.

        Before the first call the drain may take its time; only a missing node has a deadline.
        """
        if since is None:
            return None if has_node else later(self.requested_at, _ISSUING)
        return later(since, _ISSUING)


class RequestError(ValueError):
    """The request cannot be read; the text is one sentence."""

    def __init__(self, message: str, reboot: Reboot) -> None:
        super().__init__(message)
        self.reboot = reboot  # as far as it can be read


def reboot_of(claim: NodeClaim) -> Reboot:
    """The restart that a claim's conditions and annotations describe.

    Raises:
        RequestError: the grace period of its pods is no duration.
    """
    rebooting = find(claim.status.conditions, REBOOTING)
    initialized = find(claim.status.conditions, INITIALIZED)
    requested = rebooting.last_transition_time if rebooting is not None else None
    requested = requested or claim.metadata.creation_timestamp or _BEGINNING
    issued = initialized.last_transition_time if initialized is not None else None
    reboot = Reboot(
        requested_at=requested,
        is_issued=rebooting is not None and rebooting.reason == ISSUED,
        issued_at=issued or requested,
        grace=None,
    )
    text = claim.metadata.annotations.get(labels.REBOOT_GRACE_PERIOD)
    if text is None:
        return reboot
    grace = durations.period(text)
    if grace is None:
        advice = "write a duration such as 5m"
        raise RequestError(f"annotation {labels.REBOOT_GRACE_PERIOD} is {text!r}; {advice}", reboot)
    return replace(reboot, grace=grace)


def operation_of(claim: NodeClaim, reboot: Reboot, boot_id: str) -> str:
    """The idempotency token of one restart: the same for every retry, another for the next."""
    nanoseconds = (reboot.requested_at - _BEGINNING) // timedelta(microseconds=1) * 1000
    return f"{claim.metadata.uid}-{nanoseconds}-{boot_id}"
