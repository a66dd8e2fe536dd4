"""Hydration: claims and their Nodes carry the label that names their node class.

Objects created by older releases may lack it; the other controllers recognise managed Nodes by it.
"""

from collections.abc import Iterable

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.lifecycle.claim_changes import added
from karpenter.controllers.lookup import claims_of, nodes_of
from karpenter.kube.mirror import Key, key_of
from karpenter.runtime import REASONABLE


class ClaimHydration(Controller):
    """Labels claims."""

    name = "nodeclaim.hydration"
    kind = NodeClaim
    backoff = REASONABLE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.follow(context.mirror(NodeClaim))

    async def reconcile(self, key: Key) -> float | None:
        """Put the label on a claim that lacks it."""
        claim = self.context.mirror(NodeClaim).get(key[1])
        if claim is not None and self.context.is_managed(claim):
            await _label(self.context, claim, claim)
        return None


class NodeHydration(Controller):
    """Labels Nodes."""

    name = "node.hydration"
    kind = Node
    backoff = REASONABLE

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.follow(context.mirror(Node))
        self.follow(context.mirror(NodeClaim), self._keys_of_claim)

    async def reconcile(self, key: Key) -> float | None:
        """Put the label on the Node of a claim."""
        node = self.context.mirror(Node).get(key[1])
        claims = claims_of(self.context, node) if node is not None else []
        if node is not None and len(claims) == 1:
            await _label(self.context, node, claims[0])
        return None

    def _keys_of_claim(self, claim: NodeClaim) -> Iterable[Key]:
        return [key_of(node) for node in nodes_of(self.context, claim)]


def class_label(claim: NodeClaim) -> dict[str, str]:
    """The label that names the node class of a claim; none if the claim names none."""
    reference = claim.spec.node_class_ref
    if not reference.name:
        return {}
    return {f"{reference.group}/{reference.kind.lower()}": reference.name}


async def _label(context: Context, obj: NodeClaim | Node, claim: NodeClaim) -> None:
    missing = added(obj.metadata.labels, class_label(claim))
    if missing:
        await context.patch(obj, {"metadata": {"labels": missing}})
