"""The number and total size of a pool's nodes: written to its status, compared with its limits.

Machines that are being removed do not count; a machine that starts counts with the capacity in its
claim.
"""

from collections.abc import Iterable
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.node_pools.managed import is_served
from karpenter.controllers.node_pools.readiness import write_conditions
from karpenter.kube.mirror import Key
from karpenter.model.conditions import READY, find
from karpenter.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NODES,
    PODS,
    Resources,
    format_amount,
    total,
)
from karpenter.state.nodes import StateNode

_ALWAYS_SHOWN = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES)
_AGAIN: Final = 5.0
_UNTIL_SYNCED: Final = 1.0


def usage_of(nodes: Iterable[StateNode]) -> Resources:
    """The capacity of machines, the number of them included."""
    staying = [node for node in nodes if not node.is_deleting]
    return total(node.capacity for node in staying) + Resources.of({NODES: len(staying)})


def shown_usage(used: Resources) -> dict[str, str]:
    """Usage as a pool's status has it: the usual resources are there even when there are none."""
    return {name: format_amount(name, 0) for name in _ALWAYS_SHOWN} | used.to_wire()


def exceeded_limit(pool: NodePool, used: Resources) -> str | None:
    """Say which limit of a pool has been passed, or None when none has."""
    limits = Resources.from_wire(pool.spec.limits)
    for name in sorted(pool.spec.limits):
        if used[name] > limits[name]:
            have, limit = format_amount(name, used[name]), format_amount(name, limits[name])
            return f"{name} of {have} is over the limit of {limit}"
    return None


class CounterController(Controller):
    """Counts what pools have."""

    name = "nodepool.counter"
    kind = NodePool

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pools = context.mirror(NodePool)
        self.follow(self._pools)

    async def reconcile(self, key: Key) -> float | None:
        pool = self._pools.get(key[1])
        if pool is None or not is_served(self.context, pool):
            return None
        if not self.context.is_synced:
            return _UNTIL_SYNCED
        used = usage_of(self.context.state.snapshot().nodes_of(pool.metadata.name))
        resources, count = shown_usage(used), used[NODES]
        if dict(pool.status.resources) != resources or pool.status.nodes != count:
            gone = dict.fromkeys(pool.status.resources.keys() - resources.keys())
            status = {"resources": {**gone, **resources}, "nodes": count}
            if find(pool.status.conditions, READY) is None:
                # The first write of a status adds all conditions, whichever controller makes it
                await write_conditions(self.context, pool, pool.status.conditions, **status)
            else:
                await self.context.patch(pool, {"status": status}, subresource="status")
        return _AGAIN
