"""The controllers that see nodes off."""

from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.controllers.termination.nodes import NodeTermination
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def termination_controllers(world: World) -> list[Runnable]:
    """The controllers of one term that remove nodes."""
    evictions = EvictionQueue(world)
    return [NodeTermination(world, evictions), evictions]
