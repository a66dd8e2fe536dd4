"""Asking for a machine to be restarted: what is written on its claim, for the controller that does."""

from datetime import timedelta

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import in_nanoseconds
from karpenter.controllers.disruption.writing import read_again
from karpenter.controllers.lifecycle.claims import REBOOTING, is_deleting
from karpenter.controllers.termination.drain import DISRUPTION_REASON
from karpenter.controllers.world import STATUS, World
from karpenter.disruption.commands import Command
from karpenter.model.conditions import TRUE, is_true, to_wire, with_condition
from karpenter.model.labels import REBOOT_GRACE_PERIOD
from karpenter.telemetry.log_lines import go_text

REQUESTED = "RebootRequested"


async def request_reboot(world: World, command: Command) -> bool:
    """Write down that the machine of a command is to be restarted; say whether it will be.

    Raises:
        ConflictError: somebody else was faster; the cluster must be looked at again.
    """
    (candidate,) = command.candidates
    claim = await read_again(world, candidate.claim)
    if claim is None or is_deleting(claim) or is_true(claim.status.conditions, REBOOTING):
        return False
    grace = grace_text(claim, command.drain_bound)
    if claim.metadata.annotations.get(REBOOT_GRACE_PERIOD) != grace:
        body = {"metadata": {"annotations": {REBOOT_GRACE_PERIOD: grace}}}
        claim = await world.patch(claim, body, locked=True)
    now, generation = world.clock.now(), claim.metadata.generation
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
    await world.patch(
        claim, {"status": {"conditions": to_wire(held)}}, locked=True, subresource=STATUS
    )
    return True


def grace_text(claim: NodeClaim, bound: timedelta | None) -> str | None:
    """How long pods have before the restart; None when nobody set a bound."""
    if bound is not None:
        return go_text(bound)
    stated = claim.spec.termination_grace_period
    nanoseconds = go_duration(stated) if stated is not None else None
    return None if nanoseconds is None else go_text(in_nanoseconds(nanoseconds))


def cause_of(command: Command) -> str:
    """What is wrong with the machine, in a few words."""
    if command.repair is None:
        return ""
    condition = command.repair.governing.condition
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"condition {condition.type} is {condition.status}{reason}"
