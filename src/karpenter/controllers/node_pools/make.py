"""The controllers that keep the status of pools."""

from karpenter.controllers.node_pools.counter import CounterController
from karpenter.controllers.node_pools.hashing import HashController
from karpenter.controllers.node_pools.readiness import ReadinessController
from karpenter.controllers.node_pools.registration_health import RegistrationHealthController
from karpenter.controllers.node_pools.validation import ValidationController
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def node_pool_controllers(world: World) -> list[Runnable]:
    """All of them."""
    return [
        ValidationController(world),
        ReadinessController(world),
        HashController(world),
        RegistrationHealthController(world),
        CounterController(world),
    ]
