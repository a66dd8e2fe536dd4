"""The controllers of this package, put together."""

from karpenter.controllers.disruption.conditions import ClaimConditions
from karpenter.controllers.disruption.deletion_cost import DeletionCostQueue, DeletionCosts
from karpenter.controllers.disruption.emptiness_stamp import EmptinessStamps
from karpenter.controllers.disruption.legacy_health import LegacyHealth
from karpenter.controllers.disruption.loop import DisruptionLoop
from karpenter.controllers.disruption.queue import CommandQueue
from karpenter.controllers.disruption.reboot import RebootController
from karpenter.controllers.disruption.regrets import Regrets
from karpenter.controllers.provisioning.planned import PlannedPods
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def disruption_controllers(
    world: World, planned: PlannedPods, evictions: EvictionQueue
) -> list[Runnable]:
    """Everything that disrupts machines, as far as settings and feature gates ask for it."""
    settings = world.settings
    gates = settings.feature_gates
    regrets = Regrets(world.clock)
    queue = CommandQueue(world, regrets)
    controllers: list[Runnable] = [
        ClaimConditions(world, planned, regrets),
        queue,
        DisruptionLoop(world, queue, planned),
        # Even without repair: a restart that was begun is finished
        RebootController(world, evictions),
        EmptinessStamps(world),
    ]
    if gates["NodeRepair"] and settings.legacy_node_repair and world.cloud.repair_policies:
        controllers.append(LegacyHealth(world))
    if gates["PodDeletionCostManagement"]:
        costs = DeletionCostQueue(world)
        controllers += [costs, DeletionCosts(world, queue, costs)]
    return controllers
