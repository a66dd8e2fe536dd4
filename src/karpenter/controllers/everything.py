"""All controllers of a term, in one place."""

from collections.abc import Sequence

from karpenter.controllers.disruption.make import disruption_controllers
from karpenter.controllers.legacy.make import legacy_controllers
from karpenter.controllers.lifecycle.make import lifecycle_controllers
from karpenter.controllers.node_pools.make import node_pool_controllers
from karpenter.controllers.node_pools.registration_health import RegistrationHealth
from karpenter.controllers.observability.make import observability_controllers
from karpenter.controllers.provisioning.make import provisioning_controllers
from karpenter.controllers.provisioning.planned import PlannedPods
from karpenter.controllers.termination.claims import ClaimFinalizer
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.make import termination_controllers
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def make_controllers(world: World) -> Sequence[Runnable]:
    """The controllers of one term of leadership."""
    planned = PlannedPods()
    health = RegistrationHealth(world)
    termination = termination_controllers(world)
    evictions = next(each for each in termination if isinstance(each, EvictionQueue))
    return [
        *node_pool_controllers(world),
        *legacy_controllers(world),
        *lifecycle_controllers(world, ClaimFinalizer(world), health, planned),
        *termination,
        *provisioning_controllers(world, planned),
        *disruption_controllers(world, planned, evictions),
        *observability_controllers(world, planned),
    ]
