"""Planning a disruption pass without blocking the event loop.

A pass runs in a thread, on an immutable snapshot. It yields to provisioning while pods have just
become pending, because both need the same processor, and it is cancelled when its result is no
longer wanted.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from karpenter.api.legacy import Provisioner
from karpenter.api.pods import Pod
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import InstanceType
from karpenter.controllers.context import Context
from karpenter.controllers.node_pools.managed import can_be_asked_for, is_served
from karpenter.controllers.pool_types import PoolTypes
from karpenter.controllers.provisioning.triggers import is_provisionable
from karpenter.disruption import commands
from karpenter.disruption.blocked_nodes import BlockedNode, blocked_nodes
from karpenter.disruption.budgets import REASONS, Allowance, allowance
from karpenter.disruption.candidates import Kind
from karpenter.disruption.claim_conditions import patience
from karpenter.disruption.commands import Command, Finding
from karpenter.disruption.context import DisruptionContext, Memory
from karpenter.disruption.known_machines import KnownMachines
from karpenter.disruption.methods.repair import REBOOTS_COUNT_FOR
from karpenter.disruption.plan import METHODS, Search
from karpenter.disruption.rebalance.history import RebalanceHistory
from karpenter.disruption.rebalance.settings import RebalanceSettings, is_wanted
from karpenter.disruption.rebalance.shares import ClusterShares
from karpenter.disruption.validation import Validation, validated
from karpenter.model.conditions import DRIFTED
from karpenter.pass_settings import disruption_settings, with_spot_seen
from karpenter.scheduling.attempt import HasTime
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.inputs.cluster import as_planned, catalogue_of
from karpenter.scheduling.spot.fallback import return_of
from karpenter.state.departing_pods import protected_until
from karpenter.state.snapshot import Snapshot

T = TypeVar("T")

_SEARCH_SECONDS: Final = {
    commands.MULTI: 60.0,
    commands.SINGLE: 180.0,
    commands.REBALANCE: 180.0,
}
_NO_HISTORY: Final = RebalanceHistory()
# How long after a pod became pending disruption yields to provisioning
_WAY_SECONDS: Final = 2.0
_NAP: Final = 0.005


@dataclass(frozen=True, slots=True)
class DisruptionPass:
    """A pass that has begun, with what is reported about the cluster whichever method decides."""

    search: Search
    protected: tuple[Pod, ...]  # pods of our machines with an annotation that protects them
    holds_until: datetime | None  # when something changes without an event
    blocked: tuple[BlockedNode, ...]  # nodes that no method may take

    @property
    def view(self) -> DisruptionContext:
        """The cluster as the pass sees it."""
        return self.search.view

    @property
    def allowances(self) -> tuple[Allowance, ...]:
        """What budgets leave to each pool, for each reason; the same as in ``PassPreview``."""
        view = self.view
        pools = sorted(view.snapshot.node_pools)
        return tuple(view.allowance(pool, reason) for pool in pools for reason in REASONS)


def prepared(view: DisruptionContext) -> DisruptionPass:
    """Compute in the thread what is reported about every pass."""
    view.standing(Kind.EVENTUAL)
    for pool in view.snapshot.node_pools:
        for reason in REASONS:
            view.allowance(pool, reason)
    protected = tuple(
        pod
        for machine in view.snapshot.nodes
        if machine.node_claim is not None
        for pod in machine.annotated_pods
    )
    kept = tuple(blocked_nodes(view))
    return DisruptionPass(Search(view), protected, next_change(view, protected), kept)


def next_change(view: DisruptionContext, protected: Iterable[Pod]) -> datetime | None:
    """The next moment at which a search may find something else by time alone, without an event.

    That is the end of a nomination, of the protection of a pod, of ``consolidateAfter``, or of the
    wait of a machine that returns to spot.
    """
    moments = list(map(protected_until, protected))
    for machine in view.snapshot.nodes:
        moments.append(machine.nominated_until)
        pool = view.snapshot.node_pools.get(machine.node_pool)
        if pool is None or machine.node_claim is None or not machine.is_initialized:
            continue
        wait = patience(machine.node_claim, pool, now=view.now)
        moments.append(wait.until if wait is not None else None)
        back = return_of(machine.node_claim, pool)
        moments.append(back.due if back is not None else None)
    return min((at for at in moments if at is not None and at > view.now), default=None)


@dataclass(frozen=True, slots=True)
class PassPreview:
    """What can be computed about a cluster without the cost of a pass."""

    idle: frozenset[str]  # methods that cannot find anything
    allowances: tuple[Allowance, ...]  # what budgets leave to each pool, for each reason


def preview(
    snapshot: Snapshot,
    policies: RepairPolicies | None,
    rebalance: RebalanceSettings,
    *,
    now: datetime,
) -> PassPreview:
    """Find the methods that a pass would run in vain, without the cost of a pass."""
    allowances = tuple(
        allowance(pool, snapshot.nodes_of(name), reason, now=now)
        for name, pool in sorted(snapshot.node_pools.items())
        for reason in REASONS
    )
    idle = idle_methods(snapshot, policies)
    if not is_wanted(snapshot.node_pools.values(), rebalance.mode):
        idle |= {commands.REBALANCE}
    return PassPreview(idle, allowances)


def idle_methods(snapshot: Snapshot, policies: RepairPolicies | None) -> frozenset[str]:
    """The methods that cannot find anything in a cluster."""
    idle = {commands.REPAIR, commands.DRIFT, commands.STATIC_DRIFT}
    for machine in snapshot.nodes:
        if machine.node is None or machine.node_claim is None:
            continue
        if machine.has_condition(DRIFTED):
            idle -= {commands.DRIFT, commands.STATIC_DRIFT}
        if policies is not None and any(map(policies.covers, machine.node.status.conditions)):
            idle.discard(commands.REPAIR)
    return frozenset(idle)


class DisruptionPlanner:
    """Makes passes, and keeps between them what the API server does not store."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log
        self.settings: Final = disruption_settings(context.settings)
        self.policies: Final = (
            RepairPolicies(context.cloud.repair_policies) if self.settings.repair else None
        )
        self._compiler = Compiler()
        self._known = KnownMachines()
        self._types = PoolTypes(
            context.cloud,
            self._complain,
            may_fail=lambda pool: not can_be_asked_for(pool),
            may_be_empty=True,
        )
        self._unseen: frozenset[str] = frozenset()
        self._reboots: dict[str, list[datetime]] = {}  # claim uid -> when
        self._pending_pods = _PendingPods(context)
        self._stop = threading.Event()  # ends the pass that is being made

    async def preview(self) -> PassPreview:
        """What is known before a pass is made."""
        snapshot, now = self._context.state.snapshot(), self._context.clock.now()
        policies, rebalance = self.policies, self.settings.rebalance
        return await self.aside(lambda: preview(snapshot, policies, rebalance, now=now))

    async def begin_pass(
        self, in_progress: frozenset[str], rebalances: RebalanceHistory = _NO_HISTORY
    ) -> DisruptionPass:
        """Begin a pass over the cluster as it is now.

        Args:
            in_progress: the names of machines that are part of a command.
            rebalances: what this process knows of them, beside annotations.
        """
        context = self._context
        snapshot = context.snapshot()
        types = await self._instance_types(snapshot)
        now = context.clock.now()
        is_legacy = len(context.mirror(Provisioner)) > 0
        reboots = {uid: tuple(at) for uid, at in self._reboots.items()}
        memory = Memory(self._unseen, reboots, rebalances)
        stop = self._stop = threading.Event()
        planning = with_spot_seen(self.settings.planning, context.spot_seen)
        settings = replace(self.settings, planning=planning)

        def begun() -> DisruptionPass:
            facts, overlays = context.cloud.facts, self.settings.planning.overlays
            seen = as_planned(snapshot, facts.name, overlays=overlays, is_legacy=is_legacy)
            view = DisruptionContext(
                seen,
                catalogue_of(types),
                facts,
                settings,
                now=now,
                in_progress=in_progress,
                memory=memory,
                policies=self.policies,
                compiler=self._compiler,
                known=self._known,
                timer=lambda method: self._timer(method, stop),
            )
            return prepared(view)

        return await self.aside(begun)

    async def find(self, disruption_pass: DisruptionPass, method: str) -> Finding:
        """Let one method look for something to do."""
        finding = await self.aside(lambda: METHODS[method](disruption_pass.search))
        if method == commands.SINGLE:
            self._unseen = finding.unseen_pools
        return finding

    async def check(self, command: Command, fresh: DisruptionPass) -> Validation:
        """Look at a command again, in a later pass."""
        return await self.aside(lambda: validated(command, fresh.view))

    async def lower_bound(self, disruption_pass: DisruptionPass) -> float:
        """What no set of machines for all pods of the cluster can cost less than an hour."""
        return await self.aside(lambda: ClusterShares(disruption_pass.view).lower_bound)

    def rebooted(self, uid: str) -> None:
        """Remember that a machine is being restarted."""
        now = self._context.clock.now()
        self._reboots.setdefault(uid, []).append(now)
        recent = {
            known: [moment for moment in moments if now - moment < REBOOTS_COUNT_FOR]
            for known, moments in self._reboots.items()
        }
        self._reboots = {known: moments for known, moments in recent.items() if moments}

    def end(self) -> None:
        """Stop following pods."""
        self._pending_pods.end()

    async def aside(self, work: Callable[[], T]) -> T:
        """Run something slow in a thread, without blocking the event loop."""
        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            self._stop.set()
            raise

    def _timer(self, method: str, stop: threading.Event) -> HasTime:
        clock, began = self._context.clock, self._context.clock.monotonic()
        allowed = _SEARCH_SECONDS.get(method)
        give_way = self._pending_pods.for_a_thread()

        def has_time() -> bool:
            if stop.is_set():
                return False
            give_way(stop)
            return allowed is None or clock.monotonic() - began < allowed

        return has_time

    async def _instance_types(self, snapshot: Snapshot) -> Mapping[str, tuple[InstanceType, ...]]:
        pools = snapshot.node_pools.values()
        return await self._types.of(pool for pool in pools if is_served(self._context, pool))

    def _complain(self, pool: str, why: str) -> None:
        self._log.error("listing instance types", NodePool={"name": pool}, error=why)


class _PendingPods:
    """Records when a pod last became pending."""

    def __init__(self, context: Context) -> None:
        self._loop_thread = threading.get_ident()
        self._last = float("-inf")  # by time.monotonic, not by the clock of the context
        self._end = context.mirror(Pod).on_change(self._notice)

    def end(self) -> None:
        """Stop following pods."""
        self._end()

    def for_a_thread(self) -> Callable[[threading.Event], None]:
        """A function that a thread calls at intervals to yield the processor to provisioning.

        It waits for at most as long as the thread has worked: a steady stream of pending pods
        slows disruption to half its speed, but does not starve it.
        """
        called = time.monotonic()
        worked = waited = 0.0

        def give_way(stop: threading.Event) -> None:
            nonlocal called, worked, waited
            if threading.get_ident() == self._loop_thread:
                return  # in virtual time the pass runs on the event loop, and must not block it
            began = time.monotonic()
            worked += began - called
            while (
                time.monotonic() - self._last < _WAY_SECONDS
                and waited + time.monotonic() - began < worked
                and not stop.is_set()
            ):
                time.sleep(_NAP)
            called = time.monotonic()
            waited += called - began

        return give_way

    def _notice(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not is_provisionable(new):
            return
        if old is None or not is_provisionable(old):
            self._last = time.monotonic()
