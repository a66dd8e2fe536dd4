"""The disruption loop: one pass after the other, methods in their order, one decision at a time.

A pass first removes marks from machines that no command is about to remove: they are left over from
a command that failed or a process that died. Then the methods search in order, and the first that
finds something decides. A consolidation is validated again 15 seconds later, before anything is
changed; the wait blocks no other controller.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from karpenter.controllers.context import Context, Loop
from karpenter.controllers.disruption import command_drafts
from karpenter.controllers.disruption.consolidation_state import Changes
from karpenter.controllers.disruption.executor import AbandonedError, Executor
from karpenter.controllers.disruption.marking import Marker, is_marked
from karpenter.controllers.disruption.planner import DisruptionPass, DisruptionPlanner, PassPreview
from karpenter.controllers.disruption.queue import CommandQueue
from karpenter.controllers.disruption.reporting import REASON_OF, FindingReporter, RepairNotes
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.disruption import commands
from karpenter.disruption.budgets import Allowance
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.plan import METHODS
from karpenter.state.nodes import StateNode

VALIDATION_SECONDS: Final = 15.0
_NOTHING_DONE: Final = 10.0
_ACTED: Final = 0.0
_UNSYNCED: Final = 1.0
# Methods whose empty searches are cached until a change, and whose commands are validated again
_CONSOLIDATING: Final = (
    commands.EMPTY,
    commands.MULTI,
    commands.SINGLE,
    commands.REBALANCE,
)
# How long moved pods take to arrive. The machines they arrive on are then protected for a while, so
# a command computed earlier would only fail its validation
_SETTLING: Final = 5.0
_BOUND_SECONDS: Final = 600.0
_MOVING_PODS: Final = (commands.MULTI, commands.SINGLE, commands.REBALANCE)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The inputs of a search that found nothing; it is not repeated while they are the same."""

    happened: int  # count of changes
    until: datetime | None  # when something changes by time alone, without an event
    allowances: tuple[Allowance, ...] | None  # what budgets allowed; None if they blocked nothing

    def allows(self, reason: str) -> bool:
        """Whether budgets left anything to the search."""
        return any(each.remaining for each in self.allowances or () if each.reason == reason)

    def unconstrained(self) -> "_Seen":
        """The same for a search that no budget limited."""
        return replace(self, allowances=None)


class DisruptionLoop(Loop):
    """Looks for machines to disrupt, and begins to."""

    name = "disruption"

    def __init__(self, context: Context, queue: CommandQueue, planned: PlannedPods) -> None:
        super().__init__(context)
        self._queue = queue
        self._planner = DisruptionPlanner(context, self.log)
        self._executor = Executor(context, queue, planned, self.log)
        self._marker = Marker(context, self.log)
        self._reporter = FindingReporter(context, self.log)
        self._changes = Changes(context)
        self._nothing_in: dict[str, _Seen] = {}  # by method
        self._followers: list[DisruptionPlanner | Changes | RepairNotes] = [
            self._planner,
            self._changes,
        ]
        if self._planner.policies is not None:
            self._followers.append(RepairNotes(context, self._planner.policies, self.log))
        self._abandoned = 0  # passes in a row whose commands were not carried out
        self._complaint = ""  # why the last one was not
        self._bound_due = 0.0  # when the lower bound is measured again, by the monotonic clock
        self._settled_at = 0.0  # when pods that move will have arrived, by the monotonic clock
        self._methods = [
            name for name in METHODS if name != commands.REPAIR or self._planner.settings.repair
        ]

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await super().run()
        finally:
            for follower in self._followers:
                follower.end()

    async def step(self) -> float:
        """Do one pass; return seconds until the next."""
        self._reporter.report_budgets()
        if not self.context.is_synced:
            return _UNSYNCED
        await self._roll_back()
        preview = await self._planner.preview()
        self._reporter.measure_budgets(preview.allowances)
        # While rebalancing is off there are no figures about it
        idle = preview.idle - {commands.REBALANCE}
        self._reporter.report_idle(name for name in self._methods if name in idle)
        if commands.REBALANCE not in preview.idle:
            await self._measure_bound()
        disruption_pass: DisruptionPass | None = None
        happened = self._changes.count
        for method in self._methods:
            if method in preview.idle or self._has_seen_it_all(method, preview):
                continue
            if method in _MOVING_PODS and (settling := self._settling()):
                return settling
            if disruption_pass is None:
                if not self.context.is_synced:
                    return _UNSYNCED
                happened, disruption_pass = self._changes.count, await self._begin_pass()
            seen = _Seen(happened, disruption_pass.holds_until, disruption_pass.allowances)
            found = await self._find(disruption_pass, method, seen)
            if found and method in _CONSOLIDATING:
                found = await self._checked(found[0])
                disruption_pass = None  # its snapshot is too old after the wait
            if found:
                return await self._begin(found)
        return _NOTHING_DONE

    def _settling(self) -> float:
        """Seconds until pods that consolidation has moved have arrived."""
        return max(0.0, self._settled_at - self.clock.monotonic())

    def _has_seen_it_all(self, method: str, preview: PassPreview) -> bool:
        """Whether the inputs of a method are the same as when it last found nothing."""
        seen = self._nothing_in.get(method)
        if seen is None or seen.happened != self._changes.count:
            return False
        if seen.allowances is not None and seen.allowances != preview.allowances:
            return False
        return seen.until is None or self.clock.now() < seen.until

    async def _begin_pass(self) -> DisruptionPass:
        disruption_pass = await self._new_pass()
        await self._reporter.report_blocked(disruption_pass)
        return disruption_pass

    async def _measure_bound(self) -> None:
        """Measure at intervals what the cluster could cost at the least."""
        now = self.clock.monotonic()
        if now < self._bound_due:
            return
        self._bound_due = now + _BOUND_SECONDS
        found = await self._planner.lower_bound(await self._new_pass())
        self.context.metrics.cluster_lower_bound_hourly.set(found)

    async def _new_pass(self) -> DisruptionPass:
        return await self._planner.begin_pass(self._queue.in_progress, self._queue.rebalances)

    async def _find(
        self, disruption_pass: DisruptionPass, method: str, seen: _Seen
    ) -> Sequence[Command]:
        began = self.clock.monotonic()
        finding = await self._planner.find(disruption_pass, method)
        await self._reporter.report(finding, disruption_pass.view, self.clock.monotonic() - began)
        if method in _CONSOLIDATING and not finding.commands and not finding.has_timed_out:
            if not finding.is_constrained:
                self._nothing_in[method] = seen.unconstrained()
            elif seen.allows(REASON_OF[method]):
                self._nothing_in[method] = seen
        return finding.commands

    async def _checked(self, command: Command) -> Sequence[Command]:
        """The command if it is still valid after the validation period."""
        await self.clock.sleep(VALIDATION_SECONDS)
        fresh = await self._new_pass()
        outcome = await self._planner.check(command, fresh)
        self._reporter.report_check(command, outcome)
        return (outcome.command,) if outcome.command is not None else ()

    async def _begin(self, found: Sequence[Command]) -> float:
        outcomes = await asyncio.gather(
            *(self._executor.begin(command) for command in found), return_exceptions=True
        )
        begun = [c for c, outcome in zip(found, outcomes, strict=True) if outcome is None]
        for command in begun:
            if command.decision is Decision.REBOOT:
                self._planner.rebooted(command.candidates[0].claim.metadata.uid)
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        for command, failure in zip(found, outcomes, strict=True):
            if isinstance(failure, AbandonedError):
                self._report_abandoned(command, failure)
        for failure in failures:
            if not isinstance(failure, AbandonedError):
                raise failure
        if begun:
            self._abandoned, self._complaint = 0, ""
            if any(_moves_pods_now(command) for command in begun):
                self._settled_at = self.clock.monotonic() + _SETTLING
            return _ACTED
        self._abandoned += 1
        return self.backoff.after(self._abandoned - 1)

    def _report_abandoned(self, command: Command, failure: AbandonedError) -> None:
        """Log why a command is not carried out; not again while the reason stays the same."""
        draft = command_drafts.abandoned(command, failure.number, str(failure))
        if str(failure) != self._complaint:
            self._complaint = str(failure)
            self.context.decide(self.log.info, "abandoned command", draft, error=self._complaint)
        elif failure.number:
            # Its machines were marked, so there is a record of its beginning
            self.context.decisions.add(self.clock.now(), draft)

    async def _roll_back(self) -> None:
        """Remove the marks from machines that no command is about to remove."""
        snapshot, busy = self.context.state.snapshot(), self._queue.in_progress
        left = await self._planner.aside(
            lambda: [m for m in snapshot.nodes if m.name not in busy and is_left_behind(m)]
        )
        outcomes = await asyncio.gather(*map(self._marker.take_off, left), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


def is_left_behind(machine: StateNode) -> bool:
    """Whether a machine carries marks although it is neither being deleted nor rebooted."""
    if machine.node is None or machine.node_claim is None or not is_marked(machine):
        return False
    if machine.is_deleting or machine.is_rebooting:
        return False
    return machine.node.metadata.deletion_timestamp is None


def _moves_pods_now(command: Command) -> bool:
    """Whether pods go to other nodes at once, and not only when a replacement is there."""
    return command.method in _MOVING_PODS and command.decision is Decision.DELETE
