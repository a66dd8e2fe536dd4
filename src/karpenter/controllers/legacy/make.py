"""The controllers that honour legacy kinds."""

from karpenter.controllers.legacy.bridge import BridgeController
from karpenter.controllers.runtime import Runnable
from karpenter.controllers.world import World


def legacy_controllers(world: World) -> list[Runnable]:
    """All of them."""
    return [BridgeController(world)]
