"""Whether the node class of a pool is there and ready."""

from typing import Final

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.meta import Resource, kind_of
from karpenter.controllers.node_pools.served import is_served, node_class_mirrors
from karpenter.controllers.node_pools.writing import write_conditions
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key, key_of
from karpenter.model.conditions import FALSE, READY, TRUE, find, with_condition
from karpenter.state.snapshot import NodeClass

NODE_CLASS_READY: Final = "NodeClassReady"
_BY_CLASS: Final = "node-class"


class ReadinessController(Controller):
    """Tells in a pool's status whether its node class can be used."""

    name = "nodepool.readiness"
    kind = NodePool

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pools = world.mirror(NodePool)
        self._pools.add_index(_BY_CLASS, lambda pool: (_reference_of(pool),))
        self.follow(self._pools)
        mirrors = node_class_mirrors(world)
        self._seen = {(_group(mirror.kind), kind_of(mirror.kind)) for mirror in mirrors}
        for mirror in mirrors:
            self.follow(mirror, self._pool_keys)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.world, pool):
            return None
        conditions = with_condition(
            pool.status.conditions,
            NODE_CLASS_READY,
            *self._verdict(_reference_of(pool)),
            now=self.clock.now(),
            generation=pool.metadata.generation,
        )
        await write_conditions(self.world, pool, conditions)
        return None

    def _verdict(self, reference: NodeClassReference) -> tuple[str, str, str]:
        if (reference.group, reference.kind) not in self._seen:
            # A kind that only its provider can read; it says at launch what it thinks of it
            return TRUE, "", ""
        return verdict(reference, self.world.state.snapshot().node_classes.get(reference))

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
