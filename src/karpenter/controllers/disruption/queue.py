"""Commands in progress: wait for the replacements, then delete the candidates.

The queue lives in memory only. After a restart the new process removes the marks of machines that
no command is about to remove, and spare replacements are ordinary machines that consolidation
removes if they stay empty. Replacements that are up before others are nominated until all of them
are, so that nothing removes them for being empty.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import later
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.disruption import command_drafts, events
from karpenter.controllers.disruption.conflict_retry import GoneError, change, read_again
from karpenter.controllers.disruption.ineffective_moves import IneffectiveMoves
from karpenter.controllers.disruption.marking import Marker
from karpenter.controllers.disruption.metrics import Tally
from karpenter.controllers.disruption.move_binding import CLOSED_FOR, close
from karpenter.controllers.disruption.rebalance_record import RebalanceRecord
from karpenter.controllers.lifecycle.claim_changes import is_deleting
from karpenter.controllers.termination.deadline import tightened
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import REBALANCE, Command
from karpenter.disruption.methods.return_to_spot import is_return
from karpenter.disruption.rebalance.history import RebalanceHistory
from karpenter.disruption.rebalance.planned_places import Awaited, awaited_after
from karpenter.disruption.rebalance.refusals import moved_pods
from karpenter.kube.errors import KubeError
from karpenter.kube.workqueue import Backoff
from karpenter.model import labels
from karpenter.model.conditions import INITIALIZED, is_true
from karpenter.model.labels import TERMINATION_TIMESTAMP
from karpenter.scheduling.spot.fallback import failed_return
from karpenter.state.nodes import nomination_window

POLL_SECONDS: Final = 1.0
_SHORTEST_TIMEOUT: Final = 600.0
_LONGEST_TIMEOUT: Final = 3600.0
_TIMEOUT_EACH: Final = 0.08


@dataclass(slots=True)
class Running:
    """A command that is being carried out."""

    id: str
    command: Command
    replacements: tuple[NodeClaim, ...]
    began: float  # on the monotonic clock
    moved_at: datetime | None = None  # when a rebalance began to move its pods
    awaited: Mapping[str, Awaited] | None = None  # by node, where these pods are bound
    standing: set[str] = field(default_factory=set)  # replacements that were seen initialized
    going: set[str] = field(default_factory=set)  # candidates whose claims are deleted

    @property
    def is_watched(self) -> bool:
        """Whether replacements must stay until the last one is up.

        Karpenter never looks again at one that it has seen initialized. A rebalance has many, and
        pays only as a whole.
        """
        return self.command.method == REBALANCE and not self.going


class CommandQueue(Controller):
    """Carries commands through to their end; keys are their ids."""

    name = "disruption.queue"
    workers = 100
    backoff = Backoff(1.0, 10.0)

    def __init__(self, context: Context, ineffective: IneffectiveMoves | None = None) -> None:
        super().__init__(context)
        self._ineffective = ineffective or IneffectiveMoves(context.clock)
        self._running: dict[str, Running] = {}
        self._machines: dict[str, str] = {}  # name of a machine -> id of its command
        self._marker = Marker(context, self.log)
        self._tally = Tally(context.metrics)
        self._record = RebalanceRecord(context)
        self._leaving: dict[str, str] = {}  # uids of claims that a rebalance deleted -> names
        self._waiting_for: dict[str, str] = {}  # uid of a replacement -> id of its command
        self._ends.append(context.mirror(NodeClaim).on_change(self._claim_changed))

    @property
    def in_progress(self) -> frozenset[str]:
        """The names of all machines that are part of a command."""
        return frozenset(self._machines)

    @property
    def rebalances(self) -> RebalanceHistory:
        """What the rebalances of this process did, and whether one is being carried out."""
        claims = self.context.mirror(NodeClaim)
        self._leaving = {
            uid: name
            for uid, name in self._leaving.items()
            if (claim := claims.get(name)) is not None and claim.metadata.uid == uid
        }
        is_running = any(each.command.method == REBALANCE for each in self._running.values())
        return replace(
            self._record.known(),
            regretted=self._ineffective.held_at(self.clock.now()),
            is_busy=is_running or bool(self._leaving),
        )

    def reserve(self, number: str, names: Iterable[str]) -> bool:
        """Reserve machines for a command; return whether none was part of another command."""
        wanted = tuple(names)
        if any(name in self._machines for name in wanted):
            return False
        self._machines |= dict.fromkeys(wanted, number)
        return True

    def release(self, number: str, *names: str) -> None:
        """Remove the reservation of some machines of a command, or of all of them."""
        for name in names or [name for name, held in self._machines.items() if held == number]:
            self._machines.pop(name, None)

    def add(self, running: Running) -> None:
        """Carry a command through whose replacements have been created."""
        self._running[running.id] = running
        self._ineffective.begun(running.replacements)
        for replacement in running.replacements:
            self._waiting_for[replacement.metadata.uid] = running.id
        self.queue.add(running.id)

    async def run(self) -> None:
        """Work until cancelled; commands in progress are left to the next leader."""
        try:
            await super().run()
        finally:
            for running in self._running.values():
                why = "this process no longer leads; the next leader decides again"
                draft = command_drafts.abandoned(running.command, running.id, why)
                self.context.decisions.add(self.clock.now(), draft)

    async def reconcile(self, key: str) -> float | None:
        """Take one command as far as it can be taken now."""
        running = self._running.get(key)
        if running is None:
            return None
        problem = await self._problem(running)
        if problem:
            await self._give_up(running, problem)
            return None
        self._mark(running)
        if len(running.standing) < len(running.replacements):
            self._keep(running)
            return POLL_SECONDS
        if running.command.method == REBALANCE:
            await self._note_moves(running)
        if running.command.binds_pods:
            await self._close_places(running)
        await self._delete(running)
        self._ineffective.attempted(running.command)
        self._keep(running)
        self._end(running)
        self.context.decide(
            self.log.debug,
            "command succeeded",
            command_drafts.done(running.command, running.id),
            **_facts(running),
        )
        return None

    async def _problem(self, running: Running) -> str:
        """Check the replacements; return why the command cannot succeed, or nothing."""
        for replacement in running.replacements:
            name = replacement.metadata.name
            if name in running.standing and not running.is_watched:
                continue
            claim = await self._claim(replacement)
            if claim is None or is_deleting(claim):
                return f"replacement {name} is gone"
            if name in running.standing:
                continue
            self.context.recorder.publish(events.launching(claim, running.command.reason))
            if is_true(claim.status.conditions, INITIALIZED):
                running.standing.add(name)
            else:
                self.context.recorder.publish(events.waiting_for(claim))
        elapsed = self.clock.monotonic() - running.began
        most = timeout(len(self._machines))
        if elapsed > most and len(running.standing) < len(running.replacements):
            return f"its replacements were not ready within {most:.0f} s"
        return ""

    async def _claim(self, replacement: NodeClaim) -> NodeClaim | None:
        known = self.context.mirror(NodeClaim).get(replacement.metadata.name)
        if known is not None and known.metadata.uid == replacement.metadata.uid:
            return known
        # The mirror may lag behind the creation of the claim
        return await read_again(self.context, replacement)

    def _keep(self, running: Running) -> None:
        """Nominate the replacements that are up: they are empty until the evicted pods arrive."""
        until = later(self.clock.now(), nomination_window(self.context.settings.batch_max_duration))
        for name in sorted(running.standing):
            self.context.state.nominate(name, until)

    async def _note_moves(self, running: Running) -> None:
        """Note what a rebalance is about to move, once."""
        if running.moved_at is None:
            running.moved_at = self.clock.now().replace(microsecond=0)
            self.context.metrics.rebalance_pods_moved_total.inc(moved_pods(running.command))
        await self._record.note(running.command, running.replacements, running.moved_at)
        self._leaving |= {
            each.claim.metadata.uid: each.claim.metadata.name for each in running.command.candidates
        }

    async def _close_places(self, running: Running) -> None:
        """Keep the nodes that take moved pods for them; writing that again changes nothing."""
        snapshot = self.context.state.snapshot()
        if running.awaited is None:  # it counts pods that are there before the first one is moved
            made = [claim.metadata.name for claim in running.replacements]
            until = later(self.clock.now(), CLOSED_FOR)
            running.awaited = awaited_after(running.command, made, snapshot, until)
        for name, awaited in running.awaited.items():
            machine = snapshot.node(name)
            if machine is not None and machine.node is not None:
                with suppress(GoneError):  # its pods are left to the scheduler
                    await close(self.context, machine.node, awaited)

    async def _delete(self, running: Running) -> None:
        waiting = [c for c in running.command.candidates if c.name not in running.going]
        outcomes = await asyncio.gather(
            *(self._end_of(candidate, running) for candidate in waiting), return_exceptions=True
        )
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        if failures:
            raise failures[0]

    async def _end_of(self, candidate: Candidate, running: Running) -> None:
        claim = self.context.mirror(NodeClaim).get(candidate.claim.metadata.name)
        if (
            claim is None
            or is_deleting(claim)
            or claim.metadata.uid != candidate.claim.metadata.uid
        ):
            # It has been deleted by another writer
            running.going.add(candidate.name)
            return
        bound = running.command.drain_bound
        if bound is not None:
            moment = later(self.clock.now(), bound)

            def with_deadline(found: NodeClaim) -> dict[str, Any] | None:
                text = tightened(found, moment)
                if text is None:
                    return None
                return {"metadata": {"annotations": {TERMINATION_TIMESTAMP: text}}}

            try:
                claim = await change(self.context, claim, with_deadline)
            except GoneError:
                running.going.add(candidate.name)
                return
        was_there = await self.context.delete(claim)
        running.going.add(candidate.name)
        if was_there:
            for event in events.terminating(candidate, running.command.reason):
                self.context.recorder.publish(event)
            self._tally.disrupted(candidate, running.command)

    async def _give_up(self, running: Running, problem: str) -> None:
        missing = len(running.replacements) - len(running.standing)
        self._tally.failed(running.command, missing)
        self.context.decide(
            self.log.warning,
            "command failed",
            command_drafts.failed(running.command, running.id, problem),
            error=problem,
            **_facts(running),
        )
        staying = [c for c in running.command.candidates if c.name not in running.going]
        self.context.decisions.untie(c.claim.metadata.uid for c in staying)
        self._unmark(running)
        try:
            await self._wait_longer(running)
            await self._roll_back(running)
        finally:
            # Release after the rollback: a new command may reserve the machine and mark it
            self._end(running)

    async def _wait_longer(self, running: Running) -> None:
        """Double the wait of machines whose return to spot has failed."""
        if not is_return(running.command):
            return
        for candidate in running.command.candidates:

            def once_more(found: NodeClaim) -> dict[str, Any] | None:
                if labels.FELL_BACK not in found.metadata.annotations:
                    return None
                return {"metadata": {"annotations": failed_return(found.metadata.annotations)}}

            try:
                await change(self.context, candidate.claim, once_more)
            except GoneError:
                continue
            except KubeError as error:
                # It waits no longer than before: the types that are sold out drop off all the same
                self.log.warning("noting a failed return to spot", error=str(error))

    async def _roll_back(self, running: Running) -> None:
        staying = [c for c in running.command.candidates if c.name not in running.going]
        outcomes = await asyncio.gather(
            *(self._marker.take_off(candidate.machine) for candidate in staying),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, KubeError):
                # The next pass removes the marks that are left
                self.log.warning("rolling back", error=str(outcome), **_facts(running))
            elif isinstance(outcome, BaseException):
                raise outcome

    def _mark(self, running: Running) -> None:
        # ``_claim_changed`` removed the marks if a replacement was missing for a moment
        for candidate in running.command.candidates:
            if candidate.name not in running.going:
                self.context.state.mark(candidate.claim.metadata.name)

    def _unmark(self, running: Running) -> None:
        for candidate in running.command.candidates:
            if candidate.name not in running.going:
                self.context.state.unmark(candidate.claim.metadata.name)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Reconcile at once when a replacement is initialized, or never will be."""
        claim = new or old
        number = self._waiting_for.get(claim.metadata.uid) if claim is not None else None
        running = self._running.get(number) if number is not None else None
        if running is None or claim is None:
            return
        if claim.metadata.name in running.standing and not running.is_watched:
            return
        if new is None or is_deleting(new):
            # The provisioner must not plan for the pods of machines that stay after all
            self._unmark(running)
            self.queue.add(running.id)
        elif is_true(new.status.conditions, INITIALIZED):
            self.queue.add(running.id)

    def _end(self, running: Running) -> None:
        self._running.pop(running.id, None)
        for replacement in running.replacements:
            self._waiting_for.pop(replacement.metadata.uid, None)
        self.release(running.id)


def timeout(candidates: int) -> float:
    """How long a command may take, in seconds, with so many machines in the queue."""
    return min(max(_TIMEOUT_EACH * candidates, _SHORTEST_TIMEOUT), _LONGEST_TIMEOUT)


def _facts(running: Running) -> dict[str, Any]:
    command = running.command
    return {
        "command-id": running.id,
        "reason": command.reason.lower(),
        "decision": command.decision.value,
    }
