"""The observers of one term, put together."""

from collections.abc import Sequence
from typing import Any

from karpenter.api.karpenter import CapacityBuffer, NodeClaim, NodePool
from karpenter.api.nodes import Node
from karpenter.controllers.observability.condition_gauges import ConditionGauges
from karpenter.controllers.observability.condition_watch import ConditionWatch
from karpenter.controllers.observability.node_gauges import NodeGauges
from karpenter.controllers.observability.pod_gauges import PodMetrics
from karpenter.controllers.observability.pool_gauges import CostGauge, PoolGauges, PriceTracker
from karpenter.controllers.observability.scraped import Scraped
from karpenter.controllers.observability.sync_watch import SyncWatch
from karpenter.controllers.provisioning.planned import PlannedPods
from karpenter.controllers.world import World
from karpenter.model import labels
from karpenter.runtime import Runnable


def observability_controllers(
    world: World, planned: PlannedPods | None = None
) -> Sequence[Runnable]:
    """Everything that observes.

    Args:
        world: what there is to observe.
        planned: what is remembered about pods that wait; without it, metrics that count from
            the moment a place was found have nothing to tell.
    """
    prices = PriceTracker(world)
    always: list[Runnable] = [
        SyncWatch(world),
        prices,
        Scraped("metrics.cost", world, CostGauge(prices)),
    ]
    if world.settings.disable_cluster_state_observability:
        return always
    watches = condition_watches(world)
    return [
        *always,
        PodMetrics(world, planned or PlannedPods()),
        Scraped("metrics.node", world, NodeGauges(world)),
        Scraped("metrics.nodepool", world, PoolGauges(world)),
        *watches,
        Scraped("metrics.conditions", world, ConditionGauges(world.clock, watches)),
    ]


def condition_watches(world: World) -> Sequence[ConditionWatch[Any]]:
    """One watch for every kind whose conditions operators follow."""
    classes = [f"{group}/{kind.lower()}" for group, kind in world.cloud.facts.node_classes]
    of_machines = [*classes, labels.NODEPOOL]
    watches: list[ConditionWatch[Any]] = [
        ConditionWatch(
            world, NodeClaim, lambda claim: claim.status.conditions, label_keys=of_machines
        ),
        ConditionWatch(world, NodePool, lambda pool: pool.status.conditions),
        ConditionWatch(
            world,
            Node,
            lambda node: node.status.conditions,
            label_keys=[*of_machines, labels.INITIALIZED],
            has_twin=False,
        ),
    ]
    if world.settings.feature_gates["CapacityBuffer"]:
        watches.append(
            ConditionWatch(world, CapacityBuffer, lambda buffer: buffer.status.conditions)
        )
    return watches
