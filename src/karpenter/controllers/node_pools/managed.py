"""Which pools, and which node classes, are ours."""

from typing import Any

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import kind_of
from karpenter.controllers.world import World
from karpenter.kube.mirror import Mirror


def is_served(world: World, pool: NodePool) -> bool:
    """Whether the pool is for the cloud of this process; all others are left alone."""
    reference = pool.spec.template.spec.node_class_ref
    return (reference.group, reference.kind) in world.cloud.facts.node_classes


def node_class_mirrors(world: World) -> list[Mirror[Any]]:
    """The mirrors of the node classes of this process's cloud."""
    served = world.cloud.facts.node_classes
    return [
        mirror
        for mirror in world.mirrors.all()
        if (mirror.kind.api_version.partition("/")[0], kind_of(mirror.kind)) in served
    ]
