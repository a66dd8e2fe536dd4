"""The controllers of this package, put together."""

from karpenter.controllers.lifecycle.consistency import ConsistencyController
from karpenter.controllers.lifecycle.expiration import ExpirationController
from karpenter.controllers.lifecycle.garbage_claims import ClaimGarbageCollector
from karpenter.controllers.lifecycle.garbage_instances import InstanceGarbageCollector
from karpenter.controllers.lifecycle.hydration import ClaimHydration, NodeHydration
from karpenter.controllers.lifecycle.launch import PlannedPods
from karpenter.controllers.lifecycle.lifecycle import Finalizer, LifecycleController
from karpenter.controllers.lifecycle.pod_events import PodEvents
from karpenter.controllers.lifecycle.registration import RegistrationHealth
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def lifecycle_controllers(
    world: World, finalizer: Finalizer, health: RegistrationHealth, planned: PlannedPods
) -> list[Runnable]:
    """Everything that looks after claims between their creation and their deletion."""
    remover = Remover(world)
    return [
        ClaimHydration(world),
        NodeHydration(world),
        LifecycleController(world, finalizer, health, planned, remover),
        ExpirationController(world, remover),
        PodEvents(world),
        ConsistencyController(world),
        ClaimGarbageCollector(world, remover),
        InstanceGarbageCollector(world),
    ]
