"""Starting a command: mark its machines, create its replacements, then enqueue it.

The machines are not reported as departing until all replacements exist; otherwise the provisioner
would create capacity for the same pods a second time. After a failure in between, the next pass
removes the marks.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.pods import Pod
from karpenter.api.times import later
from karpenter.controllers.context import Context
from karpenter.controllers.disruption import command_drafts
from karpenter.controllers.disruption.conflict_retry import GoneError
from karpenter.controllers.disruption.marking import Marker
from karpenter.controllers.disruption.metrics import Tally
from karpenter.controllers.disruption.queue import CommandQueue, Running
from karpenter.controllers.disruption.reboot.request import request_reboot
from karpenter.controllers.provisioning.claim_bodies import claim_body
from karpenter.controllers.provisioning.creation import ClaimCreator, NotCreatedError
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.reporting import Reporter, listed
from karpenter.disruption.budgets import allowance
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command, Decision
from karpenter.kube.errors import KubeError
from karpenter.model.labels import DO_NOT_DISRUPT, REPLACES
from karpenter.scheduling.plan import PlannedClaim
from karpenter.state.nodes import StateNode, nomination_window
from karpenter.state.pods import is_bound, is_daemon


class AbandonedError(Exception):
    """A command that is not carried out; the text is one sentence."""

    number = ""  # of the command, once records have it


class Executor:
    """Begins commands."""

    def __init__(
        self, context: Context, queue: CommandQueue, planned: PlannedPods, log: Any
    ) -> None:
        self._context = context
        self._queue = queue
        self._planned = planned
        self._log = log
        self._marker = Marker(context, log)
        self._creator = ClaimCreator(context, log)
        self._reporter = Reporter(context, planned, log)
        self._tally = Tally(context.metrics)
        self._window = nomination_window(context.settings.batch_max_duration)

    async def begin(self, command: Command) -> None:
        """Begin to carry out a command.

        Raises:
            AbandonedError: the cluster has changed so that it cannot be carried out.
            KubeError: a request to the API server failed.
        """
        self._validate_again(command)
        number = str(uuid.UUID(int=self._context.rng.getrandbits(128), version=4))
        if command.decision is Decision.REBOOT:
            await self._reboot(command, number)
            return
        if not self._queue.reserve(number, command.names):
            raise AbandonedError("one of its nodes is part of another command")
        names: list[str] = []  # of replacements that are expected, but not created so far
        uids = [candidate.claim.metadata.uid for candidate in command.candidates]
        self._context.decisions.tie(number, uids)
        try:
            # Reserve before the first await, so that limits count replacements not created yet
            self._reserve(command, names)
            command = await self._marked(command, number)
            claims = await self._created(command, names, number)
        except BaseException as error:
            for name in names:
                self._creator.give_up(name)
            self._queue.release(number)
            self._context.decisions.untie(uids)
            if isinstance(error, AbandonedError):
                error.number = number
            else:
                why = str(error) or "this process no longer leads"
                draft = command_drafts.abandoned(command, number, why)
                self._context.decisions.add(self._context.clock.now(), draft)
            raise
        for candidate in command.candidates:
            self._context.state.mark(candidate.claim.metadata.name)
        self._queue.add(Running(number, command, claims, self._context.clock.monotonic()))
        self._tally.decided(command)
        self._tell(command, claims, number)
        await self._nominate(command, claims)

    def _validate_again(self, command: Command) -> None:
        """Make sure that nothing happened to the machines while the command was computed."""
        snapshot, now = self._context.state.snapshot(), self._context.clock.now()
        for candidate in command.candidates:
            machine = snapshot.node(candidate.name)
            problem = outdated(candidate, machine, command)
            if not problem and machine is not None and machine.is_initialized:
                problem = "pods are expected on it" if machine.is_nominated(now) else ""
            if problem:
                raise AbandonedError(f"node {candidate.name}: {problem}")
        paced = Counter(c.pool for c in command.candidates if c.machine.is_initialized)
        for name, count in sorted(paced.items()):
            pool = snapshot.node_pools.get(name)
            if pool is None:
                raise AbandonedError(f"nodepool {name} is gone")
            left = allowance(pool, snapshot.nodes_of(name), command.reason, now=now)
            if left.remaining < count:
                raise AbandonedError(f"the budgets of nodepool {name} do not allow it any more")

    def _reserve(self, command: Command, names: list[str]) -> None:
        """Generate the names of replacements; one that replaces one node counts as one with it."""
        for planned in command.replacements:
            replaces = planned.annotations.get(REPLACES, "")
            try:
                names.append(self._creator.reserve(self._pool_of(planned), replaces=replaces))
            except NotCreatedError as error:
                raise AbandonedError(f"creating a replacement: {error}") from error

    async def _marked(self, command: Command, number: str) -> Command:
        """The command with the candidates that could be marked."""
        outcomes = await asyncio.gather(
            *(self._marker.put_on(c.machine, command.reason) for c in command.candidates),
            return_exceptions=True,
        )
        marked: list[Candidate] = []
        failures: list[str] = []
        for candidate, outcome in zip(command.candidates, outcomes, strict=True):
            if outcome is None:
                marked.append(candidate)
            elif isinstance(outcome, KubeError | GoneError):
                failures.append(f"marking {candidate.name}: {outcome}")
            else:
                raise outcome
        if failures and (not marked or command.decision is Decision.REPLACE):
            raise AbandonedError("; ".join(failures))
        if not failures:
            return command
        kept = {candidate.name for candidate in marked}
        self._queue.release(number, *(name for name in command.names if name not in kept))
        return replace(command, candidates=tuple(marked))

    async def _created(
        self, command: Command, names: list[str], number: str
    ) -> tuple[NodeClaim, ...]:
        """Create the replacements, one by one, and take their names off the list.

        A handler that sees the last one must find the candidates marked, so nothing is awaited
        between its creation and the marks.
        """
        claims: list[NodeClaim] = []
        for planned in command.replacements:
            try:
                claims.append(await self._create(planned, command.reason, names.pop(0), number))
            except NotCreatedError as error:
                raise AbandonedError(f"creating a replacement: {error}") from error
        return tuple(claims)

    async def _create(
        self, planned: PlannedClaim, reason: str, name: str, number: str
    ) -> NodeClaim:
        pool = self._pool_of(planned)
        return await self._creator.create(
            pool,
            lambda drawn: claim_body(planned, pool, drawn),
            name=name,
            reason=reason.lower(),
            planned=planned,
            command=number,
            requests=planned.requests.to_wire(),
            **{"instance-types": listed(planned.instance_types)},
        )

    def _pool_of(self, planned: PlannedClaim) -> NodePool:
        pool = self._context.state.snapshot().node_pools.get(planned.node_pool)
        if pool is None:
            raise NotCreatedError(f"nodepool {planned.node_pool} is gone")
        return pool

    async def _nominate(self, command: Command, claims: Iterable[NodeClaim]) -> None:
        """Nominate the machines that pods are expected on, and publish it on the pods."""
        snapshot = self._context.state.snapshot()
        until = later(self._context.clock.now(), self._window)
        for name in sorted(command.placements):
            self._context.state.nominate(name, until)
        for name, pods in sorted(command.placements.items()):
            machine = snapshot.node(name)
            if machine is None:
                continue
            claim = machine.node_claim.metadata.name if machine.node_claim is not None else ""
            node = machine.node.metadata.name if machine.node is not None else ""
            found = [snapshot.pods[pod] for pod in pods if pod in snapshot.pods]
            await self._reporter.nominate(found, node=node, claim=claim)
        for planned, made in zip(command.replacements, claims, strict=True):
            expected = [snapshot.pods[pod] for pod in planned.pods if pod in snapshot.pods]
            # Running pods will be replaced by new pods, which do not exist yet
            self._planned.expect(made.metadata.name, _waiting(expected))
            await self._reporter.nominate(expected, claim=made.metadata.name)

    async def _reboot(self, command: Command, number: str) -> None:
        (candidate,) = command.candidates
        if not await request_reboot(self._context, command):
            raise AbandonedError(f"node {candidate.name} cannot be restarted any more")
        self._tally.decided(command)
        self._tally.disrupted(candidate, command)
        self._context.decisions.tie(number, (candidate.claim.metadata.uid,))
        self._tell(command, (), number)

    def _tell(self, command: Command, claims: tuple[NodeClaim, ...], number: str) -> None:
        self._context.decide(
            self._log.info,
            "disrupting node(s)",
            command_drafts.begun(command, claims, number),
            reason=command.reason.lower(),
            decision=command.decision.value,
            method=command.method,
            **{
                "command-id": number,
                "disrupted-node-count": len(command.candidates),
                "replacement-node-count": len(claims),
                "pod-count": sum(len(c.reschedulable) for c in command.candidates),
                "disrupted-nodes": [_described(candidate) for candidate in command.candidates],
                "replacement-nodes": [{"NodeClaim": c.metadata.name} for c in claims],
            },
        )


def outdated(candidate: Candidate, machine: StateNode | None, command: Command) -> str:
    """What has happened to a machine since the command was computed; empty if nothing."""
    if machine is None or machine.node is None or machine.node_claim is None:
        return "it is gone"
    if machine.node_claim.metadata.uid != candidate.claim.metadata.uid:
        return "another machine has its name"
    if machine.is_deleting or machine.is_rebooting:
        return "it is on its way out or being restarted"
    if command.repair is None and machine.annotations.get(DO_NOT_DISRUPT) == "true":
        return f"it has the annotation {DO_NOT_DISRUPT}"
    expected = {pod.metadata.uid for pod in candidate.machine.pods}
    if any(not is_daemon(pod) and pod.metadata.uid not in expected for pod in machine.pods):
        return "pods have come to it"
    return ""


def _waiting(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not is_bound(pod)]


def _described(candidate: Candidate) -> dict[str, Any]:
    kind = candidate.instance_type
    return {
        "Node": candidate.name,
        "NodeClaim": candidate.claim.metadata.name,
        "instance-type": kind.name if kind is not None else "",
        "capacity-type": candidate.capacity_type,
    }
