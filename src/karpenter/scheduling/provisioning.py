"""One pass over a cluster: which pods are pending, where they would go, and the resulting events.

This is everything the controller and the command line have in common. It is a function of a
snapshot: reading the cluster and acting on the outcome are left to the callers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.model.conditions import LAUNCHED, find, in_words
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.commitments import Ledger, running_machines
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.effort import too_many_rules
from karpenter.scheduling.compiled.templates import template_requirements
from karpenter.scheduling.compiled.topology_groups import NamespaceDirectory
from karpenter.scheduling.devices.inputs import DeviceInputs
from karpenter.scheduling.inputs.buffers import ResolvedBuffer, Scalable, buffer_of, resolve_buffer
from karpenter.scheduling.inputs.commitments import (
    INVALID_COMMITMENT,
    RefusedCommitment,
    read_commitments,
    unmatched,
)
from karpenter.scheduling.inputs.cost_annotations import (
    INVALID_COST_ANNOTATION,
    invalid_annotations,
)
from karpenter.scheduling.inputs.daemons import daemons_of
from karpenter.scheduling.inputs.default_spread import default_spread
from karpenter.scheduling.inputs.ignored_pods import Ignored
from karpenter.scheduling.inputs.overlays import RefusedOverlay
from karpenter.scheduling.inputs.pending_pods import take_in
from karpenter.scheduling.inputs.pools import Pools, sort_out_pools
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.inputs.volumes import node_volumes, resolve_volumes
from karpenter.scheduling.plan import Alternative, Plan, Reason, Unplaced, Why
from karpenter.scheduling.problem import Options, PoolCatalogue, Problem
from karpenter.scheduling.solve import Witness, solve
from karpenter.scheduling.spot.annotations import SPOT_RATIO_IGNORED, ignored_ratio, invalid_ratio
from karpenter.scheduling.spot.fallback import invalid_return
from karpenter.scheduling.spot.workload_ratio import WorkloadOutcome, WorkloadRatios
from karpenter.scheduling.static_pools import StaticOutcome, plan_static
from karpenter.state.departing_pods import pods_to_move
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot, with_going

COSTLY_TO_PLAN: Final = "CostlyToPlan"  # the reason of an event
FAILED_SCHEDULING: Final = "FailedScheduling"
# How Karpenter's events begin; users search for it
_FAILED_TO_SCHEDULE: Final = "Failed to schedule pod"
_NOTHING_LEFT: Final = "NodePool requirements filtered out all compatible available instance types"
_MIN_VALUES_LEFT_NOTHING: Final = f"{_NOTHING_LEFT} due to minValues incompatibility"
CLASS_NOT_READY: Final = "NodeClassNotReady"  # the reason of another, on the node class

Catalogue: TypeAlias = Callable[[NodePool], tuple[InstanceType, ...]]


@dataclass(frozen=True, slots=True)
class PassSettings:
    """The settings and feature gates that shape a pass."""

    options: Options = field(default_factory=Options)
    overlays: bool = False
    buffers: bool = False
    static: bool = False
    commitments: bool = False
    deletion_cost_is_ours: bool = False  # written by Karpenter, so ignored in eviction costs
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferOutcome:
    """The outcome of a buffer: its number of virtual pods, and the nodes they fit on."""

    name: str  # "namespace/name"
    replicas: int
    ready: bool  # all of it fits on machines that exist or are starting
    nodes: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event that the controller would emit."""

    target: str  # "Kind/name" or "Kind/namespace/name"
    reason: str
    message: str
    is_warning: bool = True


@dataclass(frozen=True, slots=True)
class ProvisioningPlan:
    """The outcome of a pass."""

    plan: Plan
    ignored: tuple[Ignored, ...]
    pools: Pools
    buffers: tuple[BufferOutcome, ...] = ()
    static: tuple[StaticOutcome, ...] = ()
    refused_overlays: tuple[RefusedOverlay, ...] = ()
    refused_commitments: tuple[RefusedCommitment, ...] = ()
    events: tuple[Announcement, ...] = ()
    waiting_for: tuple[str, ...] = ()  # claims that must launch before anything is planned
    why_unlaunched: tuple[str, ...] = ()  # messages of these claims' conditions, if any
    next_passes: Mapping[str, str] = field(default_factory=dict)  # pod -> why a later one takes it
    cheapest: Alternative | None = None  # what packing by price would cost, where that was asked
    workload_ratios: tuple[WorkloadOutcome, ...] = ()  # of the workloads that have a spot ratio


def plan_provisioning(
    snapshot: Snapshot,
    catalogue: Catalogue,
    facts: ProviderFacts,
    settings: PassSettings,
    *,
    now: datetime,
    has_time: HasTime = always,
    first: Sequence[str] = (),
    last: Collection[str] = (),
    compiler: Compiler | None = None,
    witness: Witness | None = None,
) -> ProvisioningPlan:
    """Plan one pass over a cluster; the other arguments are those of ``solve``."""
    static = _static(snapshot, facts, settings, now=now)
    snapshot = with_going(snapshot, {name for outcome in static for name in outcome.delete})
    ground = PassInputs(snapshot, catalogue, facts, settings, compiler, now=now)
    moving = pods_to_move(snapshot.nodes, snapshot.pdbs.values(), now=now)
    pods = _distinct([*ground.intake.pods, *ground.virtual, *moving])
    outcome = ProvisioningPlan(
        Plan(),
        ground.intake.ignored,
        ground.pools,
        static=static,
        refused_overlays=ground.refused_overlays,
        refused_commitments=ground.refused_commitments,
        waiting_for=tuple(claim.metadata.name for claim in snapshot.unlaunched),
        why_unlaunched=tuple(
            f"{claim.metadata.name}: {in_words(found)}"
            for claim in snapshot.unlaunched
            if (found := find(claim.status.conditions, LAUNCHED)) is not None
        ),
    )
    if outcome.waiting_for:
        plan = Plan(deferred=tuple(sorted(key_of(pod) for pod in pods)))
    elif not ground.pools.dynamic:
        plan = Plan(unplaced=tuple(_without_pools(pod, ground.pools) for pod in pods))
    else:
        problem, failures = ground.problem(pods)
        plan = solve(problem, has_time, first, compiler, witness, last=last)
        unplaced = [failures[uid] for uid in sorted(failures)]
        plan = replace(plan, unplaced=(*plan.unplaced, *unplaced))
        outcome = replace(outcome, workload_ratios=ground.workloads.outcomes)
    classes = {
        name: pool.spec.template.spec.node_class_ref for name, pool in snapshot.node_pools.items()
    }
    outcome = _announced(replace(outcome, plan=plan), ground.buffers, ground.virtual, classes)
    invalid = [
        Announcement(f"Pod/{pod}", INVALID_COST_ANNOTATION, said)
        for pod, said in ground.workloads.invalid
    ]
    return replace(outcome, events=(*outcome.events, *invalid)) if invalid else outcome


def _static(
    snapshot: Snapshot, facts: ProviderFacts, settings: PassSettings, *, now: datetime
) -> tuple[StaticOutcome, ...]:
    if not settings.static:
        return ()
    pools = sort_out_pools(snapshot.node_pools.values(), snapshot.node_classes, facts).static
    ours = settings.deletion_cost_is_ours
    return plan_static(pools, snapshot, now=now, deletion_cost_is_ours=ours)


class PassInputs:
    """The inputs of a pass: the pods that wait, the pools to use, and the refused of both."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        facts: ProviderFacts,
        settings: PassSettings,
        compiler: Compiler | None = None,
        *,
        now: datetime,
    ) -> None:
        """Determine the inputs of a pass; nothing is planned yet.

        ``compiler`` caches overlaid catalogues from one pass to the next.
        """
        compiler = compiler or Compiler()
        self._snapshot = snapshot
        self._facts = facts
        self._settings = settings
        self._storage = Storage.of(snapshot)
        self.pools: Final = sort_out_pools(
            snapshot.node_pools.values(), snapshot.node_classes, facts
        )
        overlaid = _catalogues(snapshot, self.pools, catalogue, settings, compiler)
        self.catalogues: Final = overlaid.pools
        self.refused_overlays: Final = overlaid.refused
        ledger, refused = _ledger(snapshot, self.catalogues, settings, compiler, now)
        self.ledger: Final = ledger
        self.refused_commitments: Final = refused
        self.intake: Final = take_in(_candidates(snapshot), self._storage, facts)
        self.buffers: Final = _buffers(snapshot) if settings.buffers else ()
        self.virtual: Final = [pod for buffer in self.buffers for pod in buffer.pods]

    @cached_property
    def workloads(self) -> WorkloadRatios:
        """The workloads that have a spot ratio."""
        pools = [entry.node_pool for entry in self.catalogues]
        return WorkloadRatios(self._snapshot, pools, self._facts.well_known_labels)

    def problem(
        self, pods: Sequence[Pod], *, ignores_ratios: bool = False
    ) -> tuple[Problem, Mapping[str, Unplaced]]:
        """The problem of placing pods, and those that cannot enter it, by uid.

        Those are pods whose volumes cannot be resolved, and pods with more required topology rules
        than allowed. With ``ignores_ratios`` no pod is kept off spot by its workload's spot ratio.
        """
        snapshot, settings = self._snapshot, self._settings
        volumes = resolve_volumes(pods, self._storage)
        failures = {
            pod.metadata.uid: Unplaced(key_of(pod), (reason,))
            for pod in pods
            if (reason := too_many_rules(pod)) is not None
        } | dict(volumes.failures)
        entering = [pod for pod in pods if pod.metadata.uid not in failures]
        problem = Problem(
            pods=entering if ignores_ratios else self.workloads.applied(entering),
            nodes=snapshot.nodes,
            pools=self.catalogues,
            facts=self._facts,
            options=settings.options,
            daemons=daemons_of(
                snapshot.daemon_sets.values(),
                snapshot.daemon_pods.values(),
                ignore_device_claims=settings.options.ignore_device_claims,
            ),
            namespaces=NamespaceDirectory(snapshot.namespace_labels, snapshot.pods),
            volumes=volumes.by_pod,
            node_volumes=node_volumes(snapshot.nodes, self.catalogues, self._storage),
            default_spread=default_spread(entering, settings.default_constraints, snapshot),
            ledger=self.ledger,
            devices=DeviceInputs(
                claims=tuple(snapshot.resource_claims.values()),
                slices=tuple(snapshot.resource_slices.values()),
                classes=tuple(snapshot.device_classes.values()),
            ),
        )
        return problem, failures


def _candidates(snapshot: Snapshot) -> list[Pod]:
    """Pods that wait for a node, or may do so."""
    waiting = [(key, pod) for key, pod in snapshot.pods.items() if _waits(pod)]
    return [pod for _, pod in sorted(waiting)]


def _waits(pod: Pod) -> bool:
    if not pod.spec.node_name:
        return True
    return "Unschedulable" in [condition.reason for condition in pod.status.conditions]


def _catalogues(
    snapshot: Snapshot,
    pools: Pools,
    catalogue: Catalogue,
    settings: PassSettings,
    compiler: Compiler,
) -> "_Overlaid":
    listed = [PoolCatalogue(pool, catalogue(pool)) for pool in pools.dynamic]
    if not settings.overlays:
        return _Overlaid(tuple(listed), ())
    overlaid = compiler.overlaid(snapshot.node_overlays.values(), listed)
    return _Overlaid(overlaid.pools, overlaid.refused)


def ledger_of(
    snapshot: Snapshot,
    catalogue: Catalogue,
    facts: ProviderFacts,
    settings: PassSettings,
    *,
    now: datetime,
) -> tuple[Ledger | None, tuple[RefusedCommitment, ...]]:
    """The ledger of a cluster, and the commitments that are not counted on, or in part only."""
    pools = sort_out_pools(snapshot.node_pools.values(), snapshot.node_classes, facts)
    compiler = Compiler()
    overlaid = _catalogues(snapshot, pools, catalogue, settings, compiler)
    return _ledger(snapshot, overlaid.pools, settings, compiler, now)


def _ledger(
    snapshot: Snapshot,
    pools: Sequence[PoolCatalogue],
    settings: PassSettings,
    compiler: Compiler,
    now: datetime,
) -> tuple[Ledger | None, tuple[RefusedCommitment, ...]]:
    """The commitments that can be counted on, with the machines that use them; None without any."""
    if not settings.commitments or not snapshot.commitments:
        return None, ()
    terms, refused = read_commitments(
        snapshot.commitments.values(), now=now, problem_of=compiler.commitment_problem
    )
    book = compiler.book(terms, [pool.instance_types for pool in pools])
    said = (*refused, *unmatched(book))
    if not terms:
        return None, said
    by_pool = {
        pool.node_pool.metadata.name: {each.name: each for each in pool.instance_types}
        for pool in pools
    }
    return Ledger(book, running_machines(snapshot.nodes, by_pool)), said


@dataclass(frozen=True, slots=True)
class _Overlaid:
    pools: tuple[PoolCatalogue, ...]
    refused: tuple[RefusedOverlay, ...]


def _buffers(snapshot: Snapshot) -> tuple[ResolvedBuffer, ...]:
    templates = {key: entry.template for key, entry in snapshot.pod_templates.items()}
    scalables = {
        (kind, key): Scalable(workload.spec.template, workload.spec.replicas)
        for kind, workloads in (
            ("Deployment", snapshot.deployments),
            ("StatefulSet", snapshot.stateful_sets),
            ("ReplicaSet", snapshot.replica_sets),
        )
        for key, workload in workloads.items()
    }
    resolved = (
        resolve_buffer(buffer, templates, scalables)
        for _, buffer in sorted(snapshot.capacity_buffers.items())
    )
    return tuple(buffer for buffer in resolved if buffer is not None)


def _distinct(pods: Iterable[Pod]) -> list[Pod]:
    return list({pod.metadata.uid: pod for pod in pods}.values())


def _without_pools(pod: Pod, pools: Pools) -> Unplaced:
    reasons = pools.excluded or (
        Reason("", Why.NO_POOLS, "there is no NodePool that could make a node for it"),
    )
    return Unplaced(key_of(pod), tuple(reasons))


def _announced(
    outcome: ProvisioningPlan,
    buffers: Sequence[ResolvedBuffer],
    virtual: Sequence[Pod],
    classes: Mapping[str, NodeClassReference],
) -> ProvisioningPlan:
    """Take virtual pods out of the plan, and compute the events."""
    owner = {key_of(pod): buffer_of(pod) for pod in virtual}
    outcomes = tuple(_buffer_outcome(buffer, outcome.plan, owner) for buffer in buffers)
    plan = _without(outcome.plan, owner) if owner else outcome.plan
    events = [
        failed_to_schedule(entry.pod, entry.detail) for entry in outcome.ignored if entry.has_event
    ]
    if outcome.pools.dynamic or _are_ours(outcome.pools.excluded):
        events += [failed_to_schedule(entry.pod, failure_message(entry)) for entry in plan.unplaced]
    if plan.unplaced and not outcome.pools.dynamic:
        events += _class_events(outcome.pools, classes, len(plan.unplaced))
    events += [
        Announcement(f"Pod/{pod}", COSTLY_TO_PLAN, message) for pod, message in plan.costly.items()
    ]
    events += [
        Announcement(
            f"NodePool/{reason.node_pool}",
            "NoCompatibleInstanceTypes",
            f"{said}: {reason.detail}",
        )
        for reason in plan.empty_pools
        for said in (_MIN_VALUES_LEFT_NOTHING if reason.why is Why.MIN_VALUES else _NOTHING_LEFT,)
    ]
    events += [
        Announcement(f"NodePool/{pool.metadata.name}", INVALID_COST_ANNOTATION, said)
        for pool in outcome.pools.dynamic
        for said in (
            *invalid_annotations(pool),
            *invalid_ratio(pool.metadata.annotations, is_pod=False),
            *invalid_return(pool),
        )
    ]
    events += [
        Announcement(f"NodePool/{pool.metadata.name}", SPOT_RATIO_IGNORED, said)
        for pool in outcome.pools.dynamic
        for said in ignored_ratio(pool, template_requirements(pool))
    ]
    events += [
        Announcement(f"Commitment/{each.name}", INVALID_COMMITMENT, each.detail)
        for each in outcome.refused_commitments
    ]
    return replace(outcome, plan=plan, buffers=outcomes, events=tuple(events))


def failed_to_schedule(pod: str, why: str) -> Announcement:
    """The event of a pod that gets no place in a pass."""
    return Announcement(f"Pod/{pod}", FAILED_SCHEDULING, f"{_FAILED_TO_SCHEDULE}, {why}")


def _are_ours(excluded: Iterable[Reason]) -> bool:
    """Whether some excluded pool has a node class of this provider."""
    return any(reason.why is not Why.CLASS_UNSUPPORTED for reason in excluded)


def _class_events(
    pools: Pools, classes: Mapping[str, NodeClassReference], waiting: int
) -> Iterator[Announcement]:
    """The events on node classes that are not ready, while no pool can be used."""
    kept: dict[NodeClassReference, list[Reason]] = {}
    for reason in pools.excluded:
        if reason.why is Why.CLASS_NOT_READY:
            kept.setdefault(classes[reason.node_pool], []).append(reason)
    noun = "pod waits" if waiting == 1 else "pods wait"
    for reference, reasons in kept.items():
        names = ", ".join(reason.node_pool for reason in reasons)
        message = f"{waiting} {noun} for a node and no NodePool can make one; {names}: "
        target = f"{reference.kind}/{reference.name}"
        yield Announcement(target, CLASS_NOT_READY, message + reasons[0].detail)


def failure_message(entry: Unplaced) -> str:
    """Why no pool takes a pod, in one sentence."""
    return "; ".join(
        f"nodepool {reason.node_pool}: {reason.detail}" if reason.node_pool else reason.detail
        for reason in entry.reasons
    )


def _buffer_outcome(buffer: ResolvedBuffer, plan: Plan, owner: Mapping[str, str]) -> BufferOutcome:
    def holds(pods: Iterable[str]) -> int:
        return sum(owner.get(pod) == buffer.name for pod in pods)

    existing = {node: count for node, pods in plan.existing.items() if (count := holds(pods))}
    made = [claim.name for claim in plan.claims if holds(claim.pods)]
    ready = bool(buffer.pods) and sum(existing.values()) == len(buffer.pods)
    nodes = (*sorted(existing), *made)
    return BufferOutcome(buffer.name, len(buffer.pods), ready, nodes, buffer.detail)


def _without(plan: Plan, virtual: Mapping[str, str]) -> Plan:
    def real(pods: Iterable[str]) -> tuple[str, ...]:
        return tuple(pod for pod in pods if pod not in virtual)

    existing = {node: kept for node, pods in plan.existing.items() if (kept := real(pods))}
    return replace(
        plan,
        claims=tuple(replace(claim, pods=real(claim.pods)) for claim in plan.claims),
        existing=existing,
        unplaced=tuple(entry for entry in plan.unplaced if entry.pod not in virtual),
        deferred=real(plan.deferred),
        unevaluated=real(plan.unevaluated),
        costly={pod: message for pod, message in plan.costly.items() if pod not in virtual},
    )
