"""How much of a pool there is: what its status says, and what its limits are held against.

Machines on their way out do not count; a machine that starts counts with what its claim promises.
"""

from collections.abc import Iterable

from karpenter.api.karpenter import NodePool
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
