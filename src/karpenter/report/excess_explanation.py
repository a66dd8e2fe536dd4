"""What one node pays too much: its price, the shares of its pods, and which of these move cheaply."""

from dataclasses import dataclass
from typing import Any

from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.rebalance.shares import ClusterShares
from karpenter.state.eviction_cost import eviction_cost
from karpenter.state.pods import key_of


@dataclass(frozen=True, slots=True)
class PodShare:
    """What a pod pays of its node's price, and what it costs to evict it."""

    pod: str
    share: float  # dollars per hour
    eviction_cost: float


@dataclass(frozen=True, slots=True)
class NodeExcess:
    """What a node costs, what its pods pay of it in a well-bought cluster, and the difference."""

    price: float
    shares: float
    excess: float
    pods: tuple[PodShare, ...]  # cheap to move first


def excess_of(view: DisruptionContext, name: str) -> NodeExcess | None:
    """The excess of a node, or None where its price is unknown or its pods stay with it."""
    shares = ClusterShares(view)
    entry = next((each for each in shares.machines if each.name == name), None)
    if entry is None:
        return None
    ours = view.settings.planning.deletion_cost_is_ours
    pods = [
        PodShare(
            key_of(pod),
            shares.share_of.get(key_of(pod), 0.0),
            eviction_cost(pod, deletion_cost_is_ours=ours),
        )
        for pod in entry.pods
    ]
    pods.sort(key=lambda each: (each.eviction_cost, -each.share, each.pod))
    return NodeExcess(entry.price, entry.shares, entry.excess, tuple(pods))


def excess_document(excess: NodeExcess) -> dict[str, Any]:
    """Write an excess as plain data."""
    return {
        "price": excess.price,
        "shares": excess.shares,
        "excess": excess.excess,
        "pods": [
            {"pod": each.pod, "share": each.share, "evictionCost": each.eviction_cost}
            for each in excess.pods
        ],
    }
