"""Hydration: claims and their Nodes carry the label that names their node class.

Objects made by older releases may lack it; the rest of the program tells Nodes of ours by it.
"""

from collections.abc import Iterable

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.controllers.lifecycle.claims import added, claims_of, nodes_of
from karpenter.controllers.runtime import Controller
from karpenter.controllers.world import World
from karpenter.kube.mirror import Key, key_of
from karpenter.runtime import REASONABLE


class ClaimHydration(Controller):
    """Labels claims."""

    name = "nodeclaim.hydration"
    kind = NodeClaim
    backoff = REASONABLE

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.follow(world.mirror(NodeClaim))

    async def reconcile(self, key: Key) -> float | None:
        """Put the label on a claim that lacks it."""
        claim = self.world.mirror(NodeClaim).get(key[1])
        if claim is not None and self.world.is_managed(claim):
            await _label(self.world, claim, claim)
        return None


class NodeHydration(Controller):
    """Labels Nodes."""

    name = "node.hydration"
    kind = Node
    backoff = REASONABLE

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.follow(world.mirror(Node))
        self.follow(world.mirror(NodeClaim), self._keys_of_claim)

    async def reconcile(self, key: Key) -> float | None:
        """Put the label on the Node of a claim."""
        node = self.world.mirror(Node).get(key[1])
        claims = claims_of(self.world, node) if node is not None else []
        if node is not None and len(claims) == 1:
            await _label(self.world, node, claims[0])
        return None

    def _keys_of_claim(self, claim: NodeClaim) -> Iterable[Key]:
        return [key_of(node) for node in nodes_of(self.world, claim)]


def class_label(claim: NodeClaim) -> dict[str, str]:
    """The label that names the node class of a claim; none if the claim names none."""
    reference = claim.spec.node_class_ref
    if not reference.name:
        return {}
    return {f"{reference.group}/{reference.kind.lower()}": reference.name}


async def _label(world: World, obj: NodeClaim | Node, claim: NodeClaim) -> None:
    missing = added(obj.metadata.labels, class_label(claim))
    if missing:
        await world.patch(obj, {"metadata": {"labels": missing}})
