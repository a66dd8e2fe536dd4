"""Which claims and nodes belong together, according to the mirrors."""

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.context import Context
from karpenter.controllers.mirrors import BY_PROVIDER_ID


def nodes_of(context: Context, claim: NodeClaim) -> list[Node]:
    """The Nodes of a claim's machine: one, or none yet; more than one is a fault."""
    return context.mirror(Node).by_index(BY_PROVIDER_ID, claim.status.provider_id)


def claims_of(context: Context, node: Node) -> list[NodeClaim]:
    """The claims of this process's cloud that a Node belongs to."""
    found = context.mirror(NodeClaim).by_index(BY_PROVIDER_ID, node.spec.provider_id)
    return [claim for claim in found if context.is_managed(claim)]


def claim_of(context: Context, node: Node) -> NodeClaim | None:
    """The claim of a node; none when several claims have its provider id, which is ambiguous."""
    found = claims_of(context, node)
    return found[0] if len(found) == 1 else None


def has_node_class(context: Context, node: Node) -> bool:
    """Whether the node carries the label of one of this cloud's node classes."""
    return any(
        f"{group}/{kind.lower()}" in node.metadata.labels
        for group, kind in context.cloud.facts.node_classes
    )
