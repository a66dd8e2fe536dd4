"""Whether the node class of a pool exists and is ready, and the pool's own ``Ready`` condition."""

from typing import Final

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.meta import Resource, kind_of
from karpenter.api.node_classes import NodeClass
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.node_pools.managed import is_served, node_class_mirrors
from karpenter.kube.mirror import Key, key_of
from karpenter.model.conditions import (
    FALSE,
    NODE_CLASS_READY,
    NODE_POOL_DEPENDENTS,
    READY,
    TRUE,
    Conditions,
    find,
    summed_up,
    to_wire,
    with_condition,
)

_BY_CLASS: Final = "node-class"


async def write_conditions(
    context: Context, pool: NodePool, conditions: Conditions, **status: object
) -> NodePool:
    """Give a pool these conditions, and further fields of its status where some are named."""
    summed = summed_up(conditions, NODE_POOL_DEPENDENTS, pool.metadata, now=context.clock.now())
    if summed == pool.status.conditions and not status:
        return pool
    body = {"status": {"conditions": to_wire(summed), **status}}
    return await context.patch(pool, body, locked=True, subresource="status")


class ReadinessController(Controller):
    """Reports in a pool's status whether its node class can be used."""

    name = "nodepool.readiness"
    kind = NodePool

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pools = context.mirror(NodePool)
        self._pools.add_index(_BY_CLASS, lambda pool: (_reference_of(pool),))
        self.follow(self._pools)
        mirrors = node_class_mirrors(context)
        self._seen = {(_group(mirror.kind), kind_of(mirror.kind)) for mirror in mirrors}
        for mirror in mirrors:
            self.follow(mirror, self._pool_keys)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.context, pool):
            return None
        conditions = with_condition(
            pool.status.conditions,
            NODE_CLASS_READY,
            *self._verdict(_reference_of(pool)),
            now=self.clock.now(),
            generation=pool.metadata.generation,
        )
        await write_conditions(self.context, pool, conditions)
        return None

    def _verdict(self, reference: NodeClassReference) -> tuple[str, str, str]:
        if (reference.group, reference.kind) not in self._seen:
            # A kind that only its provider can read, which validates it at launch
            return TRUE, "", ""
        return verdict(reference, self.context.state.snapshot().node_classes.get(reference))

    def _pool_keys(self, node_class: Resource) -> list[Key]:
        reference = NodeClassReference(
            group=_group(type(node_class)),
            kind=node_class.kind,
            name=node_class.metadata.name,
        )
        return [key_of(pool) for pool in self._pools.by_index(_BY_CLASS, reference)]


def verdict(reference: NodeClassReference, node_class: NodeClass | None) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    name = f"{reference.kind} {reference.name}"
    if node_class is None:
        return FALSE, "NodeClassNotFound", f"there is no {name}"
    if node_class.metadata.deletion_timestamp is not None:
        return FALSE, "NodeClassTerminating", f"{name} is being deleted"
    ready = find(node_class.status.conditions, READY)
    if ready is None or ready.status not in (TRUE, FALSE):
        return FALSE, "NodeClassReadinessUnknown", f"nothing says yet whether {name} is ready"
    if ready.status == FALSE:
        return FALSE, ready.reason, ready.message
    return TRUE, "", ""


def _group(kind: type[Resource]) -> str:
    return kind.api_version.partition("/")[0]


def _reference_of(pool: NodePool) -> NodeClassReference:
    return pool.spec.template.spec.node_class_ref
