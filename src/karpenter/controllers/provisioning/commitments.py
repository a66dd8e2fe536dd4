"""Commitments: whether each is counted on, and how much of it machines use, reported in its status.

Every pass reads the commitments itself; nothing waits for this controller.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from karpenter.api.karpenter import Commitment, NodePool
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.api.times import later
from karpenter.controllers.context import STATUS, Context, Controller
from karpenter.controllers.pool_types import PoolTypes
from karpenter.kube.events import WARNING, Event
from karpenter.model.conditions import (
    FALSE,
    READY,
    TRUE,
    find,
    timestamp,
    to_wire,
    with_condition,
)
from karpenter.pass_settings import pass_settings
from karpenter.scheduling.commitments import Ledger, Use
from karpenter.scheduling.inputs.cluster import as_planned, catalogue_of
from karpenter.scheduling.inputs.commitments import (
    INVALID_COMMITMENT,
    UNKNOWN_TYPES,
    RefusedCommitment,
)
from karpenter.scheduling.inputs.pools import sort_out_pools
from karpenter.scheduling.provisioning import ledger_of
from karpenter.state.snapshot import Snapshot

_AGAIN: Final = 300.0  # machines come and go; their number is told that often at least
_MOST_MEASURED: Final = 100  # commitments with series of their own
_ALL: Final = ("", "")  # commitments are counted together
_EXPIRING: Final = "Expiring"
_SOON: Final = timedelta(days=30)


class CommitmentController(Controller):
    """Counts all commitments whenever one of them, a pool, or the set of nodes changes."""

    name = "commitment"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._commitments = context.mirror(Commitment)
        self._settings = pass_settings(context.settings)
        self._types = PoolTypes(context.cloud, self._complain, may_be_empty=True)
        self._measured: set[str] = set()  # commitments that are exported
        for kind in (Commitment, NodePool):
            self._ends.append(context.mirror(kind).on_change(self._on_change))
        self._ends.append(context.mirror(Node).on_change(self._on_node))

    async def reconcile(self, key: object) -> float | None:
        snapshot = self.context.snapshot()
        if not snapshot.commitments:
            self._measure({})
            return None
        declared = self._commitments.list()
        ledger, refused = await self._counted(snapshot)
        uses = {use.name: use for use in ledger.uses(ledger.balance())} if ledger else {}
        self._measure(uses)
        problems = {each.name: each for each in refused}
        for commitment in sorted(declared, key=lambda each: each.metadata.name):
            name = commitment.metadata.name
            await self._write(commitment, uses.get(name), problems.get(name))
        return _AGAIN

    def _on_change(self, old: Resource | None, new: Resource | None) -> None:
        if old and new and old.metadata.generation == new.metadata.generation:
            return  # only its status is different
        self.queue.add(_ALL)

    def _on_node(self, old: Resource | None, new: Resource | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self.queue.add(_ALL)

    def _measure(self, uses: Mapping[str, Use]) -> None:
        """Export the first so many by name; the others are told in their status alone."""
        metrics = self.context.metrics
        kept = sorted(uses)[:_MOST_MEASURED]
        for name in kept:
            metrics.commitment_used_hourly.labels(commitment=name).set(uses[name].used)
            metrics.commitment_left_hourly.labels(commitment=name).set(uses[name].left)
        for name in self._measured - set(kept):
            metrics.commitment_used_hourly.remove(name)
            metrics.commitment_left_hourly.remove(name)
        self._measured = set(kept)

    async def _counted(
        self, snapshot: Snapshot
    ) -> tuple[Ledger | None, Sequence[RefusedCommitment]]:
        facts = self.context.cloud.facts
        pools = sort_out_pools(snapshot.node_pools.values(), snapshot.node_classes, facts).dynamic
        types = await self._types.of(pools)
        planned = as_planned(snapshot, facts.name, overlays=self._settings.overlays)
        return await asyncio.to_thread(
            ledger_of,
            planned,
            catalogue_of(types),
            facts,
            self._settings,
            now=self.clock.now(),
        )

    async def _write(
        self, commitment: Commitment, use: Use | None, problem: RefusedCommitment | None
    ) -> None:
        now, metadata, status = self.clock.now(), commitment.metadata, commitment.status
        is_counted = use is not None and (problem is None or problem.reason == UNKNOWN_TYPES)
        conditions = with_condition(
            status.conditions,
            READY,
            TRUE if is_counted else FALSE,
            problem.reason if problem is not None else "",
            problem.detail if problem is not None else "",
            now=now,
            generation=metadata.generation,
        )
        expires = commitment.spec.expires
        is_soon = expires is not None and now < expires <= later(now, _SOON)
        conditions = with_condition(
            conditions,
            _EXPIRING,
            TRUE if is_soon else FALSE,
            "ExpiresSoon" if is_soon else "NotSoon",
            f"it expires at {timestamp(expires)}" if is_soon else "",
            now=now,
            generation=metadata.generation,
        )
        if problem is not None and _has_changed(commitment, problem):
            self._warn(commitment, problem)
        body: dict[str, Any] = {
            "usedHourly": _dollars(use.used) if use is not None else None,
            "leftHourly": _dollars(use.left) if use is not None else None,
            "machines": use.machines if use is not None else None,
        }
        before = {
            "usedHourly": status.used_hourly,
            "leftHourly": status.left_hourly,
            "machines": status.machines,
        }
        if conditions != status.conditions or body != before:
            written = {"status": {**body, "conditions": to_wire(conditions)}}
            await self.context.patch(commitment, written, locked=True, subresource=STATUS)

    def _warn(self, commitment: Commitment, problem: RefusedCommitment) -> None:
        uid = commitment.metadata.uid
        self.context.recorder.publish(
            Event(commitment, WARNING, INVALID_COMMITMENT, problem.detail, dedupe=(uid,))
        )

    def _complain(self, pool: str, why: str) -> None:
        name = {"name": pool}
        self.log.warning("commitments are counted without nodepool", NodePool=name, error=why)


def _has_changed(commitment: Commitment, problem: RefusedCommitment) -> bool:
    known = find(commitment.status.conditions, READY)
    return known is None or (known.reason, known.message) != (problem.reason, problem.detail)


def _dollars(amount: float) -> str:
    return f"{amount:.4f}"
