"""The controllers that make room for pods."""

from karpenter.controllers.provisioning.batching import Batcher
from karpenter.controllers.provisioning.binding import EarlyBinder
from karpenter.controllers.provisioning.buffers import BufferController
from karpenter.controllers.provisioning.overlays import OverlayController
from karpenter.controllers.provisioning.planned import PlannedPods
from karpenter.controllers.provisioning.provisioner import Provisioner
from karpenter.controllers.provisioning.static_pools import (
    StaticDeprovisioning,
    StaticProvisioning,
)
from karpenter.controllers.provisioning.triggers import NodeTrigger, PodTrigger
from karpenter.controllers.world import World
from karpenter.runtime import Runnable


def provisioning_controllers(world: World, planned: PlannedPods) -> list[Runnable]:
    """All of them, as far as settings and feature gates ask for them."""
    settings = world.settings
    gates = settings.feature_gates
    batcher = Batcher(
        world.clock, idle=settings.batch_idle_duration, longest=settings.batch_max_duration
    )
    controllers: list[Runnable] = [
        PodTrigger(world, batcher, planned),
        NodeTrigger(world, batcher),
        Provisioner(world, batcher, planned),
    ]
    if gates["StaticCapacity"]:
        controllers += [StaticProvisioning(world), StaticDeprovisioning(world)]
    if gates["CapacityBuffer"]:
        controllers.append(BufferController(world, batcher))
    if gates["NodeOverlay"]:
        controllers.append(OverlayController(world))
    if settings.early_binding:
        controllers.append(EarlyBinder(world, planned))
    return controllers
