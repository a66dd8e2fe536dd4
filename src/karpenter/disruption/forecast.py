"""The forecast: the commands of disruption one after the other, without changing the cluster.

The forecast works at one fixed moment. Conditions that controllers have written are used as they
are; absent ones are computed. Forced commands have begun already, and the machines that pending
pods would be placed on stay, as if provisioning had nominated them.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypedDict, Unpack

import msgspec

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Condition
from karpenter.api.times import later
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import ProviderFacts
from karpenter.disruption.claim_conditions import drift_reason, patience
from karpenter.disruption.commands import REBALANCE, Command
from karpenter.disruption.context import DisruptionContext, DisruptionSettings, Memory, Timer
from karpenter.disruption.methods.forced import forced_commands
from karpenter.disruption.projected_state import ProjectedState
from karpenter.model.conditions import CONSOLIDATABLE, DRIFTED, LAUNCHED, TRUE
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.provisioning import Catalogue
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot


def with_conditions(snapshot: Snapshot, catalogue: Catalogue, *, now: datetime) -> Snapshot:
    """The same cluster with the conditions of claims computed where they are absent."""
    foresight = _Foresight(snapshot, catalogue, now)
    return replace(snapshot, nodes=tuple(map(foresight.of, snapshot.nodes)))


class _Foresight:
    def __init__(self, snapshot: Snapshot, catalogue: Catalogue, now: datetime) -> None:
        self._now = now
        self._pools = snapshot.node_pools
        self._types = {
            name: {each.name: each for each in catalogue(pool)}
            for name, pool in snapshot.node_pools.items()
        }

    def of(self, machine: StateNode) -> StateNode:
        """A machine with the conditions its claim would have."""
        claim = machine.node_claim
        pool = self._pools.get(machine.node_pool)
        if claim is None or pool is None or machine.is_deleting:
            return machine
        known = {condition.type for condition in claim.status.conditions}
        added: list[Condition] = []
        if CONSOLIDATABLE not in known:
            wait = patience(claim, pool, now=self._now, is_initialized=machine.is_initialized)
            if wait is not None and wait.is_over:
                added.append(self._condition(CONSOLIDATABLE))
        if DRIFTED not in known:
            reason = self._drift(claim, pool, has_launched=LAUNCHED not in known)
            if reason:
                added.append(self._condition(DRIFTED, reason))
        if not added:
            return machine
        conditions = (*claim.status.conditions, *added)
        status = msgspec.structs.replace(claim.status, conditions=conditions)
        return replace(machine, node_claim=msgspec.structs.replace(claim, status=status))

    def _drift(self, claim: NodeClaim, pool: NodePool, *, has_launched: bool) -> str:
        types = self._types[pool.metadata.name]
        return drift_reason(
            claim,
            pool,
            types,
            now=self._now,
            # a claim with a machine has launched; without a catalogue its type is not checked
            has_launched=has_launched or None,
            is_type_known=not types,
        )

    def _condition(self, kind: str, reason: str = "") -> Condition:
        return Condition(
            type=kind, status=TRUE, reason=reason or kind, last_transition_time=self._now
        )


class ForecastOptions(TypedDict, total=False):
    """The optional arguments of a forecast."""

    policies: RepairPolicies | None  # when a machine is repaired as one method among others
    memory: Memory | None  # of earlier passes
    timer: Timer


class DisruptionForecast:
    """A cluster and the commands begun in it."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        facts: ProviderFacts,
        settings: DisruptionSettings,
        *,
        now: datetime,
        legacy_policies: Sequence[RepairPolicy] = (),
        **options: Unpack[ForecastOptions],
    ) -> None:
        """Begin with forced commands; the arguments are those of ``plan_disruption``."""
        self._facts = facts
        self._settings = settings
        self._now = now
        self._options = options
        self._compiler = Compiler()
        self._until = later(now, settings.nomination)
        self._after = ProjectedState(
            with_conditions(snapshot, catalogue, now=now), facts, catalogue
        )
        self.before: Final = self.context()  # before any nomination or command
        self.is_paused: Final = self.before.is_paused
        self.forced: Final = tuple(forced_commands(self.before, legacy_policies))
        for command in self.forced:
            self.begin(command)
        if not self.is_paused:
            # Again after forced commands: their machines take no pods, and their pods need room
            view = self.context() if self.forced else self.before
            self._after.expect(view.awaited, until=self._until)

    def begin(self, command: Command) -> None:
        """Begin a command; while a rebalance is carried out, no other one is begun."""
        if command.method == REBALANCE:
            known = self._options.get("memory") or Memory()
            busy = replace(known.rebalance, is_busy=True)
            self._options["memory"] = replace(known, rebalance=busy)
        self._after.begin(command, until=self._until)

    def context(self) -> DisruptionContext:
        """Begin a pass over the cluster as it is now."""
        return DisruptionContext(
            self._after.snapshot,
            self._after.types,
            self._facts,
            self._settings,
            now=self._now,
            in_progress=self._after.in_progress,
            compiler=self._compiler,
            **self._options,
        )
