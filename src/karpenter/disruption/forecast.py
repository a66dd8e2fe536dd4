"""The conditions that controllers would set on claims, for a cluster they have not looked at yet."""

from dataclasses import replace
from datetime import datetime

import msgspec

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Condition
from karpenter.disruption.detection import CONSOLIDATABLE, DRIFTED, drift_reason, patience
from karpenter.scheduling.provisioning import Catalogue
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot


def with_conditions(snapshot: Snapshot, catalogue: Catalogue, *, now: datetime) -> Snapshot:
    """The same cluster with the conditions of claims worked out where they are absent."""
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
            reason = self._drift(claim, pool, has_launched="Launched" not in known)
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
            # a claim with a machine has launched, and without a catalogue nobody can tell
            has_launched=has_launched or None,
            is_type_known=not types,
        )

    def _condition(self, kind: str, reason: str = "") -> Condition:
        return Condition(
            type=kind, status="True", reason=reason or kind, last_transition_time=self._now
        )
