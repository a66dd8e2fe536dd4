"""The controllers that honour legacy kinds."""

from karpenter.controllers.legacy.bridge import BridgeController
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def legacy_controllers(world: World) -> list[Runnable]:
    """All of them."""
    return [BridgeController(world)]
