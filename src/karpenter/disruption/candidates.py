"""Which machines may be disrupted at all, and the first reason why each of the others may not.

The checks run in a fixed order, the same for every method: about the machine first, then its pool,
then its pods. Pods always block a *graceful* method; they block an *eventual* one only while the
NodeClaim has no termination grace period; *repair* has rules of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from functools import cached_property

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Condition
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.disruption.costs import BASE_COST, lifetime_cost, offering_of, reschedule_cost
from karpenter.disruption.known_machines import KnownMachines, Surroundings
from karpenter.model import labels
from karpenter.model.conditions import REGISTERED, find, timestamp
from karpenter.state.departing_pods import (
    Budgets,
    is_evictable,
    is_protected,
    is_reschedulable,
    must_move,
    protected_until,
    protection_in_words,
)
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active, key_of
from karpenter.state.snapshot import Snapshot


class Why(StrEnum):
    """Why a machine is not disrupted."""

    IN_PROGRESS = "DisruptionInProgress"
    NOT_MANAGED = "NotManaged"
    NO_NODE = "NodeNotFound"
    REBOOTING = "Rebooting"
    DELETING = "Deleting"
    NOT_INITIALIZED = "NotInitialized"
    NOMINATED = "Nominated"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    NO_POOL = "NodePoolNotFound"
    NO_TYPES = "NoInstanceTypes"
    POD_DO_NOT_DISRUPT = "PodDoNotDisrupt"
    PDB = "PodDisruptionBudget"
    BUDGET = "Budget"
    UNCONSOLIDATABLE = "Unconsolidatable"
    UNSCHEDULABLE = "Unschedulable"
    SPOT_RATIO = "SpotRatio"
    DO_NOT_REPAIR = "DoNotRepair"
    REPAIR_BLOCKED = "RepairBlocked"
    STATIC = "StaticNodePool"
    NOT_EVALUATED = "NotEvaluated"
    NOT_DISRUPTED = "NothingToDo"


class Kind(Enum):
    """How a method treats the pods of a machine."""

    GRACEFUL = "graceful"
    EVENTUAL = "eventual"


@dataclass(frozen=True, slots=True)
class Blocked:
    """A machine that stays, with the first reason."""

    node: str
    why: Why
    detail: str
    has_event: bool = True
    # The text of its event, which begins with Karpenter's wording; no part of equality
    event_message: str = field(default="", compare=False)

    @property
    def message(self) -> str:
        """The text of its event."""
        return self.event_message or self.detail


@dataclass(frozen=True)
class Candidate:
    """A machine that may be disrupted, with the figures that the methods use."""

    machine: StateNode
    node_pool: NodePool
    types: Mapping[str, InstanceType]  # of its pool, by name
    movable: tuple[Pod, ...]  # pods that would need room elsewhere now
    cost: float  # of moving its pods
    known_price: float | None  # an hour
    is_estimate: bool = False  # the price is an estimate

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.machine.name

    @property
    def claim(self) -> NodeClaim:
        """The NodeClaim of the machine."""
        assert self.machine.node_claim is not None
        return self.machine.node_claim

    @property
    def price(self) -> float:
        """What it costs an hour; zero when that is not known."""
        return self.known_price or 0.0

    @property
    def pool(self) -> str:
        """The name of its pool."""
        return self.node_pool.metadata.name

    @property
    def is_empty(self) -> bool:
        """Whether it has no pods to move."""
        return self.cost <= BASE_COST

    @property
    def is_static(self) -> bool:
        """Whether its pool has a fixed number of nodes."""
        return self.node_pool.spec.replicas is not None

    @property
    def ratio(self) -> float:
        """Savings per disruption cost; candidates with the highest ratio come first."""
        return self.price / self.cost

    @property
    def capacity_type(self) -> str:
        """Spot, on-demand or reserved."""
        return self.machine.labels.get(labels.CAPACITY_TYPE, "")

    @property
    def instance_type(self) -> InstanceType | None:
        """The machine's instance type, if its pool's catalogue still lists it."""
        return self.types.get(self.machine.labels.get(labels.INSTANCE_TYPE, ""))

    @cached_property
    def reschedulable(self) -> tuple[Pod, ...]:
        """Pods that would run elsewhere without the machine, protected or not."""
        return tuple(pod for pod in self.machine.pods if is_reschedulable(pod))

    def condition(self, kind: str) -> Condition | None:
        """A condition of the claim."""
        return find(self.claim.status.conditions, kind)

    def lifetime_cost(self, *, now: datetime, deletion_cost_is_ours: bool = False) -> float:
        """The eviction cost of all pods, scaled by the lifetime left."""
        return lifetime_cost(self.machine, now=now, deletion_cost_is_ours=deletion_cost_is_ours)


@dataclass(frozen=True)
class Inspection:
    """The inputs that decide which machines may be disrupted; made once for a pass."""

    snapshot: Snapshot
    types: Mapping[str, Mapping[str, InstanceType]]  # pool -> type name -> type
    now: datetime
    in_progress: Collection[str] = field(default_factory=frozenset)  # names of queued machines
    deletion_cost_is_ours: bool = False
    known: KnownMachines = field(default_factory=KnownMachines)  # what earlier passes found out

    @cached_property
    def pdbs(self) -> Budgets:
        """The PDBs of the cluster."""
        return Budgets(self.snapshot.pdbs.values())

    def described(self, machine: StateNode) -> Candidate:
        """A machine as a candidate; one without a pool gets an empty pool without a name."""
        types = self.types.get(machine.node_pool, {})
        offering = offering_of(machine, types)
        ours = self.deletion_cost_is_ours
        movable, cost = self.known.about(
            machine, ("moving", ours), self._around, lambda: self._moving(machine)
        )
        return Candidate(
            machine=machine,
            node_pool=self.snapshot.node_pools.get(machine.node_pool) or NodePool(),
            types=types,
            movable=movable,
            cost=cost,
            known_price=None if offering is None else offering.price,
            is_estimate=offering is not None and offering.is_estimate,
        )

    def machine_blocker(self, machine: StateNode) -> Blocked | None:
        """What about the machine itself blocks its disruption."""
        if machine.name in self.in_progress:
            return _quietly(machine, Why.IN_PROGRESS, "it is being disrupted already")
        if machine.node_claim is None:
            return _quietly(machine, Why.NOT_MANAGED, "it has no NodeClaim, so it is not ours")
        found = self._state_blocker(machine)
        if found is None:
            return None
        why, detail, event_message = found
        return Blocked(machine.name, why, detail, event_message=event_message)

    def _state_blocker(self, machine: StateNode) -> tuple[Why, str, str] | None:
        """The first of these reasons that applies, with its detail and the text of its event."""
        if machine.node is None:
            missing = "its node is gone"
            if not machine.has_condition(REGISTERED):
                missing = "its node has not appeared yet"
            said = f"Nodeclaim does not have an associated node: {missing}"
            return Why.NO_NODE, missing, said
        if machine.is_rebooting:
            return Why.REBOOTING, "it is being rebooted", "Node is rebooting"
        if machine.is_deleting:
            return Why.DELETING, "it is on its way out", "Node is deleting or marked for deletion"
        if not machine.is_initialized:
            if machine.is_registered:
                return Why.NOT_INITIALIZED, "it is not initialized", "Node isn't initialized"
            detail = "it is neither initialized nor registered"
            return Why.NOT_INITIALIZED, detail, "Node isn't initialized nor registered"
        if machine.is_nominated(self.now):
            return Why.NOMINATED, "pods are expected on it", "Node is nominated for a pending pod"
        if machine.annotations.get(labels.DO_NOT_DISRUPT) == "true":
            detail = f"the node has the annotation {labels.DO_NOT_DISRUPT}"
            said = f'Disruption is blocked through the "{labels.DO_NOT_DISRUPT}" annotation'
            return Why.DO_NOT_DISRUPT, detail, said
        return None

    def pool_blocker(self, machine: StateNode) -> Blocked | None:
        """What about its pool blocks the disruption."""
        pool = machine.node_pool
        if not pool:
            event_message = f"Node doesn't have required label (label={labels.NODEPOOL})"
            detail = f"it has no label {labels.NODEPOOL}"
            return Blocked(machine.name, Why.NO_POOL, detail, event_message=event_message)
        event_message = f"NodePool not found (NodePool={pool})"
        if pool not in self.snapshot.node_pools:
            return Blocked(
                machine.name,
                Why.NO_POOL,
                f"there is no NodePool {pool}",
                event_message=event_message,
            )
        if not self.types.get(pool):
            detail = f"NodePool {pool} has no instance types to choose from"
            return Blocked(
                machine.name, Why.NO_TYPES, detail, event_message=f"{event_message}: {detail}"
            )
        return None

    def pod_blocker(self, machine: StateNode) -> Blocked | None:
        """The first pod, or PDB, that blocks the disruption."""
        return self.known.about(
            machine, "blocker", self._around, lambda: self._found_pod_blocker(machine)
        )

    @cached_property
    def _around(self) -> Surroundings:
        return Surroundings(self.snapshot, self.now)

    def _moving(self, machine: StateNode) -> tuple[tuple[Pod, ...], float]:
        """The pods that would need room elsewhere now, and the cost of moving all pods."""
        movable = tuple(pod for pod in machine.pods if must_move(pod, self.pdbs, now=self.now))
        ours = self.deletion_cost_is_ours
        return movable, reschedule_cost(machine.pods, deletion_cost_is_ours=ours)

    def _found_pod_blocker(self, machine: StateNode) -> Blocked | None:
        for pod in machine.pods:
            if is_active(pod) and is_protected(pod, now=self.now):
                detail, until = protection_in_words(pod), protected_until(pod)
                event_message = f'Pod has "{labels.DO_NOT_DISRUPT}" annotation (Pod={key_of(pod)})'
                event_message += f" until {timestamp(until)}" if until is not None else ""
                return Blocked(
                    machine.name, Why.POD_DO_NOT_DISRUPT, detail, event_message=event_message
                )
        for pod in machine.pods:
            detail = self.held_by(pod)
            if detail:
                return Blocked(
                    machine.name, Why.PDB, detail, event_message=self._held_by_budgets(pod)
                )
        return None

    def _held_by_budgets(self, pod: Pod) -> str:
        """Karpenter's text about blocking PDBs, with the pod and their number."""
        matching = self.pdbs.matching(pod)
        names = " ".join(
            f"{pdb.metadata.namespace or 'default'}/{pdb.metadata.name}" for pdb in matching
        )
        if len(matching) > 1:
            said = f"Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])"
        else:
            said = f"Pdb prevents pod evictions (PodDisruptionBudget=[{names}])"
        return f"{said}: {self.held_by(pod)}"

    def held_by(self, pod: Pod) -> str:
        """The PDBs that block the eviction of a pod, as a phrase; empty when none does."""
        if not is_evictable(pod, now=self.now):
            return ""
        matching = self.pdbs.matching(pod)
        if len(matching) > 1:
            names = ", ".join(pdb.metadata.name for pdb in matching)
            return f"pod {key_of(pod)} is selected by several budgets: {names}"
        for pdb in matching:
            if pdb.status.disruptions_allowed == 0:
                name = f"{pdb.metadata.namespace or 'default'}/{pdb.metadata.name}"
                return f"PDB {name} allows 0 of {pdb.status.expected_pods} for pod {key_of(pod)}"
        return ""


def _quietly(machine: StateNode, why: Why, detail: str) -> Blocked:
    return Blocked(machine.name, why, detail, has_event=False)
