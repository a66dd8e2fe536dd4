"""Which claims and nodes belong together, as the mirrors have it."""

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.mirrors import BY_PROVIDER_ID
from karpenter.controllers.world import World


def claim_of(world: World, node: Node) -> NodeClaim | None:
    """The claim of a node; none when there are several, since nobody knows which one it is."""
    found = [
        claim
        for claim in world.mirror(NodeClaim).by_index(BY_PROVIDER_ID, node.spec.provider_id)
        if world.is_managed(claim)
    ]
    return found[0] if len(found) == 1 else None


def nodes_of(world: World, claim: NodeClaim) -> list[Node]:
    """Every node that runs on the machine of a claim."""
    return world.mirror(Node).by_index(BY_PROVIDER_ID, claim.status.provider_id)


def has_node_class(world: World, node: Node) -> bool:
    """Whether the node carries the label of one of this cloud's node classes."""
    return any(
        f"{group}/{kind.lower()}" in node.metadata.labels
        for group, kind in world.cloud.facts.node_classes
    )
