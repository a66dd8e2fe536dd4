"""One pass over a cluster: which machines may be disrupted, within which budgets, with what effect.

Everything is computed on first use and then cached, because the pass works at one fixed moment. The
clock is read only for the deadline, between one step and the next: a pass may run in a thread for
long, and the caller cancels it that way.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeClassReference
from karpenter.cloud.repair import RepairPolicies
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.disruption.budgets import Allowance, allowance
from karpenter.disruption.candidates import Blocked, Candidate, Inspection, Kind
from karpenter.disruption.costs import price_of, reschedule_cost
from karpenter.disruption.known_machines import KnownMachines
from karpenter.disruption.rebalance.history import RebalanceHistory
from karpenter.disruption.rebalance.settings import RebalanceSettings
from karpenter.disruption.simulation import Simulation
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.share_cache import ShareCache
from karpenter.scheduling.inputs.overlays import apply_overlays
from karpenter.scheduling.plan import PlannedClaim, machine_of
from karpenter.scheduling.problem import CostOptions, PoolCatalogue
from karpenter.scheduling.provisioning import Announcement, Catalogue, PassInputs, PassSettings
from karpenter.state.nodes import StateNode, nomination_window
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot

Timer: TypeAlias = Callable[[str], HasTime]  # method -> whether it still has time


@dataclass(frozen=True, slots=True)
class DisruptionSettings:
    """The settings and feature gates that shape disruption."""

    planning: PassSettings = field(default_factory=PassSettings)
    spot_to_spot: bool = False
    repair: bool = False
    legacy_repair: bool = False  # by a controller of its own, without budgets
    terminate_first_drift: bool = False
    terminate_first_repair: bool = False
    rebalance: RebalanceSettings = field(default_factory=RebalanceSettings)
    nomination: timedelta = field(
        default_factory=nomination_window
    )  # how long a machine waits for its pods


@dataclass(frozen=True, slots=True)
class Memory:
    """The results of earlier passes that the next one uses."""

    unseen_pools: frozenset[str] = frozenset()  # not reached by the last single-node search
    reboots: Mapping[str, Sequence[datetime]] = field(default_factory=dict)  # claim uid -> when
    rebalance: RebalanceHistory = field(default_factory=RebalanceHistory)  # beyond annotations


def no_hurry(method: str) -> HasTime:
    """A timer that never runs out."""
    return always


class DisruptionContext:
    """A cluster at one moment, as the methods see it."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        facts: ProviderFacts,
        settings: DisruptionSettings,
        *,
        now: datetime,
        in_progress: Collection[str] = (),
        memory: Memory | None = None,
        policies: RepairPolicies | None = None,
        compiler: Compiler | None = None,
        known: KnownMachines | None = None,
        timer: Timer = no_hurry,
    ) -> None:
        """Begin a pass.

        Args:
            catalogue: the types of a pool; empty when they cannot be listed.
            in_progress: names of machines that are part of a command already.
            policies: when a machine counts as unhealthy; None without repair.
            compiler: the cache of earlier passes; not to be shared between concurrent passes.
            known: what earlier passes found out about machines; not to be shared either.
        """
        self.snapshot: Final = snapshot
        self.facts: Final = facts
        self.settings: Final = settings
        self.now: Final = now
        self.memory: Final = memory or Memory()
        self.policies: Final = policies
        self.timer: Final = timer
        self._compiler = compiler or Compiler()
        self._known = known or KnownMachines()
        self._known.forget(snapshot.nodes)
        self._catalogue = catalogue
        self.ground: Final = PassInputs(
            snapshot, catalogue, facts, settings.planning, self._compiler, now=now
        )
        self.inspection: Final = Inspection(
            snapshot,
            self._types_by_pool(catalogue),
            now,
            frozenset(in_progress),
            settings.planning.deletion_cost_is_ours,
            self._known,
        )
        self._allowances: dict[tuple[str, str], Allowance] = {}
        self._totals: dict[str, tuple[float, float]] = {}

    def over(self, snapshot: Snapshot) -> "DisruptionContext":
        """The same pass over another cluster, such as the one a command would leave behind."""
        return DisruptionContext(
            snapshot,
            self._catalogue,
            self.facts,
            self.settings,
            now=self.now,
            in_progress=self.inspection.in_progress,
            memory=self.memory,
            policies=self.policies,
            compiler=self._compiler,
            known=self._known,
            timer=self.timer,
        )

    @property
    def share_cache(self) -> ShareCache:
        """Shares of pods that earlier passes have proved."""
        return self._compiler.shares

    def standing(self, kind: Kind) -> Mapping[str, Candidate | Blocked]:
        """Every machine by name: a candidate, or why it is blocked."""
        return self._graceful if kind is Kind.GRACEFUL else self._eventual

    def candidates(self, kind: Kind) -> list[Candidate]:
        """The machines that may be disrupted, by name."""
        return [each for each in self.standing(kind).values() if isinstance(each, Candidate)]

    def blocked(self, kind: Kind) -> dict[str, Blocked]:
        """The machines that may not be disrupted, and why."""
        found = self.standing(kind).items()
        return {name: each for name, each in found if isinstance(each, Blocked)}

    def allowance(self, pool: str, reason: str) -> Allowance:
        """What the budgets of a pool allow for a reason."""
        known = self._allowances.get((pool, reason))
        if known is None:
            found = self.snapshot.node_pools[pool]
            machines = self.snapshot.nodes_of(pool)
            known = allowance(found, machines, reason, now=self.now)
            self._allowances[pool, reason] = known
        return known

    def remaining(self, reason: str) -> dict[str, int]:
        """How many more machines of each pool may be disrupted for a reason; free to be changed."""
        return {p: self.allowance(p, reason).remaining for p in sorted(self.snapshot.node_pools)}

    def closed_budgets(self, reason: str) -> list[Announcement]:
        """The events about pools whose budgets allow nothing for a reason."""
        found = [self.allowance(pool, reason) for pool in sorted(self.snapshot.node_pools)]
        return [
            Announcement(
                f"NodePool/{entry.node_pool}",
                "DisruptionBlocked",
                f"No allowed disruptions for disruption reason {reason} due to {_culprit(entry)}",
                is_warning=False,
            )
            for entry in found
            if entry.total and not entry.allowed
        ]

    def savings(
        self, candidates: Iterable[Candidate], claims: Iterable[PlannedClaim] = ()
    ) -> float:
        """By how much the bill falls when machines go and claims are launched in their place.

        A machine that commitments pay saves nothing unless another one takes its coverage.
        """
        going, coming = tuple(candidates), tuple(claims)
        listed = sum(candidate.price for candidate in going) - sum(
            claim.launch.price for claim in coming if claim.launch is not None
        )
        return listed - self.lost_coverage(going, coming)

    def lost_coverage(
        self, candidates: Iterable[Candidate], claims: Iterable[PlannedClaim] = ()
    ) -> float:
        """How much less commitments pay when machines go and claims are launched."""
        ledger = self.ground.ledger
        if ledger is None:
            return 0.0
        after = ledger.balance({candidate.name for candidate in candidates})
        for claim in claims:
            after.take(machine_of(claim))
        return ledger.covered - after.covered

    def simulation(
        self,
        candidates: Sequence[Candidate],
        *,
        ignores_ratios: bool = False,
        cost: CostOptions | None = None,
    ) -> Simulation:
        """A simulation that these candidates may be removed from.

        ``cost``: how prices shape it, in place of the settings.
        """
        return Simulation(
            self.snapshot,
            self.ground,
            candidates,
            now=self.now,
            compiler=self._compiler,
            ignores_ratios=ignores_ratios,
            cost=cost,
        )

    def simulations(
        self, candidates: Sequence[Candidate]
    ) -> Iterator[tuple[Candidate, Simulation]]:
        """Yield candidates one after the other, each with a simulation.

        Mostly the first candidate is taken, and compiling for one is cheaper than for all.
        """
        rest = self.simulation(candidates[1:])
        for number, candidate in enumerate(candidates):
            yield candidate, rest if number else self.simulation([candidate])

    def totals(self, pool: str) -> tuple[float, float]:
        """The price of all machines of a pool per hour, and the cost of moving all their pods."""
        known = self._totals.get(pool)
        if known is None:
            types = self.inspection.types.get(pool, {})
            machines = [m for m in self.snapshot.nodes_of(pool) if m.node_claim is not None]
            known = self._totals[pool] = (
                sum(price_of(machine, types) or 0.0 for machine in machines),
                sum(self._moving_cost(machine) for machine in machines),
            )
        return known

    @cached_property
    def buffered(self) -> frozenset[str]:
        """The machines that virtual pods of CapacityBuffers would be placed on."""
        spare = {key_of(pod) for pod in self.ground.virtual}
        if not spare:
            return frozenset()  # most clusters have none, and the simulation is expensive
        return frozenset(
            name for name, pods in self._arrivals.items() if not spare.isdisjoint(pods)
        )

    @cached_property
    def awaited(self) -> frozenset[str]:
        """The machines that pending and departing pods, but no virtual ones, would be placed on."""
        spare = {key_of(pod) for pod in self.ground.virtual}
        return frozenset(name for name, pods in self._arrivals.items() if set(pods) - spare)

    @cached_property
    def _arrivals(self) -> Mapping[str, tuple[str, ...]]:
        """Where pending pods, and pods of machines that are being deleted, would be placed."""
        ground, nodes = self.ground, self.snapshot.nodes
        if not ground.pools.dynamic or all(machine.is_deleting for machine in nodes):
            return {}
        departing = (machine.pods for machine in nodes if machine.is_deleting)
        if not any((ground.virtual, ground.intake.pods, *departing)):
            return {}
        return self.simulation([]).replacing([]).outcome.existing

    @cached_property
    def _graceful(self) -> dict[str, Candidate | Blocked]:
        return {
            name: each
            if isinstance(each, Blocked)
            else self.inspection.pod_blocker(each.machine) or each
            for name, each in self._whatever_its_pods.items()
        }

    @cached_property
    def _eventual(self) -> dict[str, Candidate | Blocked]:
        return {
            name: each
            if isinstance(each, Candidate) and each.claim.spec.termination_grace_period is not None
            else self._graceful[name]
            for name, each in self._whatever_its_pods.items()
        }

    @cached_property
    def _whatever_its_pods(self) -> dict[str, Candidate | Blocked]:
        look = self.inspection
        return {
            machine.name: look.machine_blocker(machine)
            or look.pool_blocker(machine)
            or look.described(machine)
            for machine in sorted(self.snapshot.nodes, key=lambda machine: machine.name)
        }

    @property
    def is_paused(self) -> bool:
        """Whether nothing is decided yet: the room of a claim that has not launched is unknown."""
        return any(self.is_ours(claim.spec.node_class_ref) for claim in self.snapshot.unlaunched)

    def is_ours(self, reference: NodeClassReference) -> bool:
        """Whether the provider serves a node class."""
        return self.facts.serves(reference)

    def _types_by_pool(self, catalogue: Catalogue) -> dict[str, dict[str, InstanceType]]:
        """The types of each pool of this provider, also of those not used for new machines."""
        usable = {entry.node_pool.metadata.name: entry for entry in self.ground.catalogues}
        others: Sequence[PoolCatalogue] = [
            PoolCatalogue(pool, catalogue(pool))
            for name, pool in sorted(self.snapshot.node_pools.items())
            if name not in usable and self.is_ours(pool.spec.template.spec.node_class_ref)
        ]
        if self.settings.planning.overlays and others:
            others = apply_overlays(self.snapshot.node_overlays.values(), others).pools
        by_types: dict[int, dict[str, InstanceType]] = {}  # pools often share a catalogue
        found = {}
        for entry in (*usable.values(), *others):
            types = entry.instance_types
            if id(types) not in by_types:
                by_types[id(types)] = {each.name: each for each in types}
            found[entry.node_pool.metadata.name] = by_types[id(types)]
        return found

    def _moving_cost(self, machine: StateNode) -> float:
        ours = self.settings.planning.deletion_cost_is_ours
        return reschedule_cost(machine.pods, deletion_cost_is_ours=ours)


def _culprit(closed: Allowance) -> str:
    """Which kind of budget allows nothing."""
    problem = f", which cannot be read: {closed.problem}" if closed.problem else ""
    return f"blocking budget{problem}"
