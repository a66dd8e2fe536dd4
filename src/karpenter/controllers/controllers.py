"""All controllers of one term of leadership, assembled according to settings and feature gates."""

from collections.abc import Sequence
from typing import Any

from karpenter.api.karpenter import CapacityBuffer, NodeClaim, NodePool
from karpenter.api.nodes import Node
from karpenter.controllers.context import Context
from karpenter.controllers.disruption.conditions import ClaimConditions
from karpenter.controllers.disruption.deletion_cost import DeletionCostQueue, DeletionCosts
from karpenter.controllers.disruption.emptiness_timestamp import EmptinessStamps
from karpenter.controllers.disruption.ineffective_moves import IneffectiveMoves
from karpenter.controllers.disruption.legacy_health import LegacyHealth
from karpenter.controllers.disruption.loop import DisruptionLoop
from karpenter.controllers.disruption.move_binding import MoveBinder
from karpenter.controllers.disruption.queue import CommandQueue
from karpenter.controllers.disruption.reboot.controller import RebootController
from karpenter.controllers.disruption.spot_return import SpotReturn
from karpenter.controllers.legacy.bridge import BridgeController
from karpenter.controllers.lifecycle.consistency import ConsistencyController
from karpenter.controllers.lifecycle.expiration import ExpirationController
from karpenter.controllers.lifecycle.garbage_collection import (
    ClaimGarbageCollector,
    InstanceGarbageCollector,
)
from karpenter.controllers.lifecycle.hydration import ClaimHydration, NodeHydration
from karpenter.controllers.lifecycle.lifecycle import Finalizer, LifecycleController
from karpenter.controllers.lifecycle.pod_events import PodEvents
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.controllers.node_pools.hashing import HashController
from karpenter.controllers.node_pools.readiness import ReadinessController
from karpenter.controllers.node_pools.registration_health import (
    RegistrationHealth,
    RegistrationHealthController,
)
from karpenter.controllers.node_pools.usage import CounterController
from karpenter.controllers.node_pools.validation import ValidationController
from karpenter.controllers.observability.condition_gauges import ConditionGauges
from karpenter.controllers.observability.condition_sums import SUMMED_KINDS, ConditionSums
from karpenter.controllers.observability.condition_watch import ConditionWatch
from karpenter.controllers.observability.node_gauges import NodeGauges
from karpenter.controllers.observability.node_sums import NodeSums
from karpenter.controllers.observability.pod_gauges import PodMetrics
from karpenter.controllers.observability.pool_gauges import CostGauge, PoolGauges, PriceTracker
from karpenter.controllers.observability.scraped import Scraped
from karpenter.controllers.observability.sync_watch import SyncWatch
from karpenter.controllers.provisioning.batching import Batcher
from karpenter.controllers.provisioning.binding import EarlyBinder
from karpenter.controllers.provisioning.buffers import BufferController
from karpenter.controllers.provisioning.commitments import CommitmentController
from karpenter.controllers.provisioning.overlays import OverlayController
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.provisioner import Provisioner
from karpenter.controllers.provisioning.static_pools import (
    StaticDeprovisioning,
    StaticProvisioning,
)
from karpenter.controllers.provisioning.triggers import NodeTrigger, PodTrigger
from karpenter.controllers.spot_history import SpotHistoryKeeper
from karpenter.controllers.termination.claims import ClaimFinalizer
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.nodes import NodeTermination
from karpenter.model import labels
from karpenter.runtime import Runnable
from karpenter.telemetry.family import Detail


def disruption_controllers(
    context: Context, planned: PlannedPods, evictions: EvictionQueue
) -> list[Runnable]:
    """The controllers that disrupt machines, as settings and feature gates enable them."""
    settings = context.settings
    gates = settings.feature_gates
    ineffective = IneffectiveMoves(context.clock)
    queue = CommandQueue(context, ineffective)
    controllers: list[Runnable] = [
        *([SpotHistoryKeeper(context)] if settings.spot_interruption_cost > 0 else ()),
        ClaimConditions(context, planned, ineffective),
        queue,
        DisruptionLoop(context, queue, planned),
        # Runs without early binding too: nodes that were closed must be opened
        MoveBinder(context, planned),
        # Runs without repair too: a reboot that was begun must be finished
        RebootController(context, evictions),
        EmptinessStamps(context),
        SpotReturn(context),
    ]
    if gates["NodeRepair"] and settings.legacy_node_repair and context.cloud.repair_policies:
        controllers.append(LegacyHealth(context))
    if gates["PodDeletionCostManagement"]:
        costs = DeletionCostQueue(context)
        controllers += [costs, DeletionCosts(context, queue, costs)]
    return controllers


def make_controllers(context: Context) -> Sequence[Runnable]:
    """The controllers of one term of leadership."""
    planned = PlannedPods()
    health = RegistrationHealth(context)
    termination = termination_controllers(context)
    evictions = next(each for each in termination if isinstance(each, EvictionQueue))
    return [
        *node_pool_controllers(context),
        *legacy_controllers(context),
        *lifecycle_controllers(context, ClaimFinalizer(context), health, planned),
        *termination,
        *provisioning_controllers(context, planned),
        *disruption_controllers(context, planned, evictions),
        *observability_controllers(context, planned),
    ]


def provisioning_controllers(context: Context, planned: PlannedPods) -> list[Runnable]:
    """The controllers that create claims, as settings and feature gates enable them."""
    settings = context.settings
    gates = settings.feature_gates
    batcher = Batcher(
        context.clock, idle=settings.batch_idle_duration, longest=settings.batch_max_duration
    )
    controllers: list[Runnable] = [
        PodTrigger(context, batcher, planned),
        NodeTrigger(context, batcher),
        Provisioner(context, batcher, planned),
    ]
    if gates["StaticCapacity"]:
        controllers += [StaticProvisioning(context), StaticDeprovisioning(context)]
    if gates["CapacityBuffer"]:
        controllers.append(BufferController(context, batcher))
    if gates["NodeOverlay"]:
        controllers.append(OverlayController(context))
    if gates["Commitments"]:
        controllers.append(CommitmentController(context))
    if settings.early_binding:
        controllers.append(EarlyBinder(context, planned))
    return controllers


def termination_controllers(context: Context) -> list[Runnable]:
    """The controllers of one term that remove nodes."""
    evictions = EvictionQueue(context)
    return [NodeTermination(context, evictions), evictions]


def lifecycle_controllers(
    context: Context, finalizer: Finalizer, health: RegistrationHealth, planned: PlannedPods
) -> list[Runnable]:
    """The controllers of claims between their creation and their deletion."""
    remover = Remover(context)
    return [
        ClaimHydration(context),
        NodeHydration(context),
        LifecycleController(context, finalizer, health, planned, remover),
        ExpirationController(context, remover),
        PodEvents(context),
        ConsistencyController(context),
        ClaimGarbageCollector(context, remover),
        InstanceGarbageCollector(context),
    ]


def node_pool_controllers(context: Context) -> list[Runnable]:
    """All of them."""
    return [
        ValidationController(context),
        ReadinessController(context),
        HashController(context),
        RegistrationHealthController(context),
        CounterController(context),
    ]


def legacy_controllers(context: Context) -> list[Runnable]:
    """All of them."""
    return [BridgeController(context)]


def observability_controllers(
    context: Context, planned: PlannedPods | None = None
) -> Sequence[Runnable]:
    """The controllers that observe.

    Args:
        context: what there is to observe.
        planned: what is remembered about pods that wait; without it, metrics that count from
            the moment a place was found are empty.
    """
    prices = PriceTracker(context)
    always: list[Runnable] = [
        SyncWatch(context),
        prices,
        Scraped("metrics.cost", context, CostGauge(prices)),
    ]
    if context.settings.disable_cluster_state_observability:
        return always
    watches = condition_watches(context)
    is_summed = context.metrics.detail is Detail.POOL
    summed = [each for each in watches if is_summed and each.kind in SUMMED_KINDS]
    shown = [each for each in watches if each not in summed]
    return [
        *always,
        PodMetrics(context, planned or PlannedPods()),
        Scraped("metrics.node", context, NodeSums(context) if is_summed else NodeGauges(context)),
        Scraped("metrics.nodepool", context, PoolGauges(context)),
        *watches,
        Scraped("metrics.conditions", context, ConditionGauges(context.clock, shown)),
        Scraped("metrics.conditions.sums", context, ConditionSums(context.clock, summed)),
    ]


def condition_watches(context: Context) -> Sequence[ConditionWatch[Any]]:
    """One watch for every kind whose conditions operators follow."""
    classes = [f"{group}/{kind.lower()}" for group, kind in context.cloud.facts.node_classes]
    of_machines = [*classes, labels.NODEPOOL]
    watches: list[ConditionWatch[Any]] = [
        ConditionWatch(
            context, NodeClaim, lambda claim: claim.status.conditions, label_keys=of_machines
        ),
        ConditionWatch(context, NodePool, lambda pool: pool.status.conditions),
        ConditionWatch(
            context,
            Node,
            lambda node: node.status.conditions,
            label_keys=[*of_machines, labels.INITIALIZED],
            has_twin=False,
        ),
    ]
    if context.settings.feature_gates["CapacityBuffer"]:
        watches.append(
            ConditionWatch(context, CapacityBuffer, lambda buffer: buffer.status.conditions)
        )
    return watches
