"""Writing the conditions of a NodePool, with Ready as their sum, only when they change."""

from karpenter.api.karpenter import NodePool
from karpenter.controllers.world import World
from karpenter.model.conditions import (
    NODE_POOL_DEPENDENTS,
    Conditions,
    summed_up,
    to_wire,
)


async def write_conditions(
    world: World, pool: NodePool, conditions: Conditions, **status: object
) -> NodePool:
    """Give a pool these conditions, and further fields of its status where some are named."""
    summed = summed_up(conditions, NODE_POOL_DEPENDENTS, pool.metadata, now=world.clock.now())
    if summed == pool.status.conditions and not status:
        return pool
    body = {"status": {"conditions": to_wire(summed), **status}}
    return await world.patch(pool, body, locked=True, subresource="status")
