"""What the controllers of this package run on: the runtime of all controllers, and a world."""

from typing import Final

from karpenter import runtime
from karpenter.controllers.world import World


class Controller(runtime.KeyedController):
    """Base of the controllers that work on keys."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock, world.log, world.metrics)
        self.world: Final = world


class Loop(runtime.LoopController):
    """Base of the controllers that do one thing at a time, over and over."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock, world.log, world.metrics)
        self.world: Final = world
